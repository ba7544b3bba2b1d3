/*!
Matmuls with bias by NVIDIA's cuBLASLt: `out = a weightᵀ + bias (+ out)`.

```text
Library ─→ CublasLt (a handle on a GPU) ─→ Matmul (a shape) ─→ enqueue on a stream
```

The library is the user's: it is opened at run time, and only an encoder trunk needs it. Its
heuristics are asked once for each shape. [`Choices`] keeps the algorithms that were fastest when
the engines were built, else the first is used, so the same library on the same GPU gives the same
bits. `segtrt selftest --kernels` shows the first beside the fastest.
*/

mod choices;
mod error;
mod library;
mod matmul;
mod shape;
mod sys;

pub use choices::{Choice, Choices, FoldChoice, PdlKernels};
pub use error::CublasLtError;
pub use library::{CublasLt, Library, VARIABLE, open};
pub use matmul::{ALIGNMENT, Matmul};
pub use shape::MatmulShape;
