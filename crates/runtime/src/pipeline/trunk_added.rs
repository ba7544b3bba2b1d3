/*!
A product that is added to the residual, with the norm behind it, which is that of what comes next: the same block's second, or the next block's
first. By cuBLASLt and the norm's own kernel; or, on Hopper, by one kernel for both (`trunk_way.rs`).
*/

use std::rc::Rc;

use anyhow::Result;

use super::trunk_way::Way;
use super::trunk_weights::Loaded;
use cuda::Element;
use cuda::cublaslt::{Matmul, MatmulShape};
use cuda::{LaunchMode, Stream, View};
use kernels::{Normed, NormedKernels, TrunkKernels};

/// A layer normalisation of a residual.
pub(super) struct Norm {
    pub weights: Loaded,
    /// Of the residual and of what comes out.
    pub rows: usize,
    pub columns: usize,
    /// Normalised tokens.
    pub out: View,
    /// Weights that it brings into the L2 cache for the products behind it.
    pub ahead: View,
}

impl Norm {
    /// Enqueues it by itself; behind a kernel where it begins early.
    ///
    /// # Errors
    /// What the driver says.
    pub fn enqueue(
        &self,
        residual: &View,
        begin: LaunchMode,
        kernels: &TrunkKernels,
        stream: &Stream,
    ) -> Result<()> {
        let Self { weights: Loaded { weight, bias }, rows, columns, out, ahead } = self;
        kernels.normalize(
            residual,
            weight,
            bias,
            out,
            Some(ahead),
            [*rows, *columns],
            begin,
            stream,
        )
    }
}

/// One shape of such products; many blocks share it.
pub(super) struct Added {
    product: Rc<Matmul>,
    kernels: Option<NormedKernels>,
    pub way: Way,
}

impl Added {
    /// Behind `product`; by the kernel `wanted` where it is here, and one of `kernels` that serves the shape.
    pub fn new(product: Rc<Matmul>, kernels: Option<&NormedKernels>, wanted: Option<&str>) -> Self {
        let shape = product.shape();
        let MatmulShape { columns, depth, output, residual, .. } = shape;
        let kernels = kernels.filter(|_| output == Element::F32 && residual).cloned();
        let names = kernels.iter().flat_map(|kernels| kernels.names(columns, depth));
        let way = Way::new(shape, names, wanted);
        Self { product, kernels, way }
    }

    /// Enqueues `residual += tokens weightᵀ + bias`, and `norm` of that where there is one: behind a trunk's last block there is none. The norm's
    /// output may be where the tokens are, which are read by then. It stands behind a kernel; one for both begins as the first of
    /// `begin` says, a norm by itself as the second. No allocation; may be recorded.
    ///
    /// # Errors
    /// What the driver or cuBLASLt says.
    pub fn enqueue(
        &self,
        Loaded { weight, bias }: &Loaded,
        [tokens, residual, workspace]: [&View; 3],
        norm: Option<&Norm>,
        [begin, norms_begin]: [LaunchMode; 2],
        kernels: &TrunkKernels,
        stream: &Stream,
    ) -> Result<()> {
        if let (Some(normed), Some(name), Some(norm)) = (&self.kernels, self.way.kernel(), norm) {
            let MatmulShape { rows, columns, depth, .. } = self.way.shape();
            let operands = Normed {
                a: tokens,
                weight,
                bias,
                residual,
                norm: [&norm.weights.weight, &norm.weights.bias],
                out: &norm.out,
                ahead: Some(&norm.ahead),
            };
            return normed.enqueue(name, [rows, columns, depth], &operands, begin, stream);
        }
        self.product.enqueue(tokens, weight, bias, residual, workspace, stream)?;
        norm.map_or(Ok(()), |norm| norm.enqueue(residual, norms_begin, kernels, stream))
    }
}
