//! One integration binary; each topic is a module.

// Quality of masks, dilation, run-length encoding: against slow definitions and Python.
mod metrics;
// Result files: bytes as Python's, crash safety, resumption.
mod files;
