//! One integration binary; each topic is a module.

// Helpers of tests may fail as loudly as the tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// `segtrt baseline`: what is slower, what is noise, what must not be compared.
mod baseline;
/// What goes wrong with the input of a bench, and what it costs.
mod bench_bad_input;
/// The bench on a GPU, on stand-ins for driver, kernels and TensorRT: the CPU's masks, and what
/// each frame costs.
mod bench_gpu;
/// The same: what a fault costs, and what each row counts.
mod bench_gpu_rows;
/// Several clips at once on a GPU, on stand-ins: the masks of each alone, and what one costs the
/// others.
mod bench_lanes;
/// The bench from clips to files on the committed network.
mod bench_run;
/// Every so many frames fed, every so many annotations scored; overlays of them.
mod bench_strides;
/// What a tired user types to build-engines, and libraries that lack something.
mod build_bad_input;
/// Engines: built ahead of time with TensorRT for RTX, reused, refused; what is said where that cannot be.
mod build_engines;
/// One process that builds one plan after another, on stand-ins for driver and TensorRT: what is
/// kept, what a failure costs.
mod build_line;
/// Bundles of graphs: the committed one, finding one, damaged ones.
mod bundle;
/// Help, exit codes, old flags.
mod cli;
/// PyTorch against segtrt: measured in turn, judged from folders.
mod compare;
/// Flags from a file.
mod config;
/// Products by cuBLASLt on stand-ins: launches, refusals, the self-test's cases.
mod cublaslt;
/// An encoder that comes in parts, on stand-ins.
mod cut_encoder;
/// Splits on disk: SA-V, DAVIS, YouTube-VOS, MOSE, LVOS, synthetic; what is wrong with them; their
/// frames, masks and overlays.
mod dataset;
/// `segtrt doctor` and `segtrt test-run`, with made-up tools and stand-ins for driver and TensorRT.
mod doctor;
/// The encode stage of a bench.
mod encode_stage;
/// Experiments, the two phases, predecoded frames.
mod experiment;
/// `segtrt fetch` and `segtrt setup` against a server on this machine.
mod fetch;
/// Result files: bytes as Python's, crash safety, resumption.
mod files;
mod follows;
/// The track step that is cut at its attentions, on stand-ins.
mod fused_track;
/// SAM 2.1's encoder by kernels alone.
mod hiera_encoder;
/// `segtrt history`: runs over time, changes of a level.
mod history;
/// `segtrt inspect`: what a file or folder is, damage, TensorRT's own account and its death.
mod inspect;
/// An Orin's engines, on stand-ins for the TensorRT of JetPack 6 and 5.
#[cfg(target_os = "linux")]
mod jetson_releases;
/// Faults in kernels, which the self-test finds.
mod kernel_faults;
/// The kernels against the CPU, on the stand-in driver.
mod kernels;
/// Their self-test while it runs: rows and lines as they come.
mod kernels_rows;
/// Benches that are killed at any moment, and resumed.
#[cfg(target_os = "linux")]
mod kill;
/// The track step with this program's own mask decoder behind its segments, on stand-ins.
mod mask_decoder;
/// `segtrt masks`: masks of a run as indexed PNG files.
mod masks;
/// The memory encoder by custom CUDA kernels, on stand-ins.
mod memory_attention;
mod memory_encoder;
/// `segtrt merge` and `segtrt collect`: tables of old and new runs, folders of other machines
/// through a stand-in ssh.
mod merge_collect;
/// Quality of masks, dilation, run-length encoding: against slow definitions and Python.
mod metrics;
/// `segtrt monitor`: the log's bytes, the command's exit code.
mod monitor;
/// Damaged files of every kind that a command reads.
#[cfg(target_os = "linux")]
mod mutate;
/// Tables in 80 columns.
mod narrow;
/// `segtrt ncu` with a program in place of ncu.
mod ncu;
/// What is no finite number: logits on both backends, predecoded frames.
mod non_finite;
/// `segtrt nsys`: made-up exports with every number worked out by hand, NVIDIA's own scripts beside
/// them, damage.
mod nsys;
/// `--jpeg-decoder nvjpeg` on stand-ins: order, memory, refusals and messages.
mod nvjpeg;
/// ONNX files of a bundle as their manifest describes them.
mod onnx_file;
/// What tests of a part that this program's own kernels compute share.
mod own_part;
/// `segtrt pack`: what is in the tar, and what its script does with a stand-in segtrt.
mod pack;
/// Predecoded frames on a GPU.
mod predecoded_gpu;
/// Frames and prompt masks to network inputs, logits to masks: golden data from Pillow and torch.
mod preprocess;
/// `segtrt profile`: under a made-up nsys, which may fail in every way, and under a real one.
mod profile;
/// Prompts from masks, and their way to the network and back.
mod prompts;
/// NVTX ranges: one a frame, one a stage, as a tool and as Nsight Systems see them.
mod ranges;
/// The command that a refusal names builds the engines that were refused.
mod rebuild_command;
/// `segtrt report`: the page, its honesty, its files, a real browser.
mod report;
/// EdgeTAM's encoder between whose stem and neck this program computes RepViT's blocks.
mod repvit_encoder;
/// What a resumed bench refuses, takes over and says.
mod resume;
/// Least times of stages at a GPU's peaks, and what runs reached.
mod roofline;
/// The self-test of engines, and the door to the GPU below it.
mod selftest;
/// Engines of a bundle's own graphs on a device with memory of its own, in the place of TensorRT's.
mod stand_in_engines;
/// Two clips in step.
mod stereo;
/// Results of a board, checked.
mod submit;
/// Suites: experiments one after another, one table.
mod suite;
/// What the tests of the program share.
mod support;
/// Logits saved, and memories written from another run's.
mod teacher;
/// The GPU's sensors and the verdict.
mod telemetry;
/// Pipes, terminals, shells: control codes, completions, manual pages, JSON.
mod terminal;
/// A timing cache that TensorRT does not merge.
mod timing_cache;
/// `segtrt track` and `segtrt demo`: files, the bench's masks, bad input, Ctrl-C.
mod track;
/// The tracker and the committed network against Meta's own predictor.
mod tracker;

/// Encoders with a trunk: their weights on the way to engines and packs, on stand-ins.
mod trunk_bundle;
/// An encoder whose trunk this program computes itself, between two engines.
mod trunk_encoder;
/// The memory attention's keys by a kernel, from weights beside a trunk's.
mod trunk_keys;
/// What tests of an encoder with Hiera's blocks run in.
mod trunk_setting;
/// A bench over video files: their decoder, and what is left of their frames.
mod video_clips;
/// The self-test of whole trunks, on stand-ins.
mod whole_trunks;
/// Worker processes: jobs that cannot be handed over, threads that cannot be started.
#[cfg(unix)]
mod workers;
