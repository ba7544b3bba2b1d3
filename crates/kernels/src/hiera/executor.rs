/*!
Runs all blocks, one after the other: GEMMs by cuBLASLt or by this crate's kernels where those are
faster, everything else by this crate's kernels. One kernel computes a whole block, or its attention
half, where it can and autotuning did not find that slower (`fused`).

A LayerNorm is one of three things, as autotuning chose: a kernel, a part of the GEMM before it, or
folded into the GEMMs on both sides (`folded`). The third needs no whole rows; the memory of its raw
tokens is that of the normalised ones.

Tokens lie in image order, `[side · side, columns]`, from the first block to the last; window
attention gathers its tokens itself. The residual is f32 and stays in place for a whole stage, so
the maps for the neck, one a stage, are ready when the trunk has run. A LayerNorm is launched with
the GEMM before it, which updates the residual: a block's first norm with the last GEMM of the block
before.

Everything else lies in scratch memory that the engines before and after the trunk use too, on the
same stream.
*/

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context, Result};

use super::block::{Block, BlockAttention, COUNTER, Linear, Skip};
use super::folded::{FoldedPlace, FoldedPlaces};
use super::fused::{FusedBlock, FusedPlaces, FusedTransition};
use super::gemm::{GemmBiasGelu, GemmResidualLayerNorm, LayerNorm};
use super::kernels::HieraKernels;
use super::shapes::Scratch;
use super::weights::Affine;
use crate::attention::AttentionKernels;
use cuda::cublaslt::{Choices, CublasLt, Library, Matmul, PdlKernels};
use cuda::{Gpu, LaunchMode, Stream, View};
use vos::bundle::trunk::{HieraBlock, HieraWeights, STAGES};

mod choosing;
mod layout;

/// Shape, weights and autotuned choices of a trunk.
#[derive(Clone, Copy)]
pub struct TrunkSource<'a> {
    /// Its blocks.
    pub blocks: &'a [HieraBlock],
    /// The last block of each stage.
    pub ends: &'a [usize; STAGES],
    /// Of each block.
    pub weights: &'a [HieraWeights<'a>],
    /// Autotuned algorithms and kernels; those of another library or GPU are ignored. Those of a
    /// program with other kernels are used as far as they go, with a warning.
    pub choices: Option<&'a Choices>,
}

/// The trunk of one encoder on its stream.
pub struct TrunkExecutor {
    blocks: Vec<Block>,
    fused: FusedPlaces,
    folded: FoldedPlaces,
    kernels: HieraKernels,
    workspace: View,
    /// Of all GEMMs.
    counters: View,
    cublaslt: Vec<Rc<Matmul>>,
    bias_gelu: Vec<Rc<GemmBiasGelu>>,
    residual_layernorm: Vec<Rc<GemmResidualLayerNorm>>,
    /// Kinds of kernels that use PDL if they can.
    pdl: Cell<PdlKernels>,
    library: CublasLt,
}

impl TrunkExecutor {
    /// Bytes of scratch memory that a trunk needs.
    pub fn scratch_bytes(blocks: &[HieraBlock]) -> usize {
        Scratch::of(blocks).bytes()
    }

    /// Copies the weights to the device. `maps`: f32 memory of each stage's tokens, the first with
    /// the stem's output; `scratch`: at least [`Self::scratch_bytes`], which nothing else may use
    /// while the trunk runs. Without choices cuBLASLt computes the GEMMs, and no fused kernel is
    /// used that autotuning did not choose on such a GPU.
    ///
    /// # Errors
    /// No cuBLASLt, memory of other sizes than the trunk's, GEMMs without an algorithm of cuBLASLt,
    /// or an error of the driver.
    pub fn new(
        gpu: &Gpu,
        source: &TrunkSource,
        attention: Option<&AttentionKernels>,
        maps: &[View],
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        Self::with_kernels(gpu, source, attention, (maps, scratch), false, stream)
    }

    /// The same; without choices all kernels are loaded, for trials of each, and all fused ones are
    /// used until then.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn for_trials(
        gpu: &Gpu,
        source: &TrunkSource,
        attention: Option<&AttentionKernels>,
        memory: (&[View], &View),
        stream: &Stream,
    ) -> Result<Self> {
        Self::with_kernels(gpu, source, attention, memory, true, stream)
    }

    /// The library of the GEMMs.
    pub fn library(&self) -> &Library {
        self.library.library()
    }

    /// Memory that it clears before its first GEMM.
    pub fn counters(&self) -> &View {
        &self.counters
    }

    /// Enqueues all blocks. No allocation; may be recorded.
    ///
    /// # Errors
    /// Those of the driver or of cuBLASLt.
    pub fn enqueue(&self, stream: &Stream) -> Result<()> {
        self.clear(stream)?;
        self.enqueue_all(LaunchMode::Ordered, stream)
    }

    /// Clears the counters, all at once: cuBLASLt clears each before its GEMM, which a recorded
    /// graph then leaves out.
    pub(super) fn clear(&self, stream: &Stream) -> Result<()> {
        Ok(self.counters.fill(0, stream)?)
    }

    /// Enqueues all blocks behind a kernel that makes their tokens, and in front of which the
    /// counters were cleared ([`Self::clear`]).
    ///
    /// # Errors
    /// As [`Self::enqueue`].
    pub(super) fn enqueue_behind_a_kernel(&self, stream: &Stream) -> Result<()> {
        let mode = if self.pdl.get().norms { LaunchMode::Pdl } else { LaunchMode::Ordered };
        self.enqueue_all(mode, stream)
    }

    /// All blocks, the first norm or fused block in this mode.
    fn enqueue_all(&self, first: LaunchMode, stream: &Stream) -> Result<()> {
        let later = if self.pdl.get().norms { LaunchMode::Pdl } else { LaunchMode::Ordered };
        if let Some(block) = self.blocks.first().filter(|_| self.fused.block(0).is_none()) {
            block.norm1.enqueue(&block.x, first, &self.kernels, stream)?;
        }
        for (at, block) in self.blocks.iter().enumerate() {
            // A fused block has its first norm itself.
            let next_fused = self.fused.block(at + 1);
            let next = self.blocks.get(at + 1).map(|next| &next.norm1);
            let next = next.filter(|_| next_fused.is_none());
            match self.fused.block(at) {
                Some(fused) => {
                    let prefetch = self.fused.transition(at + 1).map(FusedTransition::units);
                    let prefetch = prefetch.or(next.map(|norm| &norm.prefetch));
                    let prefetch = prefetch.or(next_fused.map(FusedBlock::units));
                    let mode = if at == 0 { first } else { later };
                    let normed = next.map(|norm| &norm.out);
                    fused.enqueue(&block.residual, normed, prefetch, mode, stream)?;
                }
                None => {
                    self.enqueue_attention(at, block, stream)?;
                    self.enqueue_mlp(at, block, next, stream)?;
                }
            }
        }
        Ok(())
    }

    /// The first norm of a block, its residual and its second norm, between which
    /// [`Self::enqueue_attention_of`] runs; the second may lie where the first is.
    pub(super) fn around_attention(&self, at: usize) -> Option<[&View; 3]> {
        let block = self.blocks.get(at)?;
        Some([&block.norm1.out, &block.residual, &block.norm2.out])
    }

    /// Enqueues a block from its first norm to its second, behind a kernel.
    ///
    /// # Errors
    /// As [`Self::enqueue`], or there is no such block.
    pub(super) fn enqueue_attention_of(&self, at: usize, stream: &Stream) -> Result<()> {
        let block = self.blocks.get(at).context("no such block")?;
        self.enqueue_attention(at, block, stream)
    }

    /// A block from its first norm to its second.
    fn enqueue_attention(&self, at: usize, block: &Block, stream: &Stream) -> Result<()> {
        let kernels = &self.kernels;
        let [_, windows, norms] = self.modes();
        let (normed, norm2) = (&block.norm1.out, &block.norm2);
        if let Some(transition) = self.fused.transition(at) {
            let views = [normed, &block.residual, &norm2.out];
            return transition.enqueue(views, Some(&norm2.prefetch), norms, stream);
        }
        if let Some(Skip { linear, projected, side }) = &block.skip {
            let Affine { weight, bias } = &linear.weights;
            let workspace = self.workspace_of(linear);
            linear.cublaslt.enqueue(normed, weight, bias, projected, workspace, stream)?;
            kernels.max_pool(projected, &block.residual, *side, block.columns_out, stream)?;
        }
        let folded = self.folded.norm1(at, &self.fused);
        self.enqueue_bias_gelu(&block.qkv, [normed, &block.queries], folded, stream)?;
        match &block.attention {
            BlockAttention::Window(attention) => {
                let bias = &block.qkv.0.weights.bias;
                attention.enqueue([&block.queries, bias, &block.attended], windows, stream)?;
            }
            BlockAttention::Global(attention) => {
                attention.enqueue_tokens(&block.queries, &block.attended, stream)?;
            }
        }
        let folded = self.folded.norm2(at, &self.fused);
        let tokens = [&block.attended, &block.residual];
        self.enqueue_residual(&block.proj, tokens, Some(norm2), folded, stream)
    }

    /// A block after its second norm, and `next`, the first norm of the block after it.
    fn enqueue_mlp(
        &self,
        at: usize,
        block: &Block,
        next: Option<&LayerNorm>,
        stream: &Stream,
    ) -> Result<()> {
        let folded = self.folded.norm2(at, &self.fused);
        let tokens = [&block.norm2.out, &block.hidden];
        self.enqueue_bias_gelu(&block.up, tokens, folded, stream)?;
        let folded = self.folded.norm1(at + 1, &self.fused);
        let tokens = [&block.hidden, &block.residual];
        self.enqueue_residual(&block.down, tokens, next, folded, stream)
    }

    /// A GEMM to f16; `folded`: it takes raw tokens, and normalises its sums.
    fn enqueue_bias_gelu(
        &self,
        (linear, gemm): &(Linear, Rc<GemmBiasGelu>),
        [tokens, out]: [&View; 2],
        folded: Option<&FoldedPlace>,
        stream: &Stream,
    ) -> Result<()> {
        let [gemms, ..] = self.modes();
        match folded {
            Some(folded) => folded.enqueue_after([tokens, out], gemms, stream),
            None => {
                let views = [tokens, out, self.workspace_of(linear)];
                gemm.enqueue(&linear.weights, views, gemms, &self.kernels, stream)
            }
        }
    }

    /// A GEMM to the residual, and `norm` of that; `folded`: raw tokens in place of normalised ones.
    fn enqueue_residual(
        &self,
        (linear, gemm): &(Linear, Rc<GemmResidualLayerNorm>),
        [tokens, residual]: [&View; 2],
        norm: Option<&LayerNorm>,
        folded: Option<&FoldedPlace>,
        stream: &Stream,
    ) -> Result<()> {
        let [gemms, _, norms] = self.modes();
        match (folded, norm) {
            (Some(folded), Some(norm)) => {
                let views = [tokens, residual, &norm.out];
                folded.enqueue_before(&linear.weights, views, gemms, stream)
            }
            _ => {
                let views = [tokens, residual, self.workspace_of(linear)];
                gemm.enqueue(&linear.weights, views, norm, [gemms, norms], &self.kernels, stream)
            }
        }
    }

    /// The launch modes of GEMMs, window attention and norms.
    fn modes(&self) -> [LaunchMode; 3] {
        let pdl = self.pdl.get();
        [pdl.products, pdl.windows, pdl.norms]
            .map(|pdl| if pdl { LaunchMode::Pdl } else { LaunchMode::Ordered })
    }

    /// A small workspace belongs to one GEMM, so that all of them can be cleared at once.
    fn workspace_of<'a>(&'a self, linear: &'a Linear) -> &'a View {
        let small = linear.cublaslt.workspace_bytes() <= COUNTER;
        if small { &linear.counter } else { &self.workspace }
    }
}
