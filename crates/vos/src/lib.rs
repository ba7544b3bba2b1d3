/*!
Video object segmentation on the CPU: datasets, decoding, prompts, model bundles, the tracker,
masks, metrics, records and their files.

The GPU's results are compared with this code, bit for bit unless documented otherwise.
*/
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod bundle;
pub mod dataset;
pub mod decode;
pub mod ffmpeg;
pub mod files;
pub mod geometry;
pub mod libjpeg;
pub mod logits;
pub mod mask;
pub mod metrics;
pub mod model_tag;
pub mod morphology;
pub mod noise;
pub mod overlay;
pub mod palette_png;
pub mod platform;
pub mod precision;
pub mod predecode;
pub mod preprocess;
pub mod prompt;
pub mod ranges;
pub mod record;
pub mod rle;
pub mod roofline;
pub mod stage;
pub mod stats;
pub mod stored_values;
pub mod strides;
pub mod synth;
pub mod telemetry;
pub mod track_variant;
pub mod tracker;
pub mod trend;
pub mod verdict;
