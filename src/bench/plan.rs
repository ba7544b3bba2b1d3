/*!
What a bench will do, resolved: every default taken, every path and bundle found.

The command line becomes this once; the worker processes get it as JSON and need nothing else.
*/

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cli::Provider;
use crate::geometry::GeometryKind;
use crate::metrics::MetricsKind;
use crate::model_tag::ModelTag;
use crate::prompt::PromptPolicy;

/// A resolved bench.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchPlan {
    /// Root of the split.
    pub split_dir: PathBuf,
    /// Stem of its manifest.
    pub split_name: String,
    /// The clips, shuffled and limited, in order.
    pub videos: Vec<String>,
    /// Objects of each clip, 0 for all.
    pub limit_objects: usize,
    /// Frames of each clip from the prompted one on, 0 for all.
    pub max_clip_frames: usize,
    /// The models in the order of the command line.
    pub models: Vec<ModelPlan>,
    /// How prompts are made.
    pub prompt_policy: PromptPolicy,
    /// How frames become squares.
    pub geometry: GeometryKind,
    /// Rules of J and F.
    pub metrics: MetricsKind,
    /// Unrecorded passes before an object's recorded ones.
    pub warmup_runs: usize,
    /// Recorded passes.
    pub profile_runs: usize,
    /// Where results go.
    pub out_dir: PathBuf,
    /// Whether overlays are written.
    pub save_overlays: bool,
    /// Whether every mask is written.
    pub save_masks: bool,
    /// ONNX Runtime's library, where named.
    pub ort_lib: Option<PathBuf>,
    /// ONNX Runtime's provider.
    pub provider: Provider,
    /// ONNX Runtime's threads.
    pub threads: usize,
    /// Time between two readings of the GPU's sensors, ms.
    pub telemetry_ms: u64,
}

/// One model of a bench.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelPlan {
    /// Tag, model and prompt.
    pub tag: ModelTag,
    /// Its bundle.
    pub bundle_dir: PathBuf,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// `fp32` or `fp16`.
    pub precision: String,
}

/// What one worker process is to do: one model over these objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The whole bench.
    pub plan: BenchPlan,
    /// Which of its models.
    pub model: usize,
    /// Clips with the names of the objects still to measure.
    pub todo: Vec<(String, Vec<String>)>,
}
