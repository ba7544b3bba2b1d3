/*!
TensorRT, opened at run time: one binary for 8.5, 8.6, 10.x, 11.x and TensorRT for RTX 1.x, built without its headers.

```text
Library ─→ Builder ─→ Network (ONNX) + Config (flags, caps, profiles) ─→ Plan
   └─────→ Runtime ─→ Engine (tensors, memory, layers) ─→ Context (shapes, addresses, enqueue)
```

Three layers, one job each: `shim/` (C++) calls virtual methods through the vtable slots of the release that was opened
(tables generated from the facts of each release), [`sys`] is its C face bound to Rust, and the rest of this module is
safe: children keep their parents alive, and every refusal becomes an [`Error`] whose cause is what TensorRT logged.

Building objects stay on one thread (TensorRT promises nothing else); an [`Engine`] may be shared, a [`Context`] moved.
*/
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![allow(unsafe_code)]

mod allocator;
mod builder;
mod config;
mod context;
mod door;
mod engine;
mod error;
mod find;
mod layers;
mod library;
mod loader_words;
mod log;
mod network;
pub mod onnx_file;
mod plan;
mod profiler;
mod progress;
mod runtime;
#[allow(clippy::all, clippy::undocumented_unsafe_blocks, missing_docs, non_camel_case_types, dead_code)]
#[rustfmt::skip]
pub mod sys;
pub mod tables;
mod types;
mod version;

pub use crate::onnx_file::{OnnxNode, OnnxSummary};
pub use allocator::{DeviceMemory, MemoryUse};
pub use builder::Builder;
pub use config::{Config, Flag, Pool, Tactics, Verbosity};
pub use context::Context;
pub use dynlib::Candidate;
pub use engine::{Engine, TensorInfo};
pub use error::{Cause, Error, NodeError, Result};
pub use find::{Searched, search};
pub use layers::LayerInfo;
pub use library::Library;
pub use log::{LogLine, LogListener, Severity};
pub use network::{Network, TensorSpec, Typing};
pub use plan::Plan;
pub use profiler::LayerTime;
pub use progress::{BuildProgress, Stop};
pub use runtime::Runtime;
pub use types::{DataType, Mode, Profile};
pub use version::{Family, Version};
