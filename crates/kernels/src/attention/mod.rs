/*!
Attention without a score matrix: O = softmax(Q Kᵀ + bias) V. It serves the memory attention between
two engines, and the global attention of an encoder's trunk.

TensorRT writes the scores to memory if it does not fuse an attention: 4096 × 28 736 of them in each
layer of SAM 2.1, and 4096 × 4096 for each head of its encoder's widest blocks. `cuda/attention.cu`
keeps them on the chip; `cuda/attention_cluster_hopper.cu` does so with Hopper's instructions, by
clusters of two blocks.

The keys are split into as many parts as keep the whole GPU busy, and a second kernel combines the
parts, or who reads them ([`Attended`]). Combining in each row's last block saves that launch and
was slower in every measurement (docs/explanation/kernels.md).
*/

mod kernels;
mod loaded;
mod parts;
mod selftest;
mod splits;

use std::sync::Arc;

use anyhow::{Result, bail, ensure};

use crate::kernel::{Chain, arguments};
use crate::{blocks, int, need_exactly};
use cuda::module::{Function, Launch};
use cuda::tensor_map::TensorMap;
use cuda::{Gpu, LaunchMode, Stream, View};
use loaded::Pair;

pub use loaded::{AttentionKernels, AttentionUse};
pub use parts::{Attended, Parts};
pub(crate) use selftest::{TOPIC, compare};

/// Columns of queries and keys of the memory attention.
pub const HEAD: usize = 256;
/// The widest heads that a kernel serves.
pub const WIDEST_HEAD: usize = 96;
/// Queries of a block, for all kernels.
const QUERIES: usize = 128;
/// Threads of the kernels that combine splits.
const COMBINE_THREADS: u32 = 256;
/// Bytes of an f16, the type of all tensors.
const F16: usize = 2;

/// The values of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Values {
    /// To the memory bank: its tokens of 64 columns are the values.
    Memory,
    /// Self-attention of the frame, with values as wide as the queries.
    Frame,
    /// Self-attention of an encoder's map, in heads of so many columns: a multiple of 8,
    /// [`WIDEST_HEAD`] at most. A shape's objects are its heads.
    Heads(usize),
}

impl Values {
    /// Columns of Q and K.
    pub fn width(self) -> usize {
        match self {
            Self::Memory | Self::Frame => HEAD,
            Self::Heads(columns) => columns,
        }
    }

    /// Columns of V and O.
    pub fn columns(self) -> usize {
        match self {
            Self::Memory => 64,
            Self::Frame => 256,
            Self::Heads(columns) => columns,
        }
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

impl Attention {
    /// Chooses the number of parts and takes memory for them.
    ///
    /// # Errors
    /// Nothing to attend to, sizes beyond 2³¹ elements, kernels for heads that were not loaded, or
    /// what the driver says.
    pub fn new(gpu: &Gpu, kernels: &AttentionKernels, shape: AttentionShape) -> Result<Self> {
        let AttentionShape { objects, queries, keys, values } = shape;
        ensure!(
            objects > 0 && queries > 0 && keys > 0,
            "an attention of {objects} objects, {queries} queries and {keys} keys has nothing to do"
        );
        int(objects * queries.max(keys), "the number of queries or keys")?;
        // From the first row of an object or head to the first one of the next.
        int(queries.max(keys) * values.width().max(values.columns()), "the elements of an object")?;
        ensure!(objects <= 65_535, "{objects} objects, a launch takes 65535");
        let pair = Arc::clone(kernels.pair(values)?);
        let [rows, splits] = pair.divide(shape);
        let parts = match splits {
            1 => None,
            _ => Some(Parts::new(gpu, splits, objects * queries, pair.padded)?),
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

    /// What its reader takes that can join parts: those where there are several, else `whole`.
    ///
    /// # Errors
    /// Those of `whole`.
    pub fn apart(&self, whole: impl FnOnce() -> Result<View>) -> Result<Attended> {
        match &self.parts {
            Some(parts) => Ok(Attended::Parts(parts.clone())),
            None => whole().map(Attended::Whole),
        }
    }

    /// The kernel's name, without a bias or with one.
    pub fn kernel(&self, biased: bool) -> &str {
        self.attends(biased).name()
    }

    fn attends(&self, biased: bool) -> &Function {
        let other = self.pair.biased.as_ref().filter(|_| biased);
        other.unwrap_or(&self.pair.attend)
    }

    /// Enqueues O = softmax(Q Kᵀ + bias) V. All but `bias` are fp16: `q` `[objects, queries,
    /// width]`, scaled; `k` `[objects, keys, width]`; `v` `[objects, keys, columns]`; a whole `out`
    /// `[objects, queries, columns]`, or the parts of [`Self::apart`]. `bias`: f32 `[keys]`, the same
    /// for all objects and queries. No allocation; may be recorded. On Hopper early launches.
    ///
    /// # Errors
    /// A bias where Hopper's kernels take none (they do for memories alone), views of another size
    /// or at odd addresses, parts of another attention, or what the driver says.
    pub fn enqueue(
        &self,
        operands: [&View; 3],
        bias: Option<&View>,
        out: &Attended,
        chain: &Chain<'_>,
    ) -> Result<()> {
        self.enqueue_in(operands, bias, out, &chain.in_mode(self.pair.mode))
    }

    /// The same in the chain's mode.
    pub(crate) fn enqueue_in(
        &self,
        [q, k, v]: [&View; 3],
        bias: Option<&View>,
        out: &Attended,
        chain: &Chain<'_>,
    ) -> Result<()> {
        let AttentionShape { objects, queries, keys, values } = self.shape;
        let (width, columns) = (values.width(), values.columns());
        // The kernels for memory and frame know their rows.
        let rows = Rows {
            row: width,
            query_head: queries * width,
            key_head: keys * width,
            value_row: columns,
            value_head: keys * columns,
            out_row: columns,
            out_head: queries * columns,
        };
        need_exactly(q, F16 * objects * queries * width, 16, "'q'")?;
        need_exactly(k, F16 * objects * keys * width, 16, "'k'")?;
        need_exactly(v, F16 * objects * keys * columns, 16, "'v'")?;
        match out {
            Attended::Whole(out) => {
                need_exactly(out, F16 * objects * queries * columns, 16, "'o'")?;
            }
            Attended::Parts(parts) => ensure!(
                self.parts.as_ref().is_some_and(|own| own.are(parts)),
                "the parts of a result are another attention's; take those of `apart`"
            ),
        }
        let out = out.whole();
        if let Some(bias) = bias {
            need_exactly(bias, 4 * keys, 4, "'bias'")?;
        }
        self.launch([q, k, v], bias, out, &rows, chain)
    }

    /// Enqueues the attention of an encoder's tokens among each other, all heads of them: `out` f16
    /// `[tokens, heads depth]` from `qkv` f16 `[tokens, 3 heads depth]`, rows
    /// `[q|k|v][head][depth]`, q scaled. PDL only after a kernel. No allocation; may be recorded.
    ///
    /// # Errors
    /// Values that are no heads, other keys than queries, or as [`Self::enqueue`].
    pub(crate) fn enqueue_tokens(
        &self,
        [qkv, out]: [&View; 2],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let AttentionShape { objects, queries, keys, values } = self.shape;
        let Values::Heads(depth) = values else { bail!("an attention of {values:?} has no heads") };
        ensure!(queries == keys, "{queries} tokens attend to {keys}, they are the same ones");
        let columns = objects * depth;
        need_exactly(qkv, F16 * 3 * queries * columns, 16, "'qkv'")?;
        need_exactly(out, F16 * queries * columns, 16, "'a'")?;
        let part = |at: usize| {
            let start = F16 * at * columns;
            qkv.part(start, qkv.len() - start)
        };
        let (k, v) = (part(1)?, part(2)?);
        let rows = Rows {
            row: 3 * columns,
            query_head: depth,
            key_head: depth,
            value_row: 3 * columns,
            value_head: depth,
            out_row: columns,
            out_head: depth,
        };
        // SAFETY: callers that ask for PDL enqueue it after a kernel.
        let chain = unsafe { Chain::behind_a_kernel(stream, mode) };
        self.launch([qkv, &k, &v], None, Some(out), &rows, &chain)
    }

    /// Boxes of q, k and v as the clusters' kernels load them: all queries of a block, the keys of a
    /// tile that a block of the cluster brings.
    ///
    /// Made anew at each call: the driver only packs numbers on the host, and a CUDA graph is
    /// recorded once. Kept ones would need a lock, and a bound on how many.
    fn maps(&self, [q, k, v]: [&View; 3], rows: &Rows, box_keys: u32) -> Result<[TensorMap; 3]> {
        let AttentionShape { objects, queries, keys, values } = self.shape;
        let (width, columns) = (values.width(), values.columns());
        let map = |view: &View, [rows, columns]: [usize; 2], apart: [usize; 2], box_rows: u32| {
            TensorMap::of_matrices_apart(view, objects, [rows, columns], apart, box_rows)
        };
        let (of_keys, of_values) = ([rows.row, rows.key_head], [rows.value_row, rows.value_head]);
        Ok([
            map(q, [queries, width], [rows.row, rows.query_head], QUERIES as u32)?,
            map(k, [keys, width], of_keys, box_keys)?,
            map(v, [keys, columns], of_values, box_keys)?,
        ])
    }

    /// The launches, of tensors that were measured. Without `out` the parts stay apart.
    fn launch(
        &self,
        [q, k, v]: [&View; 3],
        bias: Option<&View>,
        out: Option<&View>,
        rows: &Rows,
        chain: &Chain<'_>,
    ) -> Result<()> {
        let AttentionShape { objects, queries, keys, values } = self.shape;
        let parts = self.parts.as_ref();
        let (results, sums) = (parts.map(|all| &all.results), parts.map(|all| &all.stats));
        let m = int(queries, "the number of queries")?;
        let n = int(keys, "the number of keys")?;
        let columns = int(values.columns(), "the columns of a head")?;
        let [row, query_head, key_head, out_row, out_head] = rows.ints()?;
        let maps = self.pair.kind.box_keys.map(|box_keys| self.maps([q, k, v], rows, box_keys));
        let maps = maps.transpose()?;
        let attends = self.attends(bias.is_some());
        ensure!(
            bias.is_none() || maps.is_none() || self.pair.biased.is_some(),
            "{} takes no bias",
            attends.name()
        );
        let args = match (values, &maps, bias) {
            (Values::Memory | Values::Frame, Some([q, k, v]), Some(bias)) => arguments!(
                ["attention_cross_biased_hopper"];
                Map(q),
                Map(k),
                Map(v),
                View(bias),
                Optional(out),
                Optional(results),
                Optional(sums),
                Ints[2]([m, n]),
            ),
            (Values::Memory | Values::Frame, Some([q, k, v]), None) => arguments!(
                ["attention_cross_hopper", "attention_self_hopper"];
                Map(q),
                Map(k),
                Map(v),
                Optional(out),
                Optional(results),
                Optional(sums),
                Ints[2]([m, n]),
            ),
            (Values::Memory | Values::Frame, None, _) => arguments!(
                ["attention_cross", "attention_self"];
                Views[3]([q, k, v]),
                Optional(bias),
                Optional(out),
                Optional(results),
                Optional(sums),
                Ints[2]([m, n]),
            ),
            (Values::Heads(_), Some([q, k, v]), _) => arguments!(
                ["attention_global_*"];
                Map(q),
                Map(k),
                Map(v),
                Optional(out),
                Optional(results),
                Optional(sums),
                Ints[5]([m, n, columns, out_row, out_head]),
            ),
            (Values::Heads(_), None, _) => arguments!(
                ["attention_heads_*"];
                Views[3]([q, k, v]),
                Optional(bias),
                Optional(out),
                Optional(results),
                Optional(sums),
                Ints[8]([m, n, columns, row, query_head, key_head, out_row, out_head]),
            ),
        };
        let launch = Launch { grid: self.grid, threads: self.pair.kind.threads };
        // SAFETY: the arguments are the kernel's own; the tensors were measured by the callers and
        // hold all rows that `rows` leads to, or the maps were made to fit them. `parts` has a
        // result and a sum for each part of each query, wherever there is more than one part. Only
        // without parts does the kernel write `out`.
        unsafe { chain.launch(attends, launch, &args) }?;
        if let (Some(parts), Some(out)) = (&self.parts, out) {
            let all = objects * queries;
            let all_rows = int(all, "the number of queries")?;
            let count = int(self.grid.1 as usize, "the number of parts")?;
            let args = arguments!(
                ["attention_combine_*"];
                Views[3]([&parts.results, &parts.stats, out]),
                Ints[6]([all_rows, m, count, columns, out_row, out_head]),
            );
            let grid = (blocks(all * self.pair.padded / 4, COMBINE_THREADS as usize)?, 1, 1);
            let launch = Launch { grid, threads: COMBINE_THREADS };
            // SAFETY: the arguments are the kernel's own: as many parts as the launch above wrote,
            // `out` as it was measured by the callers.
            unsafe { chain.launch(&self.pair.merge, launch, &args) }?;
        }
        Ok(())
    }
}

/// Where rows lie, in elements: from one row to the next, and from an object's or a head's first
/// row to that of the next one.
struct Rows {
    /// Of q and k.
    row: usize,
    query_head: usize,
    key_head: usize,
    /// Of v; of heads as of k.
    value_row: usize,
    value_head: usize,
    out_row: usize,
    out_head: usize,
}

impl Rows {
    fn ints(&self) -> Result<[i32; 5]> {
        let of = |elements: usize| int(elements, "the elements between two rows");
        let Self { row, query_head, key_head, out_row, out_head, .. } = *self;
        Ok([of(row)?, of(query_head)?, of(key_head)?, of(out_row)?, of(out_head)?])
    }
}

#[cfg(test)]
mod tests;
