//! The binding: its tables against NVIDIA's headers, its C binding, real libraries, and its
//! package.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fake;
mod headers;
mod library;
mod model;
mod package;
mod sys_fresh;
mod tables;
