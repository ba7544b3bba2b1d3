/*!
Networks on a device: engines built and opened, the GPU pipeline, and ONNX Runtime as the CPU's backend.

A [`Stage`] is an engine's context with bound memory and shared scratch memory: pipelines are made of them. An
[`Execution`] is a stage with memory and a stream of its own, for single runs.
*/
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod backend;
pub mod build;
pub mod engine;
mod execution;
mod memory;
pub mod pipeline;
mod stage;
pub mod tensorrt_library;

pub use execution::Execution;
pub use memory::TensorRtMemory;
pub use stage::{Placed, Port, Stage};
