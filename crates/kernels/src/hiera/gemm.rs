/*!
A GEMM of Hiera and its epilogue, by one of two implementations: cuBLASLt and then a kernel for the
epilogue, or, on Hopper, one kernel for both.

Autotuning chooses the implementation by the time of all blocks (`autotune`). Without autotuned
results it is cuBLASLt: the faster one differs between shapes and libraries.
*/

use std::cell::Cell;
use std::rc::Rc;

use anyhow::Result;

use super::kernels::HieraKernels;
use super::weights::Affine;
use crate::gemm::{GemmKernels, GemmLayerNormKernels, GemmLayerNormOperands};
use cuda::cublaslt::{Matmul, MatmulShape};
use cuda::{Element, LaunchMode, Stream, View};

/// The implementation of one GEMM shape, shared by all blocks that have the shape.
pub(super) struct GemmImpl {
    shape: MatmulShape,
    kernels: Vec<&'static str>,
    chosen: Cell<Option<&'static str>>,
}

impl GemmImpl {
    /// The kernel `wanted` if it is one of `kernels`, which serve the shape; else cuBLASLt.
    pub fn new(
        shape: MatmulShape,
        kernels: impl Iterator<Item = &'static str>,
        wanted: Option<&str>,
    ) -> Self {
        let kernels: Vec<&str> = kernels.collect();
        let chosen = kernels.iter().copied().find(|name| Some(*name) == wanted);
        Self { shape, kernels, chosen: Cell::new(chosen) }
    }

    /// Of the GEMM.
    pub fn shape(&self) -> MatmulShape {
        self.shape
    }

    /// Names of the kernels that serve the shape; none on most GPUs.
    pub fn kernels(&self) -> &[&'static str] {
        &self.kernels
    }

    /// The chosen kernel; none for cuBLASLt.
    pub fn kernel(&self) -> Option<&'static str> {
        self.chosen.get()
    }

    /// Chooses one of [`Self::kernels`], or cuBLASLt, for all later launches.
    pub fn choose(&self, kernel: Option<&'static str>) {
        self.chosen.set(kernel);
    }
}

/// GEMMs with an f16 output, of one shape: queries, keys and values, or the MLP's hidden layer with
/// bias and GELU.
pub(super) struct GemmBiasGelu {
    cublaslt: Rc<Matmul>,
    kernels: Option<GemmKernels>,
    gelu: bool,
    pub implementation: GemmImpl,
}

impl GemmBiasGelu {
    /// With the kernel `wanted` if it exists here and serves the shape.
    pub fn new(
        cublaslt: Rc<Matmul>,
        gelu: bool,
        kernels: Option<&GemmKernels>,
        wanted: Option<&str>,
    ) -> Self {
        let shape = cublaslt.shape();
        let MatmulShape { n, k, output, residual, .. } = shape;
        let served = output == Element::F16 && !residual && GemmKernels::supports(n, k);
        let kernels = kernels.filter(|_| served).cloned();
        let names = kernels.iter().flat_map(|kernels| kernels.names(gelu, k));
        let implementation = GemmImpl::new(shape, names, wanted);
        Self { cublaslt, kernels, gelu, implementation }
    }

    /// Whether it has this shape and epilogue.
    pub fn is(&self, shape: MatmulShape, gelu: bool) -> bool {
        self.implementation.shape() == shape && self.gelu == gelu
    }

    /// Enqueues `out = tokens weightᵀ + bias`, with or without GELU, after a kernel. No allocation;
    /// may be recorded.
    ///
    /// # Errors
    /// Those of the driver or of cuBLASLt.
    pub fn enqueue(
        &self,
        Affine { weight, bias }: &Affine,
        [tokens, out, workspace]: [&View; 3],
        mode: LaunchMode,
        kernels: &HieraKernels,
        stream: &Stream,
    ) -> Result<()> {
        let MatmulShape { m, n, k, .. } = self.implementation.shape();
        if let (Some(custom), Some(name)) = (&self.kernels, self.implementation.kernel()) {
            let operands = [tokens, weight, bias, out];
            return custom.enqueue(name, [m, n, k], operands, mode, stream);
        }
        self.cublaslt.enqueue(tokens, weight, bias, out, workspace, stream)?;
        if self.gelu {
            kernels.gelu(out, m * n, stream)?;
        }
        Ok(())
    }
}

/// A layer normalisation of the residual.
pub(super) struct LayerNorm {
    pub weights: Affine,
    /// Of the residual and of the output.
    pub rows: usize,
    pub columns: usize,
    /// Normalised tokens.
    pub out: View,
    /// Weights of the following GEMMs, which it prefetches into the L2 cache.
    pub prefetch: View,
}

impl LayerNorm {
    /// Enqueues its kernel; with programmatic dependent launch only after a kernel.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn enqueue(
        &self,
        residual: &View,
        mode: LaunchMode,
        kernels: &HieraKernels,
        stream: &Stream,
    ) -> Result<()> {
        let Self { weights: Affine { weight, bias }, rows, columns, out, prefetch } = self;
        kernels.layernorm(
            residual,
            weight,
            bias,
            out,
            Some(prefetch),
            [*rows, *columns],
            mode,
            stream,
        )
    }
}

/// GEMMs of one shape that add to the residual, each with the LayerNorm that follows: the second of
/// the same block, or the first of the next block.
pub(super) struct GemmResidualLayerNorm {
    cublaslt: Rc<Matmul>,
    kernels: Option<GemmLayerNormKernels>,
    pub implementation: GemmImpl,
}

impl GemmResidualLayerNorm {
    /// With the kernel `wanted` if it exists here and serves the shape.
    pub fn new(
        cublaslt: Rc<Matmul>,
        kernels: Option<&GemmLayerNormKernels>,
        wanted: Option<&str>,
    ) -> Self {
        let shape = cublaslt.shape();
        let MatmulShape { n, k, output, residual, .. } = shape;
        let kernels = kernels.filter(|_| output == Element::F32 && residual).cloned();
        let names = kernels.iter().flat_map(|kernels| kernels.names(n, k));
        let implementation = GemmImpl::new(shape, names, wanted);
        Self { cublaslt, kernels, implementation }
    }

    /// Enqueues `residual += tokens weightᵀ + bias`, then `norm` of it, which the trunk's last
    /// block has not. The norm's output may lie over the tokens, which are read by then. A kernel
    /// must precede it. One kernel for both has the first of the modes, a norm's kernel the second.
    /// No allocation; may be recorded.
    ///
    /// # Errors
    /// Those of the driver or of cuBLASLt.
    pub fn enqueue(
        &self,
        Affine { weight, bias }: &Affine,
        [tokens, residual, workspace]: [&View; 3],
        norm: Option<&LayerNorm>,
        [mode, norm_mode]: [LaunchMode; 2],
        kernels: &HieraKernels,
        stream: &Stream,
    ) -> Result<()> {
        let implementation = &self.implementation;
        if let (Some(custom), Some(name), Some(norm)) =
            (&self.kernels, implementation.kernel(), norm)
        {
            let MatmulShape { m, n, k, .. } = implementation.shape();
            let operands = GemmLayerNormOperands {
                a: tokens,
                weight,
                bias,
                residual,
                norm: [&norm.weights.weight, &norm.weights.bias],
                out: &norm.out,
                prefetch: Some(&norm.prefetch),
            };
            return custom.enqueue(name, [m, n, k], &operands, mode, stream);
        }
        self.cublaslt.enqueue(tokens, weight, bias, residual, workspace, stream)?;
        norm.map_or(Ok(()), |norm| norm.enqueue(residual, norm_mode, kernels, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wanted_kernel_is_chosen_only_if_it_exists() {
        let (m, n, k, output) = (4096, 576, 2304, Element::F32);
        let shape = MatmulShape { m, n, k, output, residual: true };
        let of = |wanted| GemmImpl::new(shape, ["one", "another"].into_iter(), wanted);
        assert_eq!(of(None).kernel(), None);
        assert_eq!(of(Some("another")).kernel(), Some("another"));
        // Of a newer program, and of an older one: this kernel has been deleted since.
        for unknown in ["a newer program's", "gemm_residual_layernorm_96"] {
            assert_eq!(of(Some(unknown)).kernel(), None);
        }
        let chosen = of(Some("one"));
        chosen.choose(None);
        assert_eq!((chosen.kernel(), chosen.kernels().len()), (None, 2));
        assert_eq!(GemmImpl::new(shape, std::iter::empty(), Some("one")).kernel(), None);
    }
}
