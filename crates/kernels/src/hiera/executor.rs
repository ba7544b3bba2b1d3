/*!
Runs all blocks, one after the other: GEMMs by cuBLASLt or by this crate's kernels where those are
faster, everything else by this crate's kernels. One kernel computes a whole block, or its attention
half, where it can and autotuning did not find that slower (`fused`).

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

use anyhow::{Context, Result, ensure};

use super::block::{Block, BlockAttention, BlockBuilder, COUNTER, Linear, Skip};
use super::fused::{FusedBlock, FusedPlaces, FusedTransition};
use super::gemm::{GemmBiasGelu, GemmImpl, GemmResidualLayerNorm, LayerNorm};
use super::kernel_names::autotuned_kernels;
use super::kernels::HieraKernels;
use super::shapes::{BlockGemms, Scratch};
use super::weights::{self, Affine};
use crate::attention::AttentionKernels;
use crate::gemm::{GemmKernels, GemmLayerNormKernels};
use crate::kernel::chains_have_pdl;
use cuda::cublaslt::{ALIGNMENT, Choices, CublasLt, Library, Matmul, MatmulShape, PdlKernels};
use cuda::{Gpu, LaunchMode, MemoryTag, Stream, View};
use vos::bundle::trunk::{HieraBlock, HieraWeights, STAGES};

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
    kernels: HieraKernels,
    workspace: View,
    /// Of all GEMMs.
    counters: View,
    cublaslt: Vec<Rc<Matmul>>,
    bias_gelu: Vec<Rc<GemmBiasGelu>>,
    residual_layernorm: Vec<Rc<GemmResidualLayerNorm>>,
    /// All kernels of the blocks' attention wait themselves, where the GPU can.
    attention_has_pdl: bool,
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
    /// while the trunk runs.
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
        let TrunkSource { blocks: shapes, ends, weights, choices } = *source;
        ensure!(
            maps.len() == ends.len() && weights.len() == shapes.len(),
            "{} maps and the weights of {} blocks for a trunk of {} stages and {} blocks",
            maps.len(),
            weights.len(),
            ends.len(),
            shapes.len()
        );
        let library = CublasLt::open(gpu)?;
        log::debug!("the trunk's GEMMs: {library}");
        let choices = choices.filter(|choices| choices.fit(&library));
        if choices.is_some_and(|choices| !choices.tried(&autotuned_kernels(gpu))) {
            log::warn!(
                "the engines were autotuned with other kernels than this version has: cuBLASLt \
                 takes the place of those that are missing, new ones are used without a trial; \
                 `segtrt build-engines` autotunes again"
            );
        }
        let kernels = HieraKernels::load(gpu)?;
        let separate = |name: &str| choices.is_some_and(|choices| choices.is_separate(name));
        let fused = FusedPlaces::load(gpu, shapes, weights, |name| !separate(name), stream)?;
        let loaded = weights::load(gpu, weights, stream)?;
        let gemms = shapes.iter().map(BlockGemms::count).sum::<usize>();
        let counters = View::new(&gpu.tagged(MemoryTag::Scratch), COUNTER * gemms)?;
        // Autotuned choices name their kernels: no other is loaded.
        let wanted = |name: &str| {
            let named = |choices: &Choices| {
                choices.products.iter().any(|choice| choice.kernel.as_deref() == Some(name))
            };
            choices.is_none_or(named)
        };
        let has = |columns| shapes.iter().any(|block| block.dim_out == columns);
        let mut builder = BlockBuilder {
            gpu,
            kernels,
            library,
            attention,
            gemm_kernels: GemmKernels::load_if_supported(gpu, wanted),
            layernorm_kernels: GemmLayerNormKernels::load_if_supported(gpu, |name, columns| {
                wanted(name) && has(columns)
            }),
            scratch: Scratch::of(shapes),
            memory: scratch,
            choices,
            cublaslt: Vec::new(),
            bias_gelu: Vec::new(),
            residual_layernorm: Vec::new(),
            global: Vec::new(),
            counters,
            counted: 0,
        };
        let mut blocks = Vec::with_capacity(shapes.len());
        let mut stage = 0;
        for (at, (block, weights)) in shapes.iter().zip(loaded).enumerate() {
            let before = stage;
            if at > 0 && ends.contains(&(at - 1)) {
                stage += 1;
            }
            let map = |stage: usize| maps.get(stage).context("more stages than maps");
            blocks.push(builder.block(block, weights, map(before)?, map(stage)?)?);
        }
        let bytes = builder.cublaslt.iter().map(|one| one.workspace_bytes()).max();
        let workspace = workspace(gpu, bytes)?;
        let BlockBuilder {
            kernels,
            library,
            cublaslt,
            bias_gelu,
            residual_layernorm,
            counters,
            ..
        } = builder;
        let pdl = Cell::new(choices.map(|choices| choices.pdl).unwrap_or_default());
        Ok(Self {
            blocks,
            fused,
            kernels,
            workspace,
            counters,
            cublaslt,
            bias_gelu,
            residual_layernorm,
            attention_has_pdl: chains_have_pdl(gpu),
            pdl,
            library,
        })
    }

    /// The library of the GEMMs.
    pub fn library(&self) -> &Library {
        self.library.library()
    }

    /// Memory that it clears before its first GEMM.
    pub fn counters(&self) -> &View {
        &self.counters
    }

    /// cuBLASLt's GEMMs, each shape once.
    pub(super) fn cublaslt(&self) -> impl Iterator<Item = &Matmul> {
        self.cublaslt.iter().map(AsRef::as_ref)
    }

    /// Implementations of the GEMMs that have an epilogue, each shape once.
    pub(super) fn gemm_impls(&self) -> impl Iterator<Item = &GemmImpl> {
        let first = self.bias_gelu.iter().map(|gemm| &gemm.implementation);
        first.chain(self.residual_layernorm.iter().map(|gemm| &gemm.implementation))
    }

    /// Chooses this crate's kernels for every GEMM that one serves, from the next launch on: the
    /// first kernel of several, or the last. Returns the number of such shapes.
    pub fn use_custom_kernels(&self, last: bool) -> usize {
        let choose = |gemm: &GemmImpl| {
            let kernels = gemm.kernels();
            gemm.choose(if last { kernels.last() } else { kernels.first() }.copied());
            gemm.kernel().is_some()
        };
        self.gemm_impls().filter(|gemm| choose(gemm)).count()
    }

    /// Whether some block has a GEMM of this shape that no fused kernel computes, as chosen now.
    pub(super) fn runs(&self, shape: MatmulShape) -> bool {
        let unfused = |(at, block): (usize, &Block)| {
            let half = [
                Some(&block.qkv.0),
                Some(&block.proj.0),
                block.skip.as_ref().map(|skip| &skip.linear),
            ];
            let half = half.into_iter().flatten().filter(|_| self.fused.transition(at).is_none());
            let all = half.chain([&block.up.0, &block.down.0]);
            all.filter(|_| self.fused.block(at).is_none()).any(|one| one.cublaslt.shape() == shape)
        };
        self.blocks.iter().enumerate().any(unfused)
    }

    /// The fused kernels of whole blocks and of attention halves.
    pub(super) fn fused(&self) -> &FusedPlaces {
        &self.fused
    }

    /// Lets such kernels compute what they serve, or several kernels (`fused` is false), from the
    /// next launch on. Returns the number of the blocks that they serve.
    pub fn use_fused_blocks(&self, fused: bool) -> usize {
        self.fused.fuse_all(fused)
    }

    /// Kinds of kernels, as chosen now, that can use PDL on this GPU with this driver.
    pub(super) fn can_use_pdl(&self) -> PdlKernels {
        let can = PdlKernels {
            products: self.gemm_impls().any(|gemm| gemm.kernel().is_some()),
            windows: self.attention_has_pdl,
            norms: self.kernels.layernorm_has_pdl(),
        };
        if LaunchMode::Pdl.is_capturable() { can } else { PdlKernels::default() }
    }

    /// Lets kernels of these kinds alone use PDL from the next launch on; returns those until now.
    pub fn use_pdl(&self, kinds: PdlKernels) -> PdlKernels {
        self.pdl.replace(kinds)
    }

    /// Gives the GEMMs a workspace that is large enough for any of their algorithms.
    pub(super) fn grow_workspace(&mut self, gpu: &Gpu) -> Result<()> {
        self.workspace = workspace(gpu, self.cublaslt().map(Matmul::most_workspace_bytes).max())?;
        Ok(())
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
        self.enqueue_all(self.mode_of_norms(), stream)
    }

    /// The launch mode of LayerNorms, and of other kernels that are short: fused blocks, max
    /// pooling, the neck behind the blocks.
    pub(super) fn mode_of_norms(&self) -> LaunchMode {
        if self.pdl.get().norms { LaunchMode::Pdl } else { LaunchMode::Ordered }
    }

    /// All blocks, the first norm or fused block in this mode.
    fn enqueue_all(&self, first: LaunchMode, stream: &Stream) -> Result<()> {
        let later = self.mode_of_norms();
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
                    self.enqueue_mlp(block, next, stream)?;
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
        let [gemms, windows, norms] = self.modes();
        let (normed, norm2) = (&block.norm1.out, &block.norm2);
        if let Some(transition) = self.fused.transition(at) {
            let views = [normed, &block.residual, &norm2.out];
            return transition.enqueue(views, Some(&norm2.prefetch), norms, stream);
        }
        if let Some(Skip { linear, projected, side }) = &block.skip {
            let Affine { weight, bias } = &linear.weights;
            let workspace = self.workspace_of(linear);
            linear.cublaslt.enqueue(normed, weight, bias, projected, workspace, stream)?;
            let size = [*side, block.columns_out];
            kernels.max_pool(projected, &block.residual, size, norms, stream)?;
        }
        self.enqueue_bias_gelu(&block.qkv, normed, &block.queries, stream)?;
        match &block.attention {
            BlockAttention::Window(attention) => {
                let bias = &block.qkv.0.weights.bias;
                attention.enqueue([&block.queries, bias, &block.attended], windows, stream)?;
            }
            BlockAttention::Global(attention) => {
                let views = [&block.queries, &block.attended];
                attention.enqueue_tokens(views, windows, stream)?;
            }
        }
        let (linear, proj) = &block.proj;
        let views = [&block.attended, &block.residual, self.workspace_of(linear)];
        proj.enqueue(&linear.weights, views, Some(norm2), [gemms, norms], kernels, stream)
    }

    /// A block after its second norm, and `next`, the first norm of the block after it.
    fn enqueue_mlp(&self, block: &Block, next: Option<&LayerNorm>, stream: &Stream) -> Result<()> {
        let [gemms, _, norms] = self.modes();
        self.enqueue_bias_gelu(&block.up, &block.norm2.out, &block.hidden, stream)?;
        let (linear, down) = &block.down;
        let views = [&block.hidden, &block.residual, self.workspace_of(linear)];
        down.enqueue(&linear.weights, views, next, [gemms, norms], &self.kernels, stream)
    }

    fn enqueue_bias_gelu(
        &self,
        (linear, gemm): &(Linear, Rc<GemmBiasGelu>),
        tokens: &View,
        out: &View,
        stream: &Stream,
    ) -> Result<()> {
        let ([gemms, ..], views) = (self.modes(), [tokens, out, self.workspace_of(linear)]);
        gemm.enqueue(&linear.weights, views, gemms, &self.kernels, stream)
    }

    /// The launch modes of GEMMs, attention and norms.
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

fn workspace(gpu: &Gpu, bytes: Option<usize>) -> Result<View> {
    let bytes = bytes.unwrap_or(0).max(ALIGNMENT);
    Ok(View::new(&gpu.tagged(MemoryTag::Scratch), bytes)?)
}
