/*!
Products of tokens with weights, for the blocks of an encoder's trunk, by NVIDIA's cuBLASLt.

```text
Library ─→ CublasLt (a GPU) ─→ Product (a shape) ─ enqueue, a stream ─→ out = a weightᵀ + bias (+ out)
```

The library is the user's own: it is opened at run time, and only a trunk needs it. Its heuristics are asked once for each shape;
the first algorithm that they name is taken, so that the same library on the same GPU gives the same bits, and `segtrt selftest
--kernels` shows what that costs beside the best of the others.
*/

mod error;
mod find;
mod library;
mod owned;
mod product;
mod sys;

pub use error::CublasLtError;
pub use find::VARIABLE;
pub use library::{CublasLt, Library};
pub use product::{ALIGNMENT, Product, ProductShape};
