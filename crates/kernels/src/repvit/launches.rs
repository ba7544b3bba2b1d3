/*!
The launches of RepViT's blocks by their parts; `fused.rs` has blocks of one launch. Views are
measured before: maps and scratch where a block is laid out, weights where they are loaded.
*/

use anyhow::{Result, ensure};

use super::HALF;
use super::executor::{Block, Gate};
use super::fused::FusedKernels;
use super::weights::Excite;
use crate::constants::constant;
use crate::device_weights::Affine;
use crate::images::Topic;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::{blocks, int};
use cuda::{Gpu, View};
use vos::bundle::trunk::RepVitBlock;

/// Copies of a block's sums: blocks of a launch add to different ones.
pub(super) const COPIES: usize = constant!(Repvit, "COPIES") as usize;
/// Channels and squeezed channels that `repvit_gate` takes.
const MOST_CHANNELS: usize = constant!(Repvit, "MOST_CHANNELS") as usize;
const MOST_SQUEEZED: usize = constant!(Repvit, "MOST_SQUEEZED") as usize;
const SLICE: usize = constant!(Repvit, "SLICE") as usize;
const STRIP: usize = constant!(Repvit, "STRIP") as usize;
const STRIPS: usize = constant!(Repvit, "STRIPS") as usize;
const STEP: usize = constant!(Repvit, "STEP") as usize;
const GEMM_COLUMNS: usize = constant!(Repvit, "GEMM_COLUMNS") as usize;
const GEMM_TOKENS: usize = constant!(Repvit, "GEMM_TOKENS") as usize;
const GEMM_GELU_TOKENS: usize = constant!(Repvit, "GEMM_GELU_TOKENS") as usize;
/// The smallest limit of a block's shared memory from sm 80 on.
const MOST_SHARED: usize = 99 * 1024;
/// Blocks of `repvit_sums`, about: two for each multiprocessor of a large GPU.
const SUM_BLOCKS: usize = 256;

pub(super) const SIDE: &str = "the side of the map";
const CHANNELS: &str = "the number of channels";
const TOKENS: &str = "the number of tokens";

/// Both convolutions, by stride; products with a bias, with GELU and with a residual.
#[derive(Debug)]
pub(super) struct Kernels {
    sums: Kernel,
    gate: Kernel,
    convolutions: [Kernel; 2],
    gemm_bias: Kernel,
    gemm_gelu: Kernel,
    gemm_residual: Kernel,
    /// Of whole blocks.
    pub fused: FusedKernels,
}

impl Kernels {
    /// Loads them, with those of one launch: all for any GPU, and Hopper's if they serve one of
    /// `blocks` on this GPU. `least`: as in [`FusedKernels::load`].
    ///
    /// # Errors
    /// The driver refuses the PTX.
    pub fn load(gpu: &Gpu, blocks: &[RepVitBlock], least: usize) -> Result<Self> {
        let modules = Modules::load(gpu, &[Topic::Repvit, Topic::RepvitBlock], "RepViT")?;
        let of = |name: &str, shared: u32| modules.kernel(name, shared);
        let most = u32::try_from(MOST_SHARED)?;
        Ok(Self {
            sums: of("repvit_sums", 0)?,
            gate: of("repvit_gate", 0)?,
            convolutions: [of("repvit_dwconv", 0)?, of("repvit_dwconv_stride2", 0)?],
            gemm_bias: of("repvit_gemm_bias", most)?,
            gemm_gelu: of("repvit_gemm_gelu", most)?,
            gemm_residual: of("repvit_gemm_residual", most)?,
            fused: FusedKernels::load(gpu, &modules, blocks, least)?,
        })
    }

    /// Sums of the convolution's results over the map.
    pub fn sums(&self, block: &Block, gate: &Gate, excite: &Excite, chain: &Chain) -> Result<()> {
        let shape = &block.shape;
        let chunk = shape.tokens().div_ceil(SUM_BLOCKS);
        let args = arguments!(
            ["repvit_sums"];
            View(&block.x),
            View(&excite.edges),
            View(&gate.sums),
            I32(int(shape.grid, SIDE)?),
            I32(int(shape.dim, CHANNELS)?),
            I32(int(chunk, "the tokens of a block")?),
        );
        let grid = (blocks(shape.tokens(), chunk)?, 1, 1);
        // SAFETY: the arguments are repvit_sums's own; map, sums and weights were measured, and it
        // takes as many channels (`check_shape`).
        unsafe { self.sums.launch(grid, &args, chain) }
    }

    /// The channels' factors.
    pub fn gate(&self, block: &Block, gate: &Gate, excite: &Excite, chain: &Chain) -> Result<()> {
        let (shape, factors) = (&block.shape, &gate.factors);
        let args = arguments!(
            ["repvit_gate"];
            View(&gate.sums),
            View(&block.weights.depthwise.bias),
            View(&excite.squeeze.weight),
            View(&excite.squeeze.bias),
            View(&excite.excite.weight),
            View(&excite.excite.bias),
            View(factors),
            I32(int(shape.dim, CHANNELS)?),
            I32(int(shape.squeeze, "the number of squeezed channels")?),
            I32(int(shape.tokens(), TOKENS)?),
        );
        // SAFETY: as above, repvit_gate's own.
        unsafe { self.gate.launch((1, 1, 1), &args, chain) }
    }

    /// A block by its parts, with memory for y, y of other columns, and hidden columns.
    pub fn parts(
        &self,
        block: &Block,
        [y, projected, hidden]: [&View; 3],
        chain: &Chain,
    ) -> Result<()> {
        let Block { shape, out, weights, .. } = block;
        let tokens = shape.tokens_out();
        self.convolution(block, y, chain)?;
        let mut product = Product { tokens: y, layer: &weights.up, residual: None, out: hidden };
        if let Some(layer) = &weights.pointwise {
            let first = Product { layer, out: projected, ..product };
            let extents = [tokens, shape.dim_out, shape.dim];
            first.enqueue(&self.gemm_bias, GEMM_TOKENS, extents, chain)?;
            product.tokens = projected;
        }
        let extents = [tokens, shape.hidden, shape.dim_out];
        product.enqueue(&self.gemm_gelu, GEMM_GELU_TOKENS, extents, chain)?;
        let residual = Some(product.tokens);
        let last = Product { tokens: hidden, layer: &weights.down, residual, out };
        let extents = [tokens, shape.dim_out, shape.hidden];
        last.enqueue(&self.gemm_residual, GEMM_TOKENS, extents, chain)
    }

    fn convolution(&self, block: &Block, y: &View, chain: &Chain) -> Result<()> {
        let Block { shape, x, weights, .. } = block;
        let args = arguments!(
            ["repvit_dwconv", "repvit_dwconv_stride2"];
            View(x),
            View(&weights.depthwise.weight),
            View(&weights.depthwise.bias),
            Optional(block.factors()),
            View(y),
            I32(int(shape.grid, SIDE)?),
            I32(int(shape.dim, CHANNELS)?),
        );
        let strips = shape.grid_out() * shape.grid_out().div_ceil(STRIP);
        let grid = (blocks(strips, STRIPS)?, blocks(shape.dim, SLICE)?, 1);
        let [stride1, stride2] = &self.convolutions;
        let kernel = if shape.stride == 2 { stride2 } else { stride1 };
        // SAFETY: the arguments are those of repvit_dwconv*; map, scratch and weights were
        // measured.
        unsafe { kernel.launch(grid, &args, chain) }
    }
}

/// Operands of a product.
#[derive(Clone, Copy)]
struct Product<'v> {
    tokens: &'v View,
    layer: &'v Affine,
    residual: Option<&'v View>,
    out: &'v View,
}

impl Product<'_> {
    /// By a kernel whose blocks have so many tokens; extents: rows, columns, depth.
    fn enqueue(
        self,
        kernel: &Kernel,
        of_block: usize,
        [rows, columns, depth]: [usize; 3],
        chain: &Chain,
    ) -> Result<()> {
        let args = arguments!(
            ["repvit_gemm_*"];
            View(self.tokens),
            View(&self.layer.weight),
            View(&self.layer.bias),
            Optional(self.residual),
            View(self.out),
            I32(int(rows, TOKENS)?),
            I32(int(columns, "the number of columns")?),
            I32(int(depth, "the depth of a product")?),
        );
        let grid = (blocks(rows, of_block)?, blocks(columns, GEMM_COLUMNS)?, 1);
        // The sums of the depth's parts lie in the tokens' place.
        let bytes = gemm_bytes(of_block, depth).max(GEMM_COLUMNS * GEMM_TOKENS * 4);
        let kernel = kernel.taking(u32::try_from(bytes)?);
        // SAFETY: the arguments are those of repvit_gemm_*; maps, scratch and weights were measured
        // for the block of which these are the extents.
        unsafe { kernel.launch(grid, &args, chain) }
    }
}

/// Shared memory of a product's block: its tokens, and 16 bytes behind each.
fn gemm_bytes(tokens: usize, depth: usize) -> usize {
    tokens * (HALF * depth.next_multiple_of(STEP) + 16)
}

/// That the kernels serve a block of this shape.
///
/// # Errors
/// What they do not serve.
pub(super) fn check_shape(block: &RepVitBlock) -> Result<()> {
    let RepVitBlock { dim, dim_out, grid, stride, squeeze, hidden } = *block;
    let eights = |columns: usize| columns > 0 && columns.is_multiple_of(8);
    ensure!(
        eights(dim) && eights(dim_out) && eights(hidden) && squeeze.is_multiple_of(8),
        "its columns ({dim} to {dim_out}, hidden {hidden}, squeezed {squeeze}) must be multiples of 8"
    );
    ensure!(
        grid > 0 && matches!(stride, 1 | 2) && (stride == 1 || grid.is_multiple_of(2)),
        "it has stride {stride} in a map of {grid}: expected 1, or 2 in a map of an even side"
    );
    ensure!(
        squeeze == 0 || stride == 1 && grid > 1,
        "it has squeeze-and-excite with stride {stride} in a map of {grid}: expected stride 1, and \
         more than one token"
    );
    ensure!(
        squeeze == 0 || dim <= MOST_CHANNELS && squeeze <= MOST_SQUEEZED,
        "its squeeze-and-excite has {squeeze} of {dim} columns, expected at most {MOST_SQUEEZED} \
         of {MOST_CHANNELS}"
    );
    let products = [(GEMM_TOKENS, dim), (GEMM_GELU_TOKENS, dim_out), (GEMM_TOKENS, hidden)];
    let most = products.into_iter().map(|(tokens, depth)| gemm_bytes(tokens, depth)).max();
    ensure!(
        most <= Some(MOST_SHARED),
        "its products of {dim}, {dim_out} and {hidden} columns need {} bytes of shared memory, \
         {MOST_SHARED} are there",
        most.unwrap_or_default()
    );
    let widest = dim.max(dim_out).max(hidden);
    int(grid * grid * widest, "the number of a map's elements").map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: RepVitBlock =
        RepVitBlock { dim: 96, dim_out: 96, grid: 8, stride: 1, squeeze: 24, hidden: 192 };

    #[test]
    fn blocks_that_no_kernel_serves_are_refused() {
        check_shape(&BLOCK).unwrap();
        check_shape(&RepVitBlock { dim: 640, dim_out: 640, squeeze: 160, hidden: 1280, ..BLOCK })
            .unwrap();
        for (wrong, said) in [
            (RepVitBlock { dim: 92, ..BLOCK }, "multiples of 8"),
            (RepVitBlock { grid: 9, stride: 2, squeeze: 0, ..BLOCK }, "an even side"),
            (RepVitBlock { stride: 2, ..BLOCK }, "expected stride 1"),
            (RepVitBlock { grid: 1, ..BLOCK }, "more than one token"),
            (RepVitBlock { squeeze: 264, ..BLOCK }, "at most 256 of 1024"),
            (RepVitBlock { hidden: 2048, ..BLOCK }, "bytes of shared memory, 101376 are there"),
            (RepVitBlock { grid: 4096, ..BLOCK }, "above the kernels' limit"),
        ] {
            let error = check_shape(&wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong:?}: {error}");
        }
    }
}
