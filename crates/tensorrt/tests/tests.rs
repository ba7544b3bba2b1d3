//! The binding: its tables against NVIDIA's headers, its C binding, real libraries, and its
//! package.

mod fake;
mod headers;
mod library;
mod model;
mod package;
mod sys_fresh;
mod tables;
