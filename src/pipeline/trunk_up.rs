/*!
The product of a hidden layer with its activation: cuBLASLt's product and the activation behind it, in place; or, on Hopper, one kernel for both
(`trunk_way.rs`).
*/

use std::rc::Rc;

use anyhow::Result;

use super::trunk_way::Way;
use super::trunk_weights::Loaded;
use crate::gpu::cublaslt::{Product, ProductShape};
use crate::gpu::kernels::{ActivatedKernels, Element, TrunkKernels};
use crate::gpu::{Stream, View};

/// One shape of them; many blocks share it.
pub(super) struct Up {
    product: Rc<Product>,
    kernels: Option<ActivatedKernels>,
    pub way: Way,
}

impl Up {
    /// Behind `product`; by the kernel `wanted` where it is here, and `kernels` serve the shape.
    pub fn new(
        product: Rc<Product>,
        kernels: Option<&ActivatedKernels>,
        wanted: Option<&str>,
    ) -> Self {
        let shape = product.shape();
        let ProductShape { columns, depth, output, residual, .. } = shape;
        let served = output == Element::F16 && !residual && ActivatedKernels::serve(columns, depth);
        let kernels = kernels.filter(|_| served).cloned();
        let names = kernels.iter().flat_map(|_| ActivatedKernels::names());
        let way = Way::new(shape, names, wanted);
        Self { product, kernels, way }
    }

    /// Enqueues `hidden = gelu(tokens weightᵀ + bias)`. No allocation; may be recorded.
    ///
    /// # Errors
    /// What the driver or cuBLASLt says.
    pub fn enqueue(
        &self,
        Loaded { weight, bias }: &Loaded,
        [tokens, hidden, workspace]: [&View; 3],
        kernels: &TrunkKernels,
        stream: &Stream,
    ) -> Result<()> {
        let ProductShape { rows, columns, depth, .. } = self.way.shape();
        if let (Some(activated), Some(name)) = (&self.kernels, self.way.kernel()) {
            let operands = [tokens, weight, bias, hidden];
            return activated.enqueue(name, [rows, columns, depth], operands, stream);
        }
        self.product.enqueue(tokens, weight, bias, hidden, workspace, stream)?;
        kernels.gelu(hidden, rows * columns, stream)
    }
}
