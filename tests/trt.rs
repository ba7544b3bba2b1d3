//! The TensorRT binding: its tables against NVIDIA's headers, its committed C binding, and real libraries.

#[path = "trt/fake.rs"]
mod fake;
#[path = "trt/headers.rs"]
mod headers;
#[path = "trt/library.rs"]
mod library;
#[path = "trt/model.rs"]
pub mod model;
#[path = "trt/sys_fresh.rs"]
mod sys_fresh;
#[path = "trt/tables.rs"]
mod tables;
