/*!
The layout of the blocks: their memory, GEMMs and attentions. Blocks of one shape share a GEMM's and
an attention's plan.
*/

use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::gemm::{GemmBiasGelu, GemmResidualLayerNorm, LayerNorm};
use super::kernels::HieraKernels;
use super::shapes::{Behind, BlockGemms, F16, MLP_RATIO, Scratch};
use super::weights::{Affine, DeviceBlock};
use crate::attention::{Attention, AttentionKernels, AttentionShape, Values};
use crate::gemm::{GemmKernels, GemmLayerNormKernels};
use crate::window_attention::{WindowAttention, WindowShape};
use cuda::cublaslt::{ALIGNMENT, Choices, CublasLt, Matmul, MatmulShape};
use cuda::{Gpu, View};
use vos::bundle::trunk::HieraBlock;

/// Bytes of the counter of a split-K GEMM: each GEMM has a workspace as small as this for itself.
pub(super) const COUNTER: usize = ALIGNMENT;

/// One block and its memory.
pub(super) struct Block {
    /// Output columns.
    pub columns_out: usize,
    /// The block before launches it, fused with its last GEMM where a kernel can; the first block's
    /// is launched by itself.
    pub norm1: LayerNorm,
    pub skip: Option<Skip>,
    pub qkv: (Linear, Rc<GemmBiasGelu>),
    pub attention: BlockAttention,
    pub proj: (Linear, Rc<GemmResidualLayerNorm>),
    pub norm2: LayerNorm,
    pub up: (Linear, Rc<GemmBiasGelu>),
    pub down: (Linear, Rc<GemmResidualLayerNorm>),
    /// Input tokens; the same memory as the residual unless a stage begins here.
    pub x: View,
    pub residual: View,
    pub queries: View,
    pub attended: View,
    pub hidden: View,
}

/// The path around the attention where a stage begins: a GEMM, then max pooling.
pub(super) struct Skip {
    pub linear: Linear,
    pub projected: View,
    /// Side of the pooled map.
    pub side: usize,
}

/// A GEMM with its weights.
pub(super) struct Linear {
    pub weights: Affine,
    pub cublaslt: Rc<Matmul>,
    /// Its part of the counters.
    pub counter: View,
}

/// The attention of a block.
pub(super) enum BlockAttention {
    Window(WindowAttention),
    Global(Rc<Attention>),
}

/// Lays out blocks.
pub(super) struct BlockBuilder<'a> {
    pub gpu: &'a Gpu,
    pub kernels: HieraKernels,
    pub library: CublasLt,
    pub attention: Option<&'a AttentionKernels>,
    pub gemm_kernels: Option<GemmKernels>,
    pub layernorm_kernels: Option<GemmLayerNormKernels>,
    /// Sizes of the two pieces of `memory`.
    pub scratch: Scratch,
    pub memory: &'a View,
    pub choices: Option<&'a Choices>,
    pub cublaslt: Vec<Rc<Matmul>>,
    pub bias_gelu: Vec<Rc<GemmBiasGelu>>,
    pub residual_layernorm: Vec<Rc<GemmResidualLayerNorm>>,
    pub global: Vec<Rc<Attention>>,
    pub counters: View,
    /// Counters that have a GEMM.
    pub counted: usize,
}

impl BlockBuilder<'_> {
    /// One block between `x` and `residual`.
    pub fn block(
        &mut self,
        block: &HieraBlock,
        weights: DeviceBlock,
        x: &View,
        residual: &View,
    ) -> Result<Block> {
        let (rows, rows_out) = (block.tokens(), block.tokens_out());
        let (columns, columns_out) = (block.dim, block.dim_out);
        ensure!(
            x.len() == 4 * rows * columns && residual.len() == 4 * rows_out * columns_out,
            "a block of {rows} tokens of {columns} columns has memory of {} and {} bytes",
            x.len(),
            residual.len()
        );
        let shapes = BlockGemms::of(block);
        let DeviceBlock { norm1, skip, qkv, proj, norm2, up, down, around_attention, mlp, .. } =
            weights;
        let skip = skip.zip(shapes.skip).map(|(weights, shape)| {
            let linear = self.linear(weights, shape)?;
            let projected = self.wide(rows * columns_out)?;
            Ok::<_, anyhow::Error>(Skip { linear, projected, side: block.grid_out() })
        });
        let hidden = MLP_RATIO * columns_out;
        let normed = F16 * rows_out * columns_out;
        let narrow = self.memory.part(0, normed)?;
        let wide = |behind: usize| self.memory.part(self.scratch.narrow + behind, normed);
        let (attended, norm2_out) = match Behind::of(block) {
            Behind::Queries(behind) => (wide(behind)?, narrow),
            Behind::Hidden(behind) => (narrow, wide(behind)?),
        };
        Ok(Block {
            columns_out,
            norm1: LayerNorm {
                weights: norm1,
                rows,
                columns,
                out: self.narrow(rows * columns)?,
                prefetch: around_attention,
            },
            skip: skip.transpose()?,
            qkv: self.bias_gelu(qkv, shapes.qkv, false)?,
            attention: self.attention(block)?,
            proj: self.residual_layernorm(proj, shapes.proj)?,
            norm2: LayerNorm {
                weights: norm2,
                rows: rows_out,
                columns: columns_out,
                out: norm2_out,
                prefetch: mlp,
            },
            up: self.bias_gelu(up, shapes.up, true)?,
            down: self.residual_layernorm(down, shapes.down)?,
            x: x.clone(),
            residual: residual.clone(),
            queries: self.wide(rows * 3 * columns_out)?,
            attended,
            hidden: self.wide(rows_out * hidden)?,
        })
    }

    fn linear(&mut self, weights: Affine, shape: MatmulShape) -> Result<Linear> {
        let known = self.cublaslt.iter().find(|known| known.shape() == shape);
        let cublaslt = match known {
            Some(known) => Rc::clone(known),
            None => {
                let new = Matmul::new(&self.library, shape)?;
                let choice = self.choices.and_then(|choices| choices.of(shape));
                if let Some(choice) = choice.filter(|choice| choice.of == new.candidates()) {
                    new.choose(choice.algorithm)?;
                }
                let new = Rc::new(new);
                self.cublaslt.push(Rc::clone(&new));
                new
            }
        };
        let counter = self.counters.part(COUNTER * self.counted, COUNTER)?;
        self.counted += 1;
        Ok(Linear { weights, cublaslt, counter })
    }

    fn bias_gelu(
        &mut self,
        weights: Affine,
        shape: MatmulShape,
        gelu: bool,
    ) -> Result<(Linear, Rc<GemmBiasGelu>)> {
        let linear = self.linear(weights, shape)?;
        if let Some(known) = self.bias_gelu.iter().find(|known| known.is(shape, gelu)) {
            return Ok((linear, Rc::clone(known)));
        }
        let (cublaslt, wanted) = (Rc::clone(&linear.cublaslt), self.wanted(shape));
        let new = Rc::new(GemmBiasGelu::new(cublaslt, gelu, self.gemm_kernels.as_ref(), wanted));
        self.bias_gelu.push(Rc::clone(&new));
        Ok((linear, new))
    }

    fn residual_layernorm(
        &mut self,
        weights: Affine,
        shape: MatmulShape,
    ) -> Result<(Linear, Rc<GemmResidualLayerNorm>)> {
        let linear = self.linear(weights, shape)?;
        let mut all = self.residual_layernorm.iter();
        if let Some(known) = all.find(|known| known.implementation.shape() == shape) {
            return Ok((linear, Rc::clone(known)));
        }
        let (cublaslt, wanted) = (Rc::clone(&linear.cublaslt), self.wanted(shape));
        let kernels = self.layernorm_kernels.as_ref();
        let new = Rc::new(GemmResidualLayerNorm::new(cublaslt, kernels, wanted));
        self.residual_layernorm.push(Rc::clone(&new));
        Ok((linear, new))
    }

    /// The kernel that autotuning chose for a shape and its epilogue.
    fn wanted(&self, shape: MatmulShape) -> Option<&str> {
        self.choices?.of(shape)?.kernel.as_deref()
    }

    fn attention(&mut self, block: &HieraBlock) -> Result<BlockAttention> {
        let (heads, depth) = (block.heads, block.depth());
        if block.window > 0 {
            let HieraBlock { grid, window, pooled, .. } = *block;
            let shape = WindowShape { grid, window, heads, depth, pooled };
            return Ok(BlockAttention::Window(self.kernels.window_attention(shape)?));
        }
        let (tokens, values) = (block.tokens(), Values::Heads(depth));
        let shape = AttentionShape { objects: heads, queries: tokens, keys: tokens, values };
        let known = self.global.iter().find(|attention| attention.shape() == shape);
        let attention = match known {
            Some(known) => Rc::clone(known),
            None => {
                let kernels = self.attention.context("the attention kernels are not loaded")?;
                let attention = Rc::new(Attention::new(self.gpu, kernels, shape)?);
                self.global.push(Rc::clone(&attention));
                attention
            }
        };
        Ok(BlockAttention::Global(attention))
    }

    fn narrow(&self, elements: usize) -> Result<View> {
        Ok(self.memory.part(0, F16 * elements)?)
    }

    fn wide(&self, elements: usize) -> Result<View> {
        Ok(self.memory.part(self.scratch.narrow, F16 * elements)?)
    }
}
