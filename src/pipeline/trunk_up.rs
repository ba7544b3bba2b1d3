/*!
The product of a hidden layer with its activation: cuBLASLt's product and the activation behind it, in place; or, on Hopper, one kernel for both.

Which it is, is decided by the time of the whole trunk, as algorithms are. Where nothing was timed it is cuBLASLt: what is faster differs from
shape to shape and with the library, and no time was measured on this GPU then.
*/

use std::cell::Cell;
use std::rc::Rc;

use anyhow::Result;

use super::trunk_weights::Loaded;
use crate::gpu::cublaslt::{Product, ProductShape};
use crate::gpu::kernels::{ActivatedKernels, Element, TrunkKernels};
use crate::gpu::{Stream, View};

/// One shape of them; many blocks share it.
pub(super) struct Up {
    product: Rc<Product>,
    /// Where they are here and serve the shape.
    kernels: Option<ActivatedKernels>,
    chosen: Cell<Option<&'static str>>,
}

impl Up {
    /// Behind `product`; by the kernel `wanted` where it is here, and `kernels` serve the shape.
    pub fn new(
        product: Rc<Product>,
        kernels: Option<&ActivatedKernels>,
        wanted: Option<&str>,
    ) -> Self {
        let ProductShape { columns, depth, output, residual, .. } = product.shape();
        let served = output == Element::F16 && !residual && ActivatedKernels::serve(columns, depth);
        let kernels = kernels.filter(|_| served).cloned();
        let up = Self { product, kernels, chosen: Cell::new(None) };
        let wanted = up.kernels().find(|name| Some(*name) == wanted);
        up.chosen.set(wanted);
        up
    }

    /// The product's.
    pub fn shape(&self) -> ProductShape {
        self.product.shape()
    }

    /// The names of the kernels that could compute it, none at all on most GPUs.
    pub fn kernels(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.kernels.iter().flat_map(|_| ActivatedKernels::names()).collect::<Vec<_>>().into_iter()
    }

    /// The kernel that computes it; none where cuBLASLt does.
    pub fn kernel(&self) -> Option<&'static str> {
        self.chosen.get()
    }

    /// Another kernel, one of [`Self::kernels`], or cuBLASLt, for what is enqueued from then on.
    pub fn choose(&self, kernel: Option<&'static str>) {
        self.chosen.set(kernel);
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
        let ProductShape { rows, columns, depth, .. } = self.shape();
        if let (Some(activated), Some(name)) = (&self.kernels, self.kernel()) {
            let operands = [tokens, weight, bias, hidden];
            return activated.enqueue(name, [rows, columns, depth], operands, stream);
        }
        self.product.enqueue(tokens, weight, bias, hidden, workspace, stream)?;
        kernels.gelu(hidden, rows * columns, stream)
    }
}
