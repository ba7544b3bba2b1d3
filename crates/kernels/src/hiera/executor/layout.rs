//! A trunk's kernels, weights and memory.

use std::cell::Cell;

use anyhow::{Context, Result, ensure};

use super::{TrunkExecutor, TrunkSource};
use crate::attention::AttentionKernels;
use crate::gemm::{GemmKernels, GemmLayerNormKernels, GemmMomentsKernels};
use crate::hiera::block::{BlockBuilder, COUNTER};
use crate::hiera::folded::FoldPlan;
use crate::hiera::fused::{FusedPlaces, is_of_second_stage};
use crate::hiera::kernel_names::autotuned_kernels;
use crate::hiera::kernels::HieraKernels;
use crate::hiera::shapes::{BlockGemms, Scratch};
use crate::hiera::weights;
use cuda::cublaslt::{ALIGNMENT, CublasLt};
use cuda::{Gpu, MemoryTag, Stream, View};
use vos::bundle::trunk::HieraBlock;

impl TrunkExecutor {
    /// As [`Self::new`]; `all`: with all kernels, if nothing was chosen.
    pub(super) fn with_kernels(
        gpu: &Gpu,
        source: &TrunkSource,
        attention: Option<&AttentionKernels>,
        (maps, scratch): (&[View], &View),
        all: bool,
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
        // Kernels that few GPUs are faster with need a trial.
        let unfused = |name: &str| match choices {
            Some(choices) => choices.is_separate(name),
            None => !all && gpu.runs_hopper_kernels() && is_of_second_stage(name),
        };
        let fused = FusedPlaces::load(gpu, shapes, weights, |name| !unfused(name), stream)?;
        // Autotuned choices name their kernels: no other is loaded.
        let wanted = |name: &str| choices.map_or(all, |choices| choices.has_kernel(name));
        let has = |columns| shapes.iter().any(|block| block.dim_out == columns);
        let gemm_kernels = GemmKernels::load_if_supported(gpu, wanted);
        let moments_kernels = GemmMomentsKernels::load_if_supported(gpu, |name, tile_columns| {
            let divides = |block: &HieraBlock| block.dim_out.is_multiple_of(tile_columns);
            wanted(name) && shapes.iter().any(divides)
        });
        let around_norms = moments_kernels.as_ref().zip(gemm_kernels.as_ref());
        let mut plan = FoldPlan::new(shapes, around_norms, choices);
        let mut loaded = weights::load(gpu, weights, &plan.weights(weights), stream)?;
        let folded = plan.place(gpu, &mut loaded)?;
        let gemms = shapes.iter().map(BlockGemms::count).sum::<usize>();
        let counters = View::new(&gpu.tagged(MemoryTag::Scratch), COUNTER * gemms)?;
        let mut builder = BlockBuilder {
            gpu,
            kernels,
            library,
            attention,
            gemm_kernels,
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
            folded,
            kernels,
            workspace,
            counters,
            cublaslt,
            bias_gelu,
            residual_layernorm,
            pdl,
            library,
        })
    }
}

/// Of GEMMs that need so many bytes.
pub(super) fn workspace(gpu: &Gpu, bytes: Option<usize>) -> Result<View> {
    let bytes = bytes.unwrap_or(0).max(ALIGNMENT);
    Ok(View::new(&gpu.tagged(MemoryTag::Scratch), bytes)?)
}
