/*!
GEMM kernels for Hopper: matmuls whose epilogue saves a pass over the output.

| file | kernel |
|---|---|
| `bias_gelu.rs` | `out = a weightᵀ + bias`, with or without GELU, or of LayerNorm(a) |
| `residual_layernorm.rs` | `residual += a weightᵀ + bias`, then LayerNorm |
| `residual_moments.rs` | `residual += a weightᵀ + bias`, and what the next kernel needs for a LayerNorm |
| `tile_config.rs` | tiles, clusters and launches of all |

M is the number of tokens, N the number of output columns, K the number of input columns. Other
GPUs, and shapes that no kernel serves, use cuBLASLt ([`cuda::cublaslt`]).
*/

mod bias_gelu;
mod residual_layernorm;
mod residual_moments;
mod selftest;
mod tile_config;

pub use bias_gelu::{FoldedNorm, GemmKernels};
pub use residual_layernorm::{GemmLayerNormKernels, GemmLayerNormOperands};
pub use residual_moments::{GemmMomentsKernels, GemmMomentsOperands};
pub(crate) use selftest::TOPIC;
pub(crate) use tile_config::kernel_names;
