/*!
`segtrt` measures how fast and how well promptable video object segmentation (SAM 2.1, EdgeTAM) runs.

Data flows one way; only the memory bank feeds back:

```text
dataset → decode → preprocess → network (encoder → prompt | track → memory) → mask → metrics → record → files
                                             ↑____________ bank ____________|
```
*/

// First, for its macros hold in all modules after it.
#[macro_use]
pub mod message;

pub mod backend;
pub mod bench;
pub mod board;
pub mod build;
pub mod bundle;
pub mod child;
pub mod cli;
pub mod cmd;
pub mod collect;
pub mod compare;
pub mod ctrl_c;
pub mod dataset;
pub mod decode;
pub mod doctor;
pub mod engine;
pub mod environment;
pub mod experiment;
pub mod ffi;
pub mod ffmpeg;
pub mod files;
pub mod geometry;
pub mod gpu;
pub mod inspect;
pub mod logits;
pub mod mask;
pub mod meminfo;
pub mod merge;
pub mod metrics;
pub mod model_tag;
pub mod monitor;
pub mod morphology;
pub mod nsys;
pub mod on_path;
pub mod onnx_file;
pub mod overlay;
pub mod pack;
pub mod pipeline;
pub mod platform;
pub mod predecode;
pub mod preprocess;
pub mod printable;
pub mod process_memory;
pub mod process_tree;
pub mod profile;
pub mod prompt;
pub mod ranges;
pub mod record;
pub mod regression;
pub mod report;
pub mod rle;
pub mod screen_table;
pub mod selftest;
pub mod shard;
pub mod shell;
pub mod slurm;
pub mod stats;
pub mod strides;
pub mod suite;
pub mod synth;
pub mod telemetry;
pub mod test_run;
pub mod threads;
pub mod timed_command;
pub mod tracker;
pub mod trt;
pub mod trusted;
pub mod two_phase;
pub mod verdict;
