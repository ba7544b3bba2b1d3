/*!
GEMM kernels, matmuls whose epilogue saves a pass over the output: some for Hopper, others for any
GPU from sm 80 on.

| file | kernel |
|---|---|
| `bias_gelu.rs` | `out = a weightᵀ + bias`, with or without GELU |
| `residual_layernorm.rs` | `residual += a weightᵀ + bias`, then LayerNorm |
| `tile_config.rs` | tiles, clusters and launches of both on Hopper |
| `any_gpu.rs` | the same for any GPU |

M is the number of tokens, N the number of output columns, K the number of input columns. Shapes
that no kernel serves use cuBLASLt ([`cuda::cublaslt`]).
*/

mod any_gpu;
mod bias_gelu;
mod residual_layernorm;
mod selftest;
mod tile_config;

pub use bias_gelu::GemmKernels;
pub use residual_layernorm::{GemmLayerNormKernels, GemmLayerNormOperands};
pub(crate) use selftest::TOPIC;
pub(crate) use tile_config::{has_pdl, kernel_names};
