/*!
The trunk of an encoder: all blocks of Hiera (Ryali et al., 2023, as SAM 2 has it) on the device.

```text
x (f32) ─ LayerNorm ─ QKV ─ attention ─ projection + x ─ LayerNorm ─ up + GELU ─ down + residual ─→
            (window or global)  └─ where a stage begins: skip GEMM, max pooling ─┘
```

| file | holds |
|---|---|
| `kernels.rs` | launches of LayerNorm, GELU and max pooling |
| `gemm.rs` | a GEMM with its epilogue, by cuBLASLt or by a kernel of this crate |
| `shapes.rs`, `weights.rs` | GEMM shapes and scratch memory; weights on the device |
| `block.rs`, `executor.rs` | the layout of the blocks, and their launches |
| `fused` | one launch for a whole block of the first two stages, or for half of one between them |
| `stem.rs`, `encoder.rs` | image to tokens; all of the encoder |
| `autotune`, `kernel_names.rs` | the choice of algorithms and kernels by the time of all blocks |

TensorRT runs stem and neck where a bundle has no weights for their kernels (`cuda/hiera_stem.cu`,
`cuda/neck.cu`).
*/

mod autotune;
mod block;
mod encoder;
mod executor;
mod fused;
mod gemm;
mod kernel_names;
mod kernels;
pub(crate) mod selftest;
mod shapes;
mod stem;
mod weights;

pub use autotune::{StandaloneTrunk, autotune};
pub use encoder::HieraEncoder;
pub use executor::{TrunkExecutor, TrunkSource};
pub use kernel_names::autotuned_kernels;
pub use kernels::HieraKernels;
pub(crate) use selftest::{BLOCK, STEM, TOPIC, TRANSITION, WHOLE_TRUNK};
pub use shapes::gemm_shapes;
