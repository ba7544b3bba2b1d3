#![doc = include_str!("../README.md")]
// A library leaves the terminal to the program.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![allow(unsafe_code)]

mod allocator;
mod builder;
mod config;
mod context;
mod engine;
mod error;
mod ffi_object;
mod find;
mod layers;
mod library;
mod loader_errors;
mod log;
mod network;
pub mod onnx_file;
mod owners;
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
pub use find::{Naming, Searched, search};
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
