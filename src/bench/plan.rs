/*!
The plan of a bench: every default resolved, every path and bundle found.

The command line becomes this once; the worker processes get it as JSON and need nothing else.
*/

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::shard::Shard;
use runtime::backend::Provider;
use runtime::pipeline::{Mode, Options};
use vos::dataset::{self, Dataset, StereoSplit, VIEWS};
use vos::geometry::GeometryKind;
use vos::metrics::MetricsKind;
use vos::model_tag::ModelTag;
use vos::precision::Precision;
use vos::predecode::Values;
use vos::preprocess::Filter;
use vos::prompt::PromptPolicy;
use vos::record::EncodeStage;
use vos::strides::Strides;
use vos::track_variant::TrackVariant;

/// A resolved bench.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchPlan {
    /// Root of the split.
    #[serde(serialize_with = "host::child::utf8::path")]
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
    pub models: Vec<BenchModel>,
    /// Which frames are fed and which annotations scored.
    pub strides: Strides,
    /// How prompts are made.
    pub prompt_policy: PromptPolicy,
    /// How frames become squares.
    pub geometry: GeometryKind,
    /// Resize filter of frames.
    #[serde(default)]
    pub resize: Filter,
    /// Rules of J and F.
    pub metrics: MetricsKind,
    /// Unrecorded passes before an object's recorded ones.
    pub warmup_runs: usize,
    /// Recorded passes.
    pub profile_runs: usize,
    /// Where results go.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub out_dir: PathBuf,
    /// Whether overlays are written.
    pub save_overlays: bool,
    /// The encode stage; none: nothing is encoded while frames are timed.
    #[serde(default)]
    pub encode: Option<EncodeStage>,
    /// Clips are pairs of views, which run in step.
    #[serde(default)]
    pub stereo: bool,
    /// Whether every mask is written.
    pub save_masks: bool,
    /// Whether the logits of every frame are written.
    #[serde(default)]
    pub save_logits: bool,
    /// The run folder whose logits all memories are written from.
    #[serde(default, serialize_with = "host::child::utf8::optional")]
    pub teacher: Option<PathBuf>,
    /// What runs the network: a GPU's engines, else ONNX Runtime.
    pub gpu: Option<GpuPlan>,
    /// ONNX Runtime's library, where named.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub ort_lib: Option<PathBuf>,
    /// ONNX Runtime's provider.
    pub provider: Provider,
    /// ONNX Runtime's threads.
    pub threads: usize,
    /// Time between two readings of the GPU's sensors, ms.
    pub telemetry_ms: u64,
    /// Frames that were decoded and resized ahead of time.
    #[serde(default)]
    pub predecoded: Option<PredecodedPlan>,
    /// The part of a run that `videos` is; none where it is the whole.
    #[serde(default)]
    pub shard: Option<ShardPlan>,
    /// Parts that the rows in the folder were measured in.
    #[serde(default)]
    pub shards: Option<usize>,
    /// Other GPUs of this host that are measured at the same time.
    #[serde(default)]
    pub other_devices: usize,
    /// Processes that have the GPU open and wait for their turn in a comparison.
    #[serde(default)]
    pub idle_processes: usize,
    /// Seconds without a frame after which a worker that has loaded its model is taken to hang and
    /// ended; 0: never.
    #[serde(default)]
    pub stall_limit_s: u64,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardPlan {
    /// Which.
    pub shard: Shard,
    /// The clips of all parts, in order.
    pub selection: Vec<String>,
    /// Frames to run, of all clips and objects of this part and of all parts.
    pub frames: [u64; 2],
}

/// Where predecoded frames lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredecodedPlan {
    /// Their folder.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub dir: PathBuf,
    /// What is stored in it.
    pub values: Values,
}

impl BenchPlan {
    /// How frames follow one another.
    pub fn mode(&self) -> Mode {
        self.gpu.as_ref().map_or(Mode::Latency, |gpu| gpu.options.mode)
    }

    /// Clips at once, where an offline run has such.
    pub fn lanes(&self) -> Option<usize> {
        self.gpu.as_ref().and_then(|gpu| gpu.lanes)
    }

    /// Clips that run in step.
    pub fn views(&self) -> usize {
        if self.stereo { VIEWS } else { 1 }
    }

    /// Opens the split.
    ///
    /// # Errors
    /// It cannot be read, or has no pair of views.
    pub fn open_split(&self) -> Result<Box<dyn Dataset>> {
        open_split(&self.split_dir, &self.split_name, self.stereo)
    }

    /// Frames that the encoder takes at once, at least 1.
    pub fn encode_batch(&self) -> usize {
        self.gpu.as_ref().map_or(1, |gpu| gpu.options.batch())
    }
}

/// Opens a split, with pairs of its clips for `stereo`.
///
/// # Errors
/// It cannot be read, or has no pair of views.
pub fn open_split(dir: &Path, name: &str, stereo: bool) -> Result<Box<dyn Dataset>> {
    let split = dataset::open(dir, name)?;
    Ok(if stereo { Box::new(StereoSplit::pair(split)?) } else { split })
}

/// How engines are run on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuPlan {
    /// Place among the devices that the driver shows.
    pub device: usize,
    /// TensorRT's library, where named.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub tensorrt_lib: Option<PathBuf>,
    /// The form of the track step; none: the folder's usual one.
    #[serde(default)]
    pub track_variant: Option<TrackVariant>,
    /// How the pipeline runs.
    pub options: Options,
    /// Objects of a clip that share its frames.
    pub objects_together: usize,
    /// Times that a recorded pass goes over its frames.
    pub repeat_clip: usize,
    /// Clips at once, each with a pipeline of its own; none: one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<usize>,
}

/// One model of a bench.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchModel {
    /// Tag, model and prompt.
    pub tag: ModelTag,
    /// Its bundle, or its folder of engines.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub dir: PathBuf,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// Arithmetic of the network.
    pub precision: Precision,
}

/// What one worker process is to do: one model over these objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The whole bench.
    pub plan: BenchPlan,
    /// Index of the model in the plan.
    pub plan_index: usize,
    /// Clips with the names of the objects still to measure.
    pub todo: Vec<(String, Vec<String>)>,
}
