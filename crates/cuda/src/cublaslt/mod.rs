/*!
Products of tokens with weights, for the blocks of an encoder's trunk, by NVIDIA's cuBLASLt.

```text
Library ─→ CublasLt (a GPU) ─→ Product (a shape) ─ enqueue, a stream ─→ out = a weightᵀ + bias (+ out)
```

The library is the user's own: it is opened at run time, and only a trunk needs it. Its heuristics are asked once for each shape.
Of the algorithms that they name the one is taken with which the whole trunk was the fastest where the engines were built ([`Choices`]), else the first; so
the same library on the same GPU gives the same bits. `segtrt selftest --kernels` shows what the first costs beside the best.
*/

mod choices;
mod error;
mod find;
mod library;
mod owned;
mod product;
mod sys;

pub use choices::{Choice, Choices, Early};
pub use error::CublasLtError;
pub use find::VARIABLE;
pub use library::{CublasLt, Library};
pub use product::{ALIGNMENT, Product, ProductShape};
