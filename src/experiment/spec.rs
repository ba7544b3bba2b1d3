/*!
The settings of an experiment, as stored in `experiment.json`. A resumed experiment reuses them.
*/

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::platform::PlatformKind;
use super::sharding::Sharding;
use report::compare::sweep::Axis;

/// Raised when the meaning of a field changes.
pub(super) const FORMAT: u32 = 1;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Of this file.
    pub format: u32,
    /// The program that began it.
    pub segtrt: String,
    /// When, by the local clock: `YYYYmmdd_HHMMSS`.
    pub timestamp: String,
    /// The predecessor's platform.
    pub platform: PlatformKind,
    /// The GPU's row in the platform table.
    pub platform_row: Option<String>,
    /// The host as the configuration file names it.
    pub hostname: String,
    /// What runs the networks: `tensorrt` or `onnxruntime`.
    pub backend: String,
    /// Why that one.
    pub backend_reason: String,
    /// The GPU's name, used or not.
    pub gpu: Option<String>,
    /// The newest CUDA that its driver knows.
    pub cuda: Option<String>,
    /// Nsight Systems.
    pub nsys: Option<PathBuf>,
    /// Whether passes are to be profiled, were it there.
    pub profile: bool,
    /// The split.
    pub split_dir: PathBuf,
    /// Model tags, in order.
    pub models: Vec<String>,
    /// Sides of the networks' inputs, each once.
    pub imgsz: Vec<usize>,
    /// Precisions, each once.
    pub precision: Vec<String>,
    /// Clips, 0 for all.
    pub videos: usize,
    /// Objects of each clip, 0 for all.
    pub objects: usize,
    /// Recorded passes.
    pub runs: usize,
    /// Unrecorded passes before them.
    pub warmup: usize,
    /// The bench's flags, all but the folder and `--resume`.
    pub bench: Vec<String>,
    /// Where relative paths among them begin.
    pub working_directory: PathBuf,
    /// Parts and what runs them; none where one bench measures everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharding: Option<Sharding>,
    /// Settings that are swept; none where one bench measures everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<Axis>,
    /// What was run, in order, of this and of resumed attempts.
    #[serde(default)]
    pub steps: Vec<Ran>,
}

/// A step that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// `bench` or `profile`.
    pub step: String,
    /// How it ended, in words.
    pub ended: String,
    /// Its exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// How long it took, s.
    pub seconds: f64,
}
