/*!
The launches of a memory encoder, kernel by kernel. Views are measured before: those of a frame
where it is enqueued, weights where they are loaded, and the scratch is made for the encoder's own
shape.
*/

use anyhow::{Context, Result};

use super::MemoryEncoder;
use super::blocks::{
    ATTEND_TILE, JOIN_SHARED, LATENT_TILE, MASK_TILE, MIX_SHARED, MIX_TILE, SPREAD_SHARED,
    SPREAD_TILE, WINDOW_SHARED, WINDOW_TILE,
};
use super::scratch::{LatentScratch, SPLIT, Scratch};
use super::weights::{Block, Convolution, Latents, Layer};
use crate::device_weights::Affine;
use crate::images::Topic;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::mlp::{Activation, MlpMemory, MlpOperands};
use crate::{blocks, int};
use cuda::{Gpu, View};
use vos::bundle::MemoryEncoderShape;
use vos::bundle::memory_encoder::{HIDDEN, LATENTS};

#[derive(Debug)]
pub(super) struct Kernels {
    mask_convs: Kernel,
    mask_downsample: Kernel,
    pub(super) fuse_mask_and_features: Kernel,
    dwconv7x7: Kernel,
    convnext_mlp: Kernel,
    convnext_mlp_proj: Kernel,
    perceiver: Option<PerceiverKernels>,
}

#[derive(Debug)]
struct PerceiverKernels {
    cross_attn: Kernel,
    mlp: Kernel,
    self_attn: Kernel,
    window_attn: Kernel,
}

/// Modules of the memory encoder's kernels, and those of its perceiver.
pub(super) const MODULES: [Topic; 5] = [
    Topic::MemoryEncoderConvnext,
    Topic::MemoryEncoderMask,
    Topic::MemoryEncoderFuse,
    Topic::Perceiver1d,
    Topic::Perceiver2d,
];
/// The first of them, which a memory encoder without latents needs.
const WITHOUT_LATENTS: usize = 3;

impl Kernels {
    /// Loads all that this shape needs.
    ///
    /// # Errors
    /// The driver refuses the PTX.
    pub fn load(gpu: &Gpu, shape: MemoryEncoderShape) -> Result<Self> {
        let needed = if shape.latents { &MODULES[..] } else { &MODULES[..WITHOUT_LATENTS] };
        let modules = Modules::load(gpu, needed, "the memory encoder")?;
        let of = |name: &str, shared: u32| modules.kernel(name, shared);
        let perceiver = || -> Result<PerceiverKernels> {
            Ok(PerceiverKernels {
                cross_attn: of("perceiver_1d_cross_attn", 0)?,
                mlp: of("perceiver_1d_mlp", 0)?,
                self_attn: of("perceiver_1d_self_attn", 0)?,
                window_attn: of("perceiver_2d_window_attn", WINDOW_SHARED)?,
            })
        };
        let fuse = of("memory_encoder_fuse_mask_and_features", JOIN_SHARED)?;
        Ok(Self {
            mask_convs: of("memory_encoder_mask_convs", 0)?,
            mask_downsample: of("memory_encoder_mask_downsample", 0)?,
            fuse_mask_and_features: fuse,
            dwconv7x7: of("memory_encoder_dwconv7x7", SPREAD_SHARED)?,
            convnext_mlp: of("memory_encoder_convnext_mlp", MIX_SHARED)?,
            convnext_mlp_proj: of("memory_encoder_convnext_mlp_proj", MIX_SHARED)?,
            perceiver: shape.latents.then(perceiver).transpose()?,
        })
    }
}

impl MemoryEncoder {
    /// The mask of `low`, and its first two convolutions.
    pub(super) fn mask_convs(&self, low: &View, binary: &View, chain: &Chain) -> Result<()> {
        let [first, second] = &self.weights.mask;
        let args = arguments!(
            ["memory_encoder_mask_convs"];
            View(low),
            View(binary),
            F32(self.shape.scale),
            F32(self.shape.offset),
            View(&first.product.weight),
            View(&first.product.bias),
            View(&first.norm.weight),
            View(&first.norm.bias),
            View(&second.product.weight),
            View(&second.product.bias),
            View(&second.norm.weight),
            View(&second.norm.bias),
            View(&self.scratch.narrow),
            I32(self.grid()?),
        );
        let grid = tiles(4 * self.shape.grid, MASK_TILE)?;
        // SAFETY: the arguments are memory_encoder_mask_convs's own; logits and the choice of masks
        // were measured in `enqueue`, the weights where they were loaded, and the result has room
        // for every pixel of the map's side.
        unsafe { self.kernels.mask_convs.launch(grid, &args, chain) }
    }

    /// The third convolution.
    pub(super) fn mask_downsample(&self, chain: &Chain) -> Result<()> {
        let Convolution { product, norm } = &self.weights.widen;
        let Scratch { narrow, wide, .. } = &self.scratch;
        let args = arguments!(
            ["memory_encoder_mask_downsample"];
            View(narrow),
            View(&product.weight),
            View(&product.bias),
            View(&norm.weight),
            View(&norm.bias),
            View(wide),
            I32(self.grid()?),
        );
        let grid = tiles(2 * self.shape.grid, MASK_TILE)?;
        // SAFETY: the arguments are memory_encoder_mask_downsample's own, weights that were
        // measured where they were loaded and scratch of the same shape.
        unsafe { self.kernels.mask_downsample.launch(grid, &args, chain) }
    }

    /// What a token's neighbours say.
    pub(super) fn dwconv7x7(&self, block: &Block, chain: &Chain) -> Result<()> {
        let Convolution { product, norm } = &block.spread;
        let Scratch { x, y, .. } = &self.scratch;
        let args = arguments!(
            ["memory_encoder_dwconv7x7"];
            View(x),
            View(&product.weight),
            View(&product.bias),
            View(&norm.weight),
            View(&norm.bias),
            View(y),
            I32(self.grid()?),
        );
        let grid = tiles(self.shape.grid, SPREAD_TILE)?;
        // SAFETY: the arguments are memory_encoder_dwconv7x7's own, weights that were measured
        // where they were loaded and scratch of the same shape; it reads `x`, of which it writes
        // nothing.
        unsafe { self.kernels.dwconv7x7.launch(grid, &args, chain) }
    }

    /// A block's MLP, in place.
    pub(super) fn convnext_mlp(&self, block: &Block, chain: &Chain) -> Result<()> {
        let Scratch { x, y, .. } = &self.scratch;
        if let Some(mlp) = &self.mlp {
            return mlp.enqueue(&self.mlp_operands(block, x, None), chain);
        }
        let args = arguments!(
            ["memory_encoder_convnext_mlp"];
            View(y),
            View(x),
            View(&block.up.weight),
            View(&block.up.bias),
            View(&block.down.weight),
            View(&block.down.bias),
            View(x),
            I32(self.count()?),
        );
        // SAFETY: the arguments are memory_encoder_convnext_mlp's own, weights that were measured
        // where they were loaded and scratch of the same shape; a block reads no tokens of `x` but
        // those that it writes.
        unsafe { self.kernels.convnext_mlp.launch(self.mixing()?, &args, chain) }
    }

    /// The last block's MLP, and the tokens of the memory.
    pub(super) fn convnext_mlp_proj(
        &self,
        block: &Block,
        score: &View,
        memory: &View,
        chain: &Chain,
    ) -> Result<()> {
        let Scratch { x, y, .. } = &self.scratch;
        if let Some(mlp) = &self.mlp {
            let projection =
                MlpMemory { product: &self.weights.out, score, absent: &self.weights.absent };
            return mlp.enqueue(&self.mlp_operands(block, memory, Some(projection)), chain);
        }
        let Affine { weight, bias } = &self.weights.out;
        let args = arguments!(
            ["memory_encoder_convnext_mlp_proj"];
            View(y),
            View(x),
            View(&block.up.weight),
            View(&block.up.bias),
            View(&block.down.weight),
            View(&block.down.bias),
            View(weight),
            View(bias),
            View(score),
            View(&self.weights.absent),
            View(memory),
            I32(self.count()?),
        );
        // SAFETY: as in `mix`, memory_encoder_convnext_mlp_proj's own; the score was measured in
        // `enqueue`, as was the memory, unless it is the scratch's.
        unsafe { self.kernels.convnext_mlp_proj.launch(self.mixing()?, &args, chain) }
    }

    /// Of a block's MLP in another kernel, whose results go to `out`, or their projection where there
    /// is a `memory`.
    fn mlp_operands<'a>(
        &'a self,
        block: &'a Block,
        out: &'a View,
        memory: Option<MlpMemory<'a>>,
    ) -> MlpOperands<'a> {
        let Scratch { x, y, .. } = &self.scratch;
        MlpOperands {
            tokens: self.tokens(),
            hidden: HIDDEN,
            activation: Activation::Gelu,
            x: y,
            up: &block.up,
            down: &block.down,
            residual: x,
            out,
            memory,
        }
    }

    /// Latents read all tokens of the memory.
    pub(super) fn perceiver_cross_attn(
        &self,
        work: &LatentScratch,
        layer: &Layer,
        queries: &View,
        chain: &Chain,
    ) -> Result<()> {
        let (latents, kernels) = self.of_latents()?;
        let args = arguments!(
            ["perceiver_1d_cross_attn"];
            View(&work.memory),
            View(&layer.norm.weight),
            View(&layer.norm.bias),
            View(&layer.kv),
            View(&latents.positions),
            View(queries),
            View(&work.sums),
            View(&work.parts),
            I32(self.count()?),
        );
        let grid = (blocks(LATENTS, ATTEND_TILE)?, blocks(self.tokens(), SPLIT)?, 1);
        // SAFETY: the arguments are perceiver_1d_cross_attn's own, weights that were measured where
        // they were loaded and scratch; sums and parts have room for every split of the launch.
        unsafe { kernels.cross_attn.launch(grid, &args, chain) }
    }

    /// `before` and what was read, and the MLP behind.
    pub(super) fn perceiver_mlp(
        &self,
        work: &LatentScratch,
        layer: &Layer,
        before: &View,
        chain: &Chain,
    ) -> Result<()> {
        let (_, kernels) = self.of_latents()?;
        let args = arguments!(
            ["perceiver_1d_mlp"];
            View(&work.sums),
            View(&work.parts),
            I32(int(self.tokens().div_ceil(SPLIT), "the number of splits")?),
            View(before),
            View(&layer.out),
            View(&layer.ff.norm.weight),
            View(&layer.ff.norm.bias),
            View(&layer.ff.up),
            View(&layer.ff.down),
            View(&layer.self_norm.weight),
            View(&layer.self_norm.bias),
            View(&layer.self_qkv),
            View(&work.mixed),
            View(&work.qkv),
        );
        // SAFETY: the arguments are perceiver_1d_mlp's own: as many splits as `attend` wrote,
        // weights that were measured where they were loaded, and latents of the scratch or the
        // weights.
        unsafe { kernels.mlp.launch(self.latent_blocks()?, &args, chain) }
    }

    /// Latents read each other; then the second MLP, and what comes next of them: queries, or
    /// without these the result.
    pub(super) fn perceiver_self_attn(
        &self,
        work: &LatentScratch,
        layer: &Layer,
        (norm, query): (&Affine, Option<&View>),
        result: &View,
        chain: &Chain,
    ) -> Result<()> {
        let (_, kernels) = self.of_latents()?;
        let args = arguments!(
            ["perceiver_1d_self_attn"];
            View(&work.qkv),
            View(&work.mixed),
            View(&layer.self_out),
            View(&layer.self_ff.norm.weight),
            View(&layer.self_ff.norm.bias),
            View(&layer.self_ff.up),
            View(&layer.self_ff.down),
            View(&norm.weight),
            View(&norm.bias),
            Optional(query),
            View(&work.latents),
            View(result),
        );
        // SAFETY: the arguments are perceiver_1d_self_attn's own, which takes a null pointer for no
        // query; weights were measured where they were loaded, and the result is the scratch's or
        // half of what was measured in `enqueue`: 256 latents either way.
        unsafe { kernels.self_attn.launch(self.latent_blocks()?, &args, chain) }
    }

    /// Latents read a window each.
    pub(super) fn perceiver_window_attn(
        &self,
        work: &LatentScratch,
        result: &View,
        chain: &Chain,
    ) -> Result<()> {
        let (latents, kernels) = self.of_latents()?;
        let args = arguments!(
            ["perceiver_2d_window_attn"];
            View(&work.memory),
            View(&latents.map),
            View(&latents.halves),
            View(&latents.floats),
            View(result),
            I32(self.grid()?),
        );
        let grid = (blocks(LATENTS, WINDOW_TILE)?, 1, 1);
        // SAFETY: the arguments are perceiver_2d_window_attn' own, weights that were measured where
        // they were loaded, scratch of the same shape, and half of what was measured in `enqueue`.
        unsafe { kernels.window_attn.launch(grid, &args, chain) }
    }

    fn of_latents(&self) -> Result<(&Latents, &PerceiverKernels)> {
        let found = self.weights.latents.as_ref().zip(self.kernels.perceiver.as_ref());
        found.context("a memory encoder without latents was asked for them")
    }

    fn mixing(&self) -> Result<(u32, u32, u32)> {
        Ok((blocks(self.tokens(), MIX_TILE)?, 1, 1))
    }

    fn latent_blocks(&self) -> Result<(u32, u32, u32)> {
        Ok((blocks(LATENTS, LATENT_TILE)?, 1, 1))
    }

    fn grid(&self) -> Result<i32> {
        int(self.shape.grid, "the side of the map")
    }

    fn count(&self) -> Result<i32> {
        int(self.tokens(), "the number of tokens")
    }
}

/// Blocks of so many pixels along a row and so many rows that cover a square image of this side.
pub(super) fn tiles(side: usize, [across, down]: [usize; 2]) -> Result<(u32, u32, u32)> {
    Ok((blocks(side, across)?, blocks(side, down)?, 1))
}
