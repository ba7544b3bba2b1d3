/*!
Attention without a score matrix: O = softmax(Q Kᵀ + bias) V, for the memory attention between two engines.

TensorRT writes the scores to memory where it does not fuse an attention, 4096 × 28 736 of them in each layer of SAM 2.1;
`cuda/attention.cu` keeps them on the chip. Hopper has kernels of its own (`cuda/attention_hopper.cu`).

The keys are cut into as many parts as keep the whole GPU busy, and a second kernel merges the parts: merging in each row's
last block saves that launch and was slower wherever both were timed (docs/fused-attention.md).
*/

use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use super::images::{self, Topic};
use super::{blocks, int, need_exactly};
use crate::gpu::module::{Arg, Function, Launch, Module};
use crate::gpu::{Gpu, Purpose, Stream, View};

/// Columns of queries and keys: the one size that there are kernels for.
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
    /// Of an encoder's map to itself, in heads of up to 64 columns.
    Heads64,
    /// The same in heads of up to 128.
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
const HEADS_64: Kind = Kind { name: "attention_heads_64", threads: 128, shared: 98_816, tile: 64 };
const HEADS_128: Kind =
    Kind { name: "attention_heads_128", threads: 128, shared: 98_816, tile: 64 };

#[derive(Debug)]
struct Pair {
    attend: Function,
    kind: Kind,
    merge: Function,
    /// Blocks of `attend` that run at once on the whole GPU.
    resident: usize,
}

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AttentionKernels {
    memory: Arc<Pair>,
    frame: Arc<Pair>,
    /// None where the module lacks them.
    heads: [Option<Arc<Pair>>; 2],
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

    /// Loads those for any GPU from sm 80 on, or (`hopper`) those for Hopper alone.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn of(gpu: &Gpu, hopper: bool) -> Result<Self> {
        let (modules, form) = images::load(gpu, &[Topic::Attention])?;
        let (base, mut own, mut form) = (modules, Vec::new(), form);
        let (mut memory, mut frame) = (CROSS, SELF);
        if hopper {
            (own, form) = images::load(gpu, &[Topic::AttentionHopper])?;
            (memory, frame) = (CROSS_HOPPER, SELF_HOPPER);
        }
        let all: Vec<&Module> = own.iter().chain(&base).map(|(_, module)| module).collect();
        let processors = gpu.multiprocessors()? as usize;
        let pair_of = |module: &Module, kind: Kind, merge: &str| -> Result<Arc<Pair>> {
            let attend = module.function(kind.name)?.with_shared(kind.shared)?;
            let resident = attend.resident_blocks(kind.threads)? as usize * processors;
            ensure!(
                resident > 0,
                "the GPU cannot run the kernel {}: a block of {} threads with {} bytes of shared memory does not fit",
                kind.name,
                kind.threads,
                kind.shared
            );
            let merge = all[all.len() - 1].function(merge)?;
            Ok(Arc::new(Pair { attend, kind, merge, resident }))
        };
        let pair = |kind, merge: &str| pair_of(all[0], kind, merge);
        let base_pair = |kind, merge: &str| pair_of(all[all.len() - 1], kind, merge);
        Ok(Self {
            memory: pair(memory, "attention_combine_64")?,
            frame: pair(frame, "attention_combine_256")?,
            heads: [
                base_pair(HEADS_64, "attention_combine_64").ok(),
                base_pair(HEADS_128, "attention_combine_128").ok(),
            ],
            form: form.into(),
        })
    }

    /// What they were loaded from: "PTX 8.2 for sm_90 alone".
    pub fn form(&self) -> &str {
        &self.form
    }

    fn pair(&self, values: Values) -> Result<&Arc<Pair>> {
        let heads = |at: usize| {
            self.heads[at]
                .as_ref()
                .context("these kernels have no attention for an encoder's heads")
        };
        Ok(match values {
            Values::Memory => &self.memory,
            Values::Frame => &self.frame,
            Values::Heads64 => heads(0)?,
            Values::Heads128 => heads(1)?,
        })
    }
}

/// Sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Objects, each with queries, keys and values of its own.
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
    /// Nothing to attend to, sizes beyond 2³¹ elements, or what the driver says.
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

    /// Enqueues O = softmax(Q Kᵀ + bias) V. All but `bias` are fp16: `q` `[objects, queries, 256]`, scaled by 1/16; `k`
    /// `[objects, keys, 256]`; `v` `[objects, keys, columns]`; `out` `[objects, queries, columns]`. `bias`: f32 `[keys]`,
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
mod tests {
    use super::*;

    #[test]
    fn parts_fill_the_gpu_once() {
        // An H200 holds one block of the kernels for Hopper on each of its 132 multiprocessors.
        assert_eq!(splits(132, 4096 / QUERIES, 28_736 / 128), 4);
        assert_eq!(splits(264, 4096 / QUERIES, 28_736 / 64), 8);
        // Few keys, many queries, many objects.
        assert_eq!(splits(132, 1, 3), 3);
        assert_eq!(splits(16, 32, 449), 1);
        assert_eq!(splits(132, 8 * 32, 449), 1);
    }

    /// The constants above are the source's own.
    #[test]
    fn launches_are_what_the_source_declares() {
        let base = std::fs::read_to_string("cuda/attention.cu").unwrap();
        let hopper = std::fs::read_to_string("cuda/attention_hopper.cu").unwrap();
        let instance = |text: &str, name: &str| -> Vec<usize> {
            let (_, after) = text.split_once(&format!("({name}, ")).unwrap();
            let (numbers, _) = after.split_once(')').unwrap();
            numbers.split(", ").filter_map(|number| number.parse().ok()).collect()
        };
        let queries = HEAD * HALF * QUERIES;
        for (kind, columns) in [(CROSS, 64), (SELF, 256)] {
            let [warps, row_blocks, tile, dv, slots, ..] = instance(&base, kind.name)[..] else {
                panic!("{} has other parameters", kind.name);
            };
            assert_eq!((warps * 32, warps * row_blocks * 16), (kind.threads as usize, QUERIES));
            assert_eq!((tile, dv), (kind.tile, columns));
            assert_eq!(queries + slots * tile * 128 + 2 * tile * 4, kind.shared as usize);
        }
        for (kind, columns) in [(CROSS_HOPPER, 64), (SELF_HOPPER, 256)] {
            let [groups, tile, dv, slots, ..] = instance(&hopper, kind.name)[..] else {
                panic!("{} has other parameters", kind.name);
            };
            assert_eq!(((1 + groups) * 128, groups * 64), (kind.threads as usize, QUERIES));
            assert_eq!((tile, dv), (kind.tile, columns));
            let ring = queries + slots * tile * 128 + 4 * tile * 4 + 2 * slots * 8;
            assert_eq!(ring, kind.shared as usize);
        }
    }
}
