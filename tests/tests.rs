//! One integration binary; each topic is a module.

// Helpers of tests may fail as loudly as the tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// What goes wrong with the input of a bench, and what it costs.
mod bench_bad_input;
/// The bench on a GPU, on stand-ins for driver, kernels and TensorRT: the CPU's masks, and what each frame costs.
mod bench_gpu;
/// The bench from clips to files on the committed network.
mod bench_run;
/// Every so many frames fed, every so many annotations scored; overlays of them.
mod bench_strides;
/// Engines: built ahead of time with TensorRT for RTX, reused, refused; what is said where that cannot be.
mod build_engines;
/// Bundles of graphs: the committed one, finding one, damaged ones.
mod bundle;
/// Help, exit codes, old flags.
mod cli;
/// PyTorch against segtrt: measured in turn, judged from folders.
mod compare;
/// Flags from a file.
mod config;
/// Splits on disk: SA-V, DAVIS, synthetic; what is wrong with them; their frames, masks and overlays.
mod dataset;
/// Result files: bytes as Python's, crash safety, resumption.
mod files;
/// The track step that is cut at its attentions, on stand-ins.
mod fused_track;
/// `segtrt inspect`: what a file or folder is, damage, TensorRT's own account and its death.
mod inspect;
/// The kernels against the CPU, on the stand-in driver.
mod kernels;
/// Quality of masks, dilation, run-length encoding: against slow definitions and Python.
mod metrics;
/// `segtrt pack`: what is in the tar, and what its script does with a stand-in segtrt.
mod pack;
/// Frames and prompt masks to network inputs, logits to masks: golden data from Pillow and torch.
mod preprocess;
/// Prompts from masks, and their way to the network and back.
mod prompts;
/// NVTX ranges: one a frame, one a stage, as a tool and as Nsight Systems see them.
mod ranges;
/// The self-test of engines, and the door to the GPU below it.
mod selftest;
/// Suites: experiments one after another, one table.
mod suite;
/// What the tests of the program share.
mod support;
/// The GPU's sensors and the verdict.
mod telemetry;
/// Pipes, terminals, shells: control codes, completions, manual pages, JSON.
mod terminal;
/// The tracker and the committed network against Meta's own predictor.
mod tracker;
/// TensorRT: tables against headers, the committed binding, real libraries.
mod trt;
