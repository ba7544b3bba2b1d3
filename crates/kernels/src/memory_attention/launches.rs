/*!
The launches of a memory attention. Views are measured before: those of a frame where it is
enqueued, weights where they are loaded, and the scratch is made for the shape.
*/

use anyhow::{Context, Result, ensure};

use super::hopper::ProjectOperands;
use super::weights::{Layer, Product};
use super::{ALIGNMENT, HALF, HIDDEN, MEMORY, MemoryAttention, WIDTH};
use crate::attention::{Attended, Parts};
use crate::constants::constant;
use crate::device_weights::Affine;
use crate::images::Topic;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::{blocks, int, need_exactly};
use cuda::{Gpu, View};

pub(super) const MODULES: [Topic; 3] =
    [Topic::MemoryAttention, Topic::MemoryAttentionTail, Topic::MemoryAttentionMlp];

const PROJECT_SHARED: u32 = constant!(MemoryAttention, "PROJECT_SHARED");
const PROJECT_TOKENS: usize = constant!(MemoryAttention, "PROJECT_TOKENS") as usize;
/// Pairs of tiles of a query, a key or a value: no block has fewer.
const PAIRED: usize = constant!(MemoryAttention, "PAIRED") as usize;
const NORM_TOKENS: usize = constant!(MemoryAttention, "NORM_TOKENS") as usize;
const TAIL_SHARED: u32 = constant!(MemoryAttentionTail, "TAIL_SHARED");
const TAIL_TOKENS: usize = constant!(MemoryAttentionTail, "TAIL_TOKENS") as usize;
const UP_SHARED: u32 = constant!(MemoryAttentionMlp, "UP_SHARED");
const UP_COLUMNS: usize = constant!(MemoryAttentionMlp, "UP_COLUMNS") as usize;
const RESIDUAL_SHARED: u32 = constant!(MemoryAttentionMlp, "RESIDUAL_SHARED");
const RESIDUAL_COLUMNS: usize = constant!(MemoryAttentionMlp, "RESIDUAL_COLUMNS") as usize;
const TALL: usize = constant!(MemoryAttentionMlp, "TALL") as usize;

#[derive(Debug)]
pub(super) struct Kernels {
    project: Kernel,
    norm: Kernel,
    tail: Kernel,
    up: Kernel,
    residual: Kernel,
    multiprocessors: usize,
}

impl Kernels {
    /// Loads them.
    ///
    /// # Errors
    /// The driver refuses the PTX.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        let modules = Modules::load(gpu, &MODULES, "the memory attention")?;
        Ok(Self {
            project: modules.kernel("memory_attention_project", PROJECT_SHARED)?,
            norm: modules.kernel("memory_attention_norm", 0)?,
            tail: modules.kernel("memory_attention_cross_tail", TAIL_SHARED)?,
            up: modules.kernel("memory_attention_mlp_up", UP_SHARED)?,
            residual: modules.kernel("memory_attention_residual", RESIDUAL_SHARED)?,
            multiprocessors: gpu.multiprocessors()? as usize,
        })
    }
}

/// Where tokens come from.
pub(super) enum Source<'a> {
    /// From memory as they are.
    Tokens(&'a View),
    /// Tokens, what is added to them, and the place of the sum.
    Sums([&'a View; 3]),
    /// Tokens and the place of the sum; the parts of an attention, which are joined and added.
    Joined([&'a View; 2], &'a Parts),
    /// The same of features and positions, channels first.
    Features([&'a View; 3]),
}

impl MemoryAttention {
    /// Norm and projection to `sections` of 256 columns, of which the first two are turned.
    pub(super) fn project(
        &self,
        source: Source<'_>,
        (norm, product, sections): (&Affine, &Product, usize),
        out: &View,
        chain: &Chain<'_>,
    ) -> Result<()> {
        let (x, added, sum, parts, source) = match source {
            Source::Tokens(x) => (x, None, None, None, 0),
            Source::Sums([x, added, sum]) => (x, Some(added), Some(sum), None, 1),
            Source::Features([x, added, sum]) => (x, Some(added), Some(sum), None, 2),
            Source::Joined([x, sum], parts) => (x, None, Some(sum), Some(parts), 1),
        };
        let packed = &product.packed;
        if let Some(hopper) = &self.hopper_project {
            let operands = ProjectOperands {
                grid: self.shape.grid,
                sections,
                source,
                x,
                added,
                sum,
                norm_weight: &norm.weight,
                norm_bias: &norm.bias,
                rows: product.rows.as_ref(),
                bias: &packed.bias,
                turns: &self.weights.turns,
                out,
            };
            return match parts {
                // SAFETY: as of the launch below. The parts were measured in `enqueue`, too.
                Some(parts) => unsafe { hopper.enqueue_query(&operands, parts, chain) },
                // SAFETY: as of the launch below.
                None => unsafe { hopper.enqueue(&operands, chain) },
            };
        }
        ensure!(parts.is_none(), "a self-attention's parts are not joined");
        let args = arguments!(
            ["memory_attention_project"];
            View(x),
            Optional(added),
            Optional(sum),
            View(&norm.weight),
            View(&norm.bias),
            View(&packed.weight),
            View(&packed.bias),
            View(&self.weights.turns),
            View(out),
            I32(int(self.shape.grid, "the side of the map")?),
            I32(int(sections, "the number of sections")?),
            I32(source),
        );
        let tiles = blocks(self.tokens(), PROJECT_TOKENS)?;
        // Columns are shared among blocks as far as multiprocessors have none.
        let parts = self.kernels.multiprocessors / (tiles as usize).max(1);
        let grid = (tiles, blocks(parts.clamp(1, sections * PAIRED), 1)?, 1);
        // SAFETY: the arguments are the kernel's own. x, the results and what is added were measured
        // in `enqueue` or are scratch or weights of this shape.
        unsafe { self.kernels.project.launch(grid, &args, chain) }
    }

    /// y = norm(x).
    pub(super) fn normalize(
        &self,
        x: &View,
        norm: &Affine,
        y: &View,
        chain: &Chain<'_>,
    ) -> Result<()> {
        let args = arguments!(
            ["memory_attention_norm"];
            View(x),
            View(&norm.weight),
            View(&norm.bias),
            View(y),
            I32(int(self.tokens(), "the number of tokens")?),
        );
        let grid = (blocks(self.tokens(), NORM_TOKENS)?, 1, 1);
        // SAFETY: the arguments are the kernel's own; x and y have all tokens.
        unsafe { self.kernels.norm.launch(grid, &args, chain) }
    }

    /// The end of a layer's attention to the bank: `self.sum` = x + memory Wᵀ + b of the joined
    /// parts, and `self.normed`, the norm in front of the MLP.
    pub(super) fn end_attention(
        &self,
        layer: &Layer,
        x: &View,
        memory: &Attended,
        chain: &Chain<'_>,
    ) -> Result<()> {
        memory.check(self.tokens(), MEMORY)?;
        need_exactly(x, HALF * WIDTH * self.tokens(), ALIGNMENT, "the tokens")?;
        if self.in_three {
            let whole = memory.whole().context("an attention's parts are not joined")?;
            self.add_product(whole, (&layer.value, MEMORY), x, &self.sum, chain)?;
            return self.normalize(&self.sum, &layer.norm3, &self.normed, chain);
        }
        let (whole, parts) = match memory {
            Attended::Whole(whole) => (Some(whole), None),
            Attended::Parts(parts) => (None, Some(parts)),
        };
        let args = arguments!(
            ["memory_attention_cross_tail"];
            Optional(parts.map(|parts| &parts.results)),
            Optional(parts.map(|parts| &parts.stats)),
            Optional(whole),
            View(&layer.packed_value),
            View(&layer.value.bias),
            View(x),
            View(&layer.norm3.weight),
            View(&layer.norm3.bias),
            View(&self.sum),
            View(&self.normed),
            I32(int(self.tokens(), "the number of tokens")?),
            I32(int(parts.map_or(1, |parts| parts.count), "the number of parts")?),
        );
        let grid = (blocks(self.tokens(), TAIL_TOKENS)?, 1, 1);
        // SAFETY: the arguments are the kernel's own. What was attended to is whole, or in several
        // parts, and was measured above like x; the rest is scratch and weights.
        unsafe { self.kernels.tail.launch(grid, &args, chain) }
    }

    /// The MLP's hidden columns of normalised tokens.
    pub(super) fn mlp_up(&self, x: &View, product: &Affine, chain: &Chain<'_>) -> Result<()> {
        let args = arguments!(
            ["memory_attention_mlp_up"];
            View(x),
            View(&product.weight),
            View(&product.bias),
            View(&self.hidden),
            I32(int(self.tokens(), "the number of tokens")?),
            I32(int(HIDDEN, "the number of hidden columns")?),
            I32(int(WIDTH, "the number of columns")?),
        );
        let grid = (blocks(self.tokens(), TALL)?, blocks(HIDDEN, UP_COLUMNS)?, 1);
        // SAFETY: the arguments are the kernel's own; x has 256 columns of all tokens, and the
        // scratch has room for the hidden ones.
        unsafe { self.kernels.up.launch(grid, &args, chain) }
    }

    /// out = residual + x Wᵀ + b, of x with `depth` columns. `out` may be the residual.
    pub(super) fn add_product(
        &self,
        x: &View,
        (product, depth): (&Affine, usize),
        residual: &View,
        out: &View,
        chain: &Chain<'_>,
    ) -> Result<()> {
        let args = arguments!(
            ["memory_attention_residual"];
            View(x),
            View(&product.weight),
            View(&product.bias),
            View(residual),
            View(out),
            I32(int(self.tokens(), "the number of tokens")?),
            I32(int(WIDTH, "the number of columns")?),
            I32(int(depth, "the depth")?),
        );
        let grid = (blocks(self.tokens(), TALL)?, blocks(WIDTH, RESIDUAL_COLUMNS)?, 1);
        // SAFETY: the arguments are the kernel's own; x has `depth` columns of all tokens, the
        // residual and the result 256. A thread reads an element of the residual before it writes
        // the same element of the result, and no other thread does either.
        unsafe { self.kernels.residual.launch(grid, &args, chain) }
    }
}
