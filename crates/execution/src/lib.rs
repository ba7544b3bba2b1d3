/*!
TensorRT engines bound to CUDA memory and streams, and programs of them and of CUDA kernels.

A [`BoundEngine`] is an engine's context with bound memory and shared scratch memory. A [`Program`]
is a sequence of operations that can be captured as a CUDA graph. A [`StandaloneEngine`] is an
engine with memory and a stream for single runs. [`TensorRtMemory`] gives TensorRT the driver's
memory.

All `unsafe` code between TensorRT and CUDA is here. What runs outlives neither its memory nor its
context: each value keeps what its work uses, and waits for the device when it is dropped.
*/
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod bound_engine;
mod memory;
mod program;
mod standalone_engine;

pub use bound_engine::{BoundEngine, DeviceTensor, SharedEngine, TensorDesc};
pub use memory::TensorRtMemory;
pub use program::{Op, Program};
pub use standalone_engine::StandaloneEngine;
