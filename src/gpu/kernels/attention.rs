/*!
Attention without a score matrix: O = softmax(Q Kᵀ + bias) V, for the memory attention between two engines, and for the heads
of an encoder that is cut where it attends over its whole map.

TensorRT writes the scores to memory where it does not fuse an attention, 4096 × 28 736 of them in each layer of SAM 2.1 and
4096 × 4096 for each head of its encoder's widest blocks;
`cuda/attention.cu` keeps them on the chip. Hopper has kernels of its own (`cuda/attention_hopper.cu`).

The keys are cut into as many parts as keep the whole GPU busy, and a second kernel merges the parts: merging in each row's
last block saves that launch and was slower wherever both were timed (docs/fused-attention.md).
*/

use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};

use super::images::{self, Topic};
use super::{blocks, int, need_exactly};
use crate::gpu::module::{Arg, Function, Launch, Module};
use crate::gpu::{Gpu, Purpose, Stream, View};

/// Columns of queries and keys of the memory attention.
pub const HEAD: usize = 256;
/// Queries of a block, for all kernels.
const QUERIES: usize = 128;
/// Threads of the kernels that merge parts, as their launches choose.
const MERGE_THREADS: u32 = 256;
/// Bytes of an element: all tensors are fp16.
const HALF: usize = 2;

/// Which attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Values {
    /// To the memory bank, whose tokens are 64 wide and are the values themselves.
    Memory,
    /// Of the frame to itself, with values as wide as the queries.
    Frame,
    /// Of an encoder's map to itself, in heads of 64 columns (narrower ones end in zeros); a shape's objects are its heads.
    Heads64,
    /// The same in heads of 128 columns.
    Heads128,
}

impl Values {
    /// Columns of Q and K.
    pub fn width(self) -> usize {
        match self {
            Self::Memory | Self::Frame => HEAD,
            Self::Heads64 => 64,
            Self::Heads128 => 128,
        }
    }

    /// Columns of V and O.
    pub fn columns(self) -> usize {
        match self {
            Self::Memory | Self::Heads64 => 64,
            Self::Frame => 256,
            Self::Heads128 => 128,
        }
    }

    /// The kernel for any GPU from sm 80 on, or Hopper's own.
    fn kind(self, hopper: bool) -> Kind {
        let (any, own) = match self {
            Self::Memory => (CROSS, CROSS_HOPPER),
            Self::Frame => (SELF, SELF_HOPPER),
            Self::Heads64 => (HEADS_64, HEADS_64_HOPPER),
            Self::Heads128 => (HEADS_128, HEADS_128_HOPPER),
        };
        if hopper { own } else { any }
    }

    /// The kernel that merges its parts.
    fn merge(self) -> &'static str {
        match self {
            Self::Memory | Self::Heads64 => "attention_combine_64",
            Self::Frame => "attention_combine_256",
            Self::Heads128 => "attention_combine_128",
        }
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    threads: u32,
    /// Dynamic shared memory, bytes: `Attention::SHARED` in the source.
    shared: u32,
    /// Keys of a tile: no part of the keys is smaller.
    tile: usize,
}

const CROSS: Kind = Kind { name: "attention_cross", threads: 128, shared: 98_816, tile: 64 };
const SELF: Kind = Kind { name: "attention_self", threads: 256, shared: 98_816, tile: 64 };
const CROSS_HOPPER: Kind =
    Kind { name: "attention_cross_hopper", threads: 384, shared: 231_584, tile: 128 };
const SELF_HOPPER: Kind =
    Kind { name: "attention_self_hopper", threads: 384, shared: 197_888, tile: 64 };
const HEADS_64: Kind = Kind { name: "attention_heads_64", threads: 128, shared: 49_664, tile: 64 };
const HEADS_128: Kind =
    Kind { name: "attention_heads_128", threads: 128, shared: 49_408, tile: 32 };
const HEADS_64_HOPPER: Kind =
    Kind { name: "attention_heads_64_hopper", threads: 384, shared: 133_232, tile: 128 };
const HEADS_128_HOPPER: Kind =
    Kind { name: "attention_heads_128_hopper", threads: 384, shared: 231_616, tile: 128 };

#[derive(Debug)]
struct Pair {
    attend: Function,
    kind: Kind,
    merge: Function,
    /// Blocks of `attend` that run at once on the whole GPU.
    resident: usize,
}

/// A pair of kernels that a track step needs nothing of, or why there is none.
type Heads = Result<Arc<Pair>, Arc<str>>;

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AttentionKernels {
    memory: Arc<Pair>,
    frame: Arc<Pair>,
    heads_64: Heads,
    heads_128: Heads,
    form: Arc<str>,
}

impl AttentionKernels {
    /// Loads the kernels for this GPU: Hopper's own on Hopper, where the driver takes them.
    ///
    /// # Errors
    /// The driver refuses the PTX, or the GPU's blocks have too little shared memory.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        if gpu.facts().sm == 90 {
            match Self::of(gpu, true) {
                Ok(kernels) => return Ok(kernels),
                Err(error) => {
                    log::warn!(
                        "the attention kernels for Hopper cannot be used, slower ones are: {error:#}"
                    );
                }
            }
        }
        Self::of(gpu, false)
    }

    /// Loads those for any GPU from sm 80 on, or (`hopper`) those for Hopper alone. Kernels for heads that cannot be used are an
    /// error of [`Attention::new`] only.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn of(gpu: &Gpu, hopper: bool) -> Result<Self> {
        let (modules, form) = images::load(gpu, &[Topic::Attention])?;
        let (base, mut own, mut form) = (modules, Vec::new(), form);
        if hopper {
            (own, form) = images::load(gpu, &[Topic::AttentionHopper])?;
        }
        let all: Vec<&Module> = own.iter().chain(&base).map(|(_, module)| module).collect();
        let processors = gpu.multiprocessors()? as usize;
        let pair = |values: Values| -> Result<Arc<Pair>> {
            let kind = values.kind(hopper);
            let attend = all[0].function(kind.name)?.with_shared(kind.shared)?;
            let resident = attend.resident_blocks(kind.threads)? as usize * processors;
            ensure!(
                resident > 0,
                "the GPU cannot run the kernel {}: a block of {} threads with {} bytes of shared memory does not fit",
                kind.name,
                kind.threads,
                kind.shared
            );
            let merge = all[all.len() - 1].function(values.merge())?;
            Ok(Arc::new(Pair { attend, kind, merge, resident }))
        };
        let said = |error: anyhow::Error| format!("{error:#}").into();
        Ok(Self {
            memory: pair(Values::Memory)?,
            frame: pair(Values::Frame)?,
            heads_64: pair(Values::Heads64).map_err(said),
            heads_128: pair(Values::Heads128).map_err(said),
            form: form.into(),
        })
    }

    /// What they were loaded from: "PTX 8.2 for sm_90 alone".
    pub fn form(&self) -> &str {
        &self.form
    }

    fn pair(&self, values: Values) -> Result<&Arc<Pair>> {
        let heads = match values {
            Values::Memory => return Ok(&self.memory),
            Values::Frame => return Ok(&self.frame),
            Values::Heads64 => &self.heads_64,
            Values::Heads128 => &self.heads_128,
        };
        heads.as_ref().map_err(|why| {
            let columns = values.columns();
            anyhow!("the attention kernels for heads of {columns} columns cannot be used: {why}")
        })
    }
}

/// Sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Objects or heads, each with queries, keys and values of its own.
    pub objects: usize,
    /// Queries of an object.
    pub queries: usize,
    /// Keys of an object.
    pub keys: usize,
    /// What the values are.
    pub values: Values,
}

/// An attention of one size, with the memory that its parts need.
///
/// Work on different streams at the same time needs a value each.
#[derive(Debug)]
pub struct Attention {
    pair: Arc<Pair>,
    shape: AttentionShape,
    grid: (u32, u32, u32),
    /// Results and sums of the parts; none with a single part.
    parts: Option<Parts>,
}

#[derive(Debug)]
struct Parts {
    results: View,
    sums: View,
}

impl Attention {
    /// Chooses the number of parts and takes memory for them.
    ///
    /// # Errors
    /// Nothing to attend to, sizes beyond 2³¹ elements, kernels for heads that were not loaded, or what the driver says.
    pub fn new(gpu: &Gpu, kernels: &AttentionKernels, shape: AttentionShape) -> Result<Self> {
        let AttentionShape { objects, queries, keys, values } = shape;
        ensure!(
            objects > 0 && queries > 0 && keys > 0,
            "an attention of {objects} objects, {queries} queries and {keys} keys has nothing to do"
        );
        int(objects * queries.max(keys), "the number of queries or keys")?;
        ensure!(objects <= 65_535, "{objects} objects, a launch takes 65535");
        let pair = Arc::clone(kernels.pair(values)?);
        let rows = queries.div_ceil(QUERIES);
        let tiles = keys.div_ceil(pair.kind.tile);
        let splits = splits(pair.resident, rows * objects, tiles);
        let parts = match splits {
            1 => None,
            _ => {
                let scratch = gpu.towards(Purpose::Scratch);
                let lines = objects * splits * queries;
                Some(Parts {
                    results: View::new(&scratch, 4 * lines * values.columns())?,
                    sums: View::new(&scratch, 8 * lines)?,
                })
            }
        };
        let grid = (blocks(rows, 1)?, blocks(splits, 1)?, blocks(objects, 1)?);
        Ok(Self { pair, shape, grid, parts })
    }

    /// Its sizes.
    pub fn shape(&self) -> AttentionShape {
        self.shape
    }

    /// Into how many parts the keys are cut.
    pub fn splits(&self) -> u32 {
        self.grid.1
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        self.pair.attend.name()
    }

    /// Enqueues O = softmax(Q Kᵀ + bias) V. All but `bias` are fp16: `q` `[objects, queries, width]`, scaled; `k`
    /// `[objects, keys, width]`; `v` `[objects, keys, columns]`; `out` `[objects, queries, columns]`. `bias`: f32 `[keys]`,
    /// the same for all objects and queries. No allocation; may be recorded.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, or what the driver says.
    pub fn enqueue(
        &self,
        [q, k, v]: [&View; 3],
        bias: Option<&View>,
        out: &View,
        stream: &Stream,
    ) -> Result<()> {
        let AttentionShape { objects, queries, keys, values } = self.shape;
        let (width, columns) = (values.width(), values.columns());
        need_exactly(q, HALF * objects * queries * width, 16, "'q'")?;
        need_exactly(k, HALF * objects * keys * width, 16, "'k'")?;
        need_exactly(v, HALF * objects * keys * columns, 16, "'v'")?;
        need_exactly(out, HALF * objects * queries * columns, 16, "'o'")?;
        if let Some(bias) = bias {
            need_exactly(bias, 4 * keys, 4, "'bias'")?;
        }
        let (results, sums) = match &self.parts {
            None => (Arg::Null, Arg::Null),
            Some(parts) => (Arg::View(&parts.results), Arg::View(&parts.sums)),
        };
        let m = int(queries, "the number of queries")?;
        let args = [
            Arg::View(q),
            Arg::View(k),
            Arg::View(v),
            bias.map_or(Arg::Null, Arg::View),
            Arg::View(out),
            results,
            sums,
            Arg::I32(m),
            Arg::I32(int(keys, "the number of keys")?),
        ];
        let launch = Launch { grid: self.grid, threads: self.pair.kind.threads };
        // SAFETY: the arguments are the kernel's own; the tensors were measured above, and `parts` has a result and a sum
        // for each part of each query, wherever there is more than one part.
        unsafe { self.pair.attend.launch(launch, &args, stream) }?;
        if let Some(parts) = &self.parts {
            let rows = objects * queries;
            let args = [
                Arg::View(&parts.results),
                Arg::View(&parts.sums),
                Arg::View(out),
                Arg::I32(int(rows, "the number of queries")?),
                Arg::I32(m),
                Arg::I32(int(self.grid.1 as usize, "the number of parts")?),
            ];
            let grid = (blocks(rows * columns / 4, MERGE_THREADS as usize)?, 1, 1);
            let launch = Launch { grid, threads: MERGE_THREADS };
            // SAFETY: the arguments are the kernel's own: as many parts as the launch above wrote, `out` as it was
            // measured.
            unsafe { self.pair.merge.launch(launch, &args, stream) }?;
        }
        Ok(())
    }
}

/// As many parts as fill the GPU once, no more than there are tiles of keys.
fn splits(resident: usize, rows: usize, tiles: usize) -> usize {
    (resident / rows).clamp(1, tiles)
}

#[cfg(test)]
mod tests;
