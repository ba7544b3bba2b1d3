/*!
Networks on a device: engines built and opened, the GPU pipeline, and ONNX Runtime as the CPU's backend.
*/

pub mod backend;
pub mod build;
pub mod engine;
mod execution;
mod memory;
pub mod pipeline;
mod stage;

pub use execution::Execution;
pub use memory::TensorRtMemory;
pub use stage::{Placed, Port, Stage};
