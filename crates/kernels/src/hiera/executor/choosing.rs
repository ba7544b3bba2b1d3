//! What autotuning and self-tests choose of a trunk: algorithms, kernels, and how they begin.

use anyhow::Result;

use super::TrunkExecutor;
use super::layout::workspace;
use crate::hiera::alternatives::Alternatives;
use crate::hiera::block::{Block, BlockAttention};
use crate::hiera::folded::Fold;
use crate::hiera::fused::FusedPlaces;
use crate::hiera::gemm::GemmImpl;
use crate::hiera::kernel_names::autotuned_kernels;
use cuda::cublaslt::{Choice, Choices, Matmul, PdlKernels};
use cuda::{Gpu, LaunchMode};

impl TrunkExecutor {
    /// cuBLASLt's GEMMs, each shape once.
    pub(in crate::hiera) fn cublaslt(&self) -> impl Iterator<Item = &Matmul> {
        self.cublaslt.iter().map(AsRef::as_ref)
    }

    /// Implementations of the GEMMs that have an epilogue, each shape once.
    pub(in crate::hiera) fn gemm_impls(&self) -> impl Iterator<Item = &GemmImpl> {
        let first = self.bias_gelu.iter().map(|gemm| &gemm.implementation);
        first.chain(self.residual_layernorm.iter().map(|gemm| &gemm.implementation))
    }

    /// Chooses this crate's kernels for every GEMM that one serves, from the next launch on: the
    /// first kernel of several, or the last. Returns the number of such shapes.
    pub fn use_custom_kernels(&self, last: bool) -> usize {
        self.gemm_impls().filter(|gemm| gemm.choose_any(last)).count()
    }

    /// LayerNorms that can be folded, each pair of shapes around them once.
    pub(in crate::hiera) fn folds(&self) -> impl Iterator<Item = &Fold> {
        self.folded.folds()
    }

    /// Folds all norms that can be, from the next launch on: with the first kernels of several, or
    /// the last; or none (`last` is none). Returns the number of pairs of shapes around them.
    pub(in crate::hiera) fn fold_norms(&self, last: Option<bool>) -> usize {
        let fold = |fold: &Fold| match last {
            Some(last) => fold.choose_any(last),
            None => {
                fold.choose(None);
                true
            }
        };
        self.folds().filter(|one| fold(one)).count()
    }

    /// The fused kernels of whole blocks and of attention halves.
    pub(in crate::hiera) fn fused(&self) -> &FusedPlaces {
        &self.fused
    }

    /// Lets such kernels compute what they serve, or several kernels (`fused` is false), from the
    /// next launch on. Returns the number of the blocks that they serve.
    pub fn use_fused_blocks(&self, fused: bool) -> usize {
        self.fused.fuse_all(fused)
    }

    /// Kinds of kernels, as chosen now, that can use PDL on this GPU with this driver.
    pub(in crate::hiera) fn can_use_pdl(&self) -> PdlKernels {
        let windows = |block: &Block| match &block.attention {
            BlockAttention::Window(of) => of.is_hopper(),
            _ => false,
        };
        let can = PdlKernels {
            products: self.gemm_impls().any(|gemm| gemm.kernel().is_some())
                || self.folds().any(|fold| fold.kernel().is_some()),
            windows: self.blocks.iter().any(windows),
            norms: self.kernels.layernorm_has_pdl(),
        };
        if LaunchMode::Pdl.is_capturable() { can } else { PdlKernels::default() }
    }

    /// Lets kernels of these kinds, and no others, use PDL if they can, from the next launch on.
    pub fn use_pdl(&self, kinds: PdlKernels) {
        self.pdl.set(kinds);
    }

    /// Gives the GEMMs a workspace that is large enough for any of their algorithms.
    pub(in crate::hiera) fn grow_workspace(&mut self, gpu: &Gpu) -> Result<()> {
        self.workspace = workspace(gpu, self.cublaslt().map(Matmul::most_workspace_bytes).max())?;
        Ok(())
    }

    /// What is chosen now, for the manifest; `us` as there, and `separate` the kernels of whole
    /// blocks and attention halves that are not used.
    pub(in crate::hiera) fn choices(
        &self,
        gpu: &Gpu,
        us: [f64; 2],
        separate: &[&'static str],
    ) -> Choices {
        let kernel_of = |shape| {
            let gemm = self.gemm_impls().find(|gemm| gemm.shape() == shape);
            gemm.and_then(GemmImpl::kernel).map(str::to_owned)
        };
        let choice = |gemm: &Matmul| Choice {
            shape: gemm.shape(),
            algorithm: gemm.chosen(),
            of: gemm.candidates(),
            kernel: kernel_of(gemm.shape()),
        };
        Choices {
            library: self.library().to_string(),
            device: gpu.facts().name.clone(),
            us,
            products: self.cublaslt().map(choice).collect(),
            pdl: self.pdl.get(),
            kernels: autotuned_kernels(gpu).into_iter().map(str::to_owned).collect(),
            separate: separate.iter().copied().map(str::to_owned).collect(),
            folds: self.folds().filter_map(Fold::choice).collect(),
        }
    }
}
