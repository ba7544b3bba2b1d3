/*!
A product that makes halves of its own: queries, keys and values, or a hidden layer with its activation. By cuBLASLt, with the activation behind it, in
place; or, on Hopper, by one kernel of this program (`trunk_way.rs`).
*/

use std::rc::Rc;

use anyhow::Result;

use super::trunk_way::Way;
use super::trunk_weights::Loaded;
use cuda::Element;
use cuda::cublaslt::{Matmul, MatmulShape};
use cuda::{LaunchMode, Stream, View};
use kernels::{ProductKernels, TrunkKernels};

/// One shape of them; many blocks share it.
pub(super) struct Made {
    product: Rc<Matmul>,
    kernels: Option<ProductKernels>,
    activated: bool,
    pub way: Way,
}

impl Made {
    /// Behind `product`; by the kernel `wanted` where it is here, and `kernels` serve the shape.
    pub fn new(
        product: Rc<Matmul>,
        activated: bool,
        kernels: Option<&ProductKernels>,
        wanted: Option<&str>,
    ) -> Self {
        let shape = product.shape();
        let MatmulShape { columns, depth, output, residual, .. } = shape;
        let served = output == Element::F16 && !residual && ProductKernels::serve(columns, depth);
        let kernels = kernels.filter(|_| served).cloned();
        let names = kernels.iter().flat_map(|kernels| kernels.names(activated));
        let way = Way::new(shape, names, wanted);
        Self { product, kernels, activated, way }
    }

    /// Whether it is such a product.
    pub fn is(&self, shape: MatmulShape, activated: bool) -> bool {
        self.way.shape() == shape && self.activated == activated
    }

    /// Enqueues `out = tokens weightᵀ + bias`, activated or not, behind a kernel. No allocation; may be recorded.
    ///
    /// # Errors
    /// What the driver or cuBLASLt says.
    pub fn enqueue(
        &self,
        Loaded { weight, bias }: &Loaded,
        [tokens, out, workspace]: [&View; 3],
        begin: LaunchMode,
        kernels: &TrunkKernels,
        stream: &Stream,
    ) -> Result<()> {
        let MatmulShape { rows, columns, depth, .. } = self.way.shape();
        if let (Some(own), Some(name)) = (&self.kernels, self.way.kernel()) {
            let operands = [tokens, weight, bias, out];
            return own.enqueue(name, [rows, columns, depth], operands, begin, stream);
        }
        self.product.enqueue(tokens, weight, bias, out, workspace, stream)?;
        if self.activated {
            kernels.gelu(out, rows * columns, stream)?;
        }
        Ok(())
    }
}
