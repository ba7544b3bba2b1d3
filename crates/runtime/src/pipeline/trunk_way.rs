/*!
How a product is computed: by cuBLASLt, and what may follow by another kernel; or, on Hopper, by one kernel of this program for both.

Which it is, is decided by the time of the whole trunk, as algorithms are. Where nothing was timed it is cuBLASLt: what is faster differs from
shape to shape and with the library, and no time was measured on this GPU then.
*/

use std::cell::Cell;

use cuda::cublaslt::MatmulShape;

/// The way of one shape of products; many blocks share it.
pub(super) struct Way {
    shape: MatmulShape,
    kernels: Vec<&'static str>,
    chosen: Cell<Option<&'static str>>,
}

impl Way {
    /// By the kernel `wanted` where it is among `kernels`, those that could compute it; else by cuBLASLt.
    pub fn new(
        shape: MatmulShape,
        kernels: impl Iterator<Item = &'static str>,
        wanted: Option<&str>,
    ) -> Self {
        let kernels: Vec<&str> = kernels.collect();
        let chosen = kernels.iter().copied().find(|name| Some(*name) == wanted);
        Self { shape, kernels, chosen: Cell::new(chosen) }
    }

    /// The product's.
    pub fn shape(&self) -> MatmulShape {
        self.shape
    }

    /// The names of the kernels that could compute it, none at all on most GPUs.
    pub fn kernels(&self) -> &[&'static str] {
        &self.kernels
    }

    /// The kernel that computes it; none where cuBLASLt does.
    pub fn kernel(&self) -> Option<&'static str> {
        self.chosen.get()
    }

    /// Another kernel, one of [`Self::kernels`], or cuBLASLt, for what is enqueued from then on.
    pub fn choose(&self, kernel: Option<&'static str>) {
        self.chosen.set(kernel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda::Element;

    #[test]
    fn a_kernel_is_taken_where_it_is_known_here() {
        let (rows, columns, depth, output) = (4096, 576, 2304, Element::F32);
        let shape = MatmulShape { rows, columns, depth, output, residual: true };
        let way = |wanted| Way::new(shape, ["one", "another"].into_iter(), wanted);
        assert_eq!(way(None).kernel(), None);
        assert_eq!(way(Some("another")).kernel(), Some("another"));
        assert_eq!(way(Some("a newer program's")).kernel(), None);
        let chosen = way(Some("one"));
        chosen.choose(None);
        assert_eq!((chosen.kernel(), chosen.kernels().len()), (None, 2));
        assert_eq!(Way::new(shape, std::iter::empty(), Some("one")).kernel(), None);
    }
}
