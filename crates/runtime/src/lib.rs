/*!
Networks on a device: engines built and opened, the GPU pipeline, and ONNX Runtime as the CPU's
backend.
*/
#![forbid(unsafe_code)]
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod backend;
pub mod builder;
pub mod engine;
pub mod pipeline;
pub mod tensorrt_library;
