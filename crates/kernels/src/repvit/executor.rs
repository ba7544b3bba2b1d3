/*!
Runs all blocks, one after the other.

Maps between blocks take turns in two pieces of scratch memory; the last block of a stage writes the
map that the neck reads. Scratch memory is shared with the engines before and after, on the same
stream.
*/

use anyhow::{Context, Result, ensure};

use super::fused::{HOPPER_SIDE, is_hopper, serves_any_gpu};
use super::launches::{COPIES, Kernels, check_shape};
use super::weights::{self, DeviceBlock};
use super::{ALIGNMENT, HALF};
use crate::kernel::Chain;
use crate::{need, need_exactly};
use cuda::cublaslt::ALIGNMENT as SCRATCH_ALIGNMENT;
use cuda::{Gpu, LaunchMode, MemoryTag, Stream, View};
use vos::bundle::trunk::{RepVitBlock, RepVitWeights, STAGES};

/// Bytes of a sum.
const SUM: usize = 8;

/// Shape and weights of a trunk.
#[derive(Clone, Copy)]
pub struct RepVitSource<'a> {
    /// Its blocks.
    pub blocks: &'a [RepVitBlock],
    /// The last block of each stage.
    pub ends: &'a [usize; STAGES],
    /// Of each block.
    pub weights: &'a [RepVitWeights<'a>],
    /// The least side of a block's result for Hopper's kernels; none for the usual one, 32.
    pub hopper_side: Option<usize>,
}

/// RepViT's blocks of one encoder on its stream.
#[derive(Debug)]
pub struct RepVitExecutor {
    kernels: Kernels,
    blocks: Vec<Block>,
    /// All blocks' sums of channels, which are cleared at once.
    sums: Option<View>,
}

/// A block between its maps.
#[derive(Debug)]
pub(super) struct Block {
    pub shape: RepVitBlock,
    /// f16 `[tokens, dim]`, `[tokens_out, dim_out]`.
    pub x: View,
    pub out: View,
    pub gate: Option<Gate>,
    /// Of the next block, if that is gated and this one adds up its sums.
    pub next: Option<NextSums>,
    pub path: Path,
    pub weights: DeviceBlock,
}

/// Where squeeze-and-excite writes.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// Sums of channels, i64 `[COPIES, dim]`.
    pub sums: View,
    /// f32 `[dim]`, of a block that is computed by its parts.
    pub factors: View,
}

/// What a block's tokens count in the next one's sums.
#[derive(Debug)]
pub(super) struct NextSums {
    pub edges: View,
    pub sums: View,
}

/// How a block is computed.
#[derive(Clone, Debug)]
pub(super) enum Path {
    /// By one launch, of this kernel of [`super::fused::FUSED`].
    Fused(usize),
    /// By its parts, with memory between them.
    Parts {
        /// The convolution's results, f16 `[tokens_out, dim]`.
        y: View,
        /// Of other columns, f16 `[tokens_out, dim_out]`.
        projected: View,
        /// f16 `[tokens_out, hidden]`.
        hidden: View,
    },
}

impl Block {
    pub fn factors(&self) -> Option<&View> {
        self.gate.as_ref().map(|gate| &gate.factors)
    }
}

/// Pieces of scratch memory: maps between blocks take turns in the first two.
struct Pieces {
    turns: [View; 2],
    parts: Path,
}

/// Bytes of the pieces.
#[derive(Clone, Copy, Debug, Default)]
struct Scratch {
    map: usize,
    y: usize,
    projected: usize,
    hidden: usize,
}

impl Scratch {
    fn of(blocks: &[RepVitBlock]) -> Self {
        let mut most = Self::default();
        for (at, block) in blocks.iter().enumerate() {
            let bytes = |columns: usize| {
                (HALF * block.tokens_out() * columns).next_multiple_of(SCRATCH_ALIGNMENT)
            };
            most.map = most.map.max(bytes(block.dim_out));
            // The first block, if it is a stage for itself, writes over the map that it reads.
            // Where a driver refuses Hopper's kernels, its blocks are computed by their parts.
            if at == 0 || !serves_any_gpu(block) {
                most.y = most.y.max(bytes(block.dim));
                most.projected = most.projected.max(bytes(block.dim_out));
                most.hidden = most.hidden.max(bytes(block.hidden));
            }
        }
        most
    }

    fn bytes(self) -> usize {
        2 * self.map + self.y + self.projected + self.hidden
    }

    fn pieces(self, scratch: &View) -> Result<Pieces> {
        let mut start = 0;
        let mut next = |bytes: usize| {
            let piece = scratch.part(start, bytes);
            start += bytes;
            piece
        };
        Ok(Pieces {
            turns: [next(self.map)?, next(self.map)?],
            parts: Path::Parts {
                y: next(self.y)?,
                projected: next(self.projected)?,
                hidden: next(self.hidden)?,
            },
        })
    }
}

fn sums_bytes(block: &RepVitBlock) -> usize {
    if block.squeeze > 0 { COPIES * block.dim * SUM } else { 0 }
}

impl RepVitExecutor {
    /// Bytes of scratch memory that these blocks need.
    pub fn scratch_bytes(blocks: &[RepVitBlock]) -> usize {
        Scratch::of(blocks).bytes()
    }

    /// Loads the kernels, for sm 80 and newer, and copies the weights to the device. `maps`: f16
    /// memory of each stage's tokens, the first with the stem's output; `scratch`: at least
    /// [`Self::scratch_bytes`], which nothing else may use while the blocks run.
    ///
    /// # Errors
    /// Blocks that the kernels do not serve, weights or memory of other sizes than theirs, or an
    /// error of the driver.
    pub fn new(
        gpu: &Gpu,
        source: &RepVitSource,
        maps: &[View],
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let RepVitSource { blocks: shapes, ends, weights, hopper_side } = *source;
        ensure!(
            maps.len() == ends.len() && weights.len() == shapes.len(),
            "{} maps and the weights of {} blocks for {} stages and {} blocks",
            maps.len(),
            weights.len(),
            ends.len(),
            shapes.len()
        );
        need(scratch, Self::scratch_bytes(shapes), SCRATCH_ALIGNMENT, "the scratch memory")?;
        let Pieces { turns, parts } = Scratch::of(shapes).pieces(scratch)?;
        let kernels = Kernels::load(gpu, shapes, hopper_side.unwrap_or(HOPPER_SIDE))?;
        let mut x = maps.first().context("no map holds the stem's tokens")?.clone();
        let mut laid_out = Vec::with_capacity(shapes.len());
        for (at, shape) in shapes.iter().enumerate() {
            check_shape(shape).with_context(|| format!("block {at}"))?;
            let bytes = HALF * shape.tokens_out() * shape.dim_out;
            let out = match ends.iter().position(|end| *end == at) {
                Some(stage) => {
                    let map = maps.get(stage).context("more stages than maps")?;
                    need_exactly(map, bytes, ALIGNMENT, "the map of a stage")?;
                    map.clone()
                }
                None => turns[at % 2].part(0, bytes)?,
            };
            need_exactly(&x, HALF * shape.tokens() * shape.dim, ALIGNMENT, "the map of a block")?;
            // The kernel reads tokens that other blocks of its launch would have written over.
            let apart = x.address() != out.address();
            let fused = kernels.fused.of(shape).filter(|_| apart);
            let path = fused.map_or(parts.clone(), Path::Fused);
            laid_out.push((*shape, path, [x, out.clone()]));
            x = out;
        }
        let orders: Vec<(RepVitBlock, bool)> = laid_out
            .iter()
            .map(|(shape, path, _)| (*shape, matches!(path, Path::Fused(_))))
            .collect();
        let loaded = weights::load(gpu, &orders, weights, stream)?;
        let memory = gpu.tagged(MemoryTag::Scratch);
        let bytes = shapes.iter().map(sums_bytes).sum::<usize>();
        let sums = (bytes > 0).then(|| View::new(&memory, bytes)).transpose()?;
        let mut first = 0;
        let mut blocks: Vec<Block> = Vec::with_capacity(shapes.len());
        for ((shape, path, [x, out]), weights) in laid_out.into_iter().zip(loaded) {
            let own = sums.as_ref().filter(|_| shape.squeeze > 0);
            let gate = own.map(|sums| -> Result<Gate> {
                let sums = sums.part(first, sums_bytes(&shape))?;
                Ok(Gate { sums, factors: View::new(&memory, 4 * shape.dim)? })
            });
            first += sums_bytes(&shape);
            let gate = gate.transpose()?;
            // A block that one launch computes adds up the sums of its result.
            if let (Some(before), Some(gate), Some(excite)) =
                (blocks.last_mut(), &gate, &weights.excite)
                && matches!(before.path, Path::Fused(_))
            {
                let (edges, sums) = (excite.edges.clone(), gate.sums.clone());
                before.next = Some(NextSums { edges, sums });
            }
            blocks.push(Block { shape, x, out, gate, next: None, path, weights });
        }
        Ok(Self { kernels, blocks, sums })
    }

    /// Enqueues all blocks. No allocation; may be recorded.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn enqueue(&self, stream: &Stream) -> Result<()> {
        self.enqueue_in(LaunchMode::Pdl, stream)
    }

    /// The same in a launch mode.
    pub(super) fn enqueue_in(&self, mode: LaunchMode, stream: &Stream) -> Result<()> {
        self.clear(stream)?;
        self.enqueue_chain(false, &Chain::begin(stream, mode))
    }

    /// All blocks as a part of a chain, in front of which the sums were cleared ([`Self::clear`]);
    /// `summed`: somebody has added up the first block's sums since.
    pub(crate) fn enqueue_chain(&self, mut summed: bool, chain: &Chain<'_>) -> Result<()> {
        for block in &self.blocks {
            self.run(block, summed, chain)?;
            summed = block.next.is_some();
        }
        Ok(())
    }

    /// One block alone, with its own sums.
    pub(super) fn enqueue_block(&self, at: usize, stream: &Stream) -> Result<()> {
        let block = self.blocks.get(at).context("there is no such block")?;
        if block.gate.is_some() {
            self.clear(stream)?;
        }
        self.run(block, false, &Chain::begin(stream, LaunchMode::Pdl))
    }

    /// The maps that a block takes and gives.
    pub(super) fn maps_of(&self, at: usize) -> Option<[&View; 2]> {
        self.blocks.get(at).map(|block| [&block.x, &block.out])
    }

    /// Whether one of Hopper's kernels computes a block.
    pub(super) fn is_hopper(&self, at: usize) -> bool {
        let path = self.blocks.get(at).map(|block| &block.path);
        matches!(path, Some(Path::Fused(kernel)) if is_hopper(*kernel))
    }

    /// What whoever makes the first block's tokens adds up, where that block is gated.
    pub(super) fn first_sums(&self) -> Option<NextSums> {
        let first = self.blocks.first()?;
        let (gate, excite) = first.gate.as_ref().zip(first.weights.excite.as_ref())?;
        Some(NextSums { edges: excite.edges.clone(), sums: gate.sums.clone() })
    }

    /// Clears all sums, which blocks add to.
    pub(crate) fn clear(&self, stream: &Stream) -> Result<()> {
        self.sums.as_ref().map_or(Ok(()), |sums| Ok(sums.fill(0, stream)?))
    }

    /// `summed`: the block before has added up this one's sums.
    fn run(&self, block: &Block, summed: bool, chain: &Chain) -> Result<()> {
        let gated = block.gate.as_ref().zip(block.weights.excite.as_ref());
        if let Some((gate, excite)) = gated.filter(|_| !summed) {
            self.kernels.sums(block, gate, excite, chain)?;
        }
        match &block.path {
            Path::Fused(kernel) => self.kernels.fused.launch(block, *kernel, chain),
            Path::Parts { y, projected, hidden } => {
                if let Some((gate, excite)) = gated {
                    self.kernels.gate(block, gate, excite, chain)?;
                }
                self.kernels.parts(block, [y, projected, hidden], chain)
            }
        }
    }
}
