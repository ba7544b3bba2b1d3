/*!
The records of a measurement, which the runner fills and every file and table reads.

Nothing here measures, prints or writes. A record that is not [`Status::Ok`] carries no
numbers, only a reason, so that a failure can never look like a speed.
*/

mod aggregate;
mod backend;
mod conditions;
mod decode_load;
mod encode_stage;
mod enqueued;
mod fidelity;
mod file_stem;
mod limits;
mod mask_selection;
mod memory_use;
mod observed;
mod profiled_stages;
mod speed;
mod stage_percentiles;
mod stage_times;
mod verdict;

pub use crate::metrics::Quality;
use crate::stage::Stage;
pub use aggregate::summarise;
pub use backend::{Backend, Provider, TensorRtBackend};
pub use conditions::{Conditions, FrameTransfer, Mode};
pub use decode_load::DecodeLoad;
pub use encode_stage::{EncodeOutput, EncodePlace, EncodeStage};
pub use enqueued::{Enqueued, EnqueuedFrames};
pub use fidelity::Fidelity;
pub use limits::{Limit, Limits};
pub use mask_selection::MaskSelection;
pub use memory_use::{DeviceMemoryUse, EngineMemory, ModelMemory};
pub use observed::Observed;
pub use profiled_stages::{ComparedStage, ProfiledStages};
use serde::{Deserialize, Serialize};
pub use speed::{mean_gpu_ms, mean_residue_ms, mean_stages, ms_between, speed_of};
pub use stage_percentiles::StagePercentiles;
pub use stage_times::StageTimes;
pub use verdict::{Finding, Judgement, Verdict, Weight};

/// How a pass over one object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Measured; the numbers stand.
    Ok,
    /// Not attempted, because its input is unusable (for example an empty prompt mask).
    Skipped,
    /// Attempted and broken off.
    Failed,
}

impl Status {
    /// The word that files carry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// Which object of which clip was segmented by which model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Video id as the split names it.
    pub video: String,
    /// Object name as the split names it (`000`).
    pub object: String,
    /// Text of the model tag (`sam2_tiny_points`).
    #[serde(rename = "model")]
    pub tag: String,
}

impl ObjectKey {
    /// What the names of this object's files begin with: `<video>__obj<object>__<tag>`. Where that
    /// could be another object's, or would be too long for a file, it is cut and has a hash.
    pub fn file_stem(&self) -> String {
        file_stem::of(&self.video, &self.object, &self.tag)
    }
}

/// Time of one frame, ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameTime {
    /// Latency mode: from its pixels in host memory to its mask there and its memory written.
    Latency(f64),
    /// Throughput mode, where frames overlap: from the previous mask in host memory to this one.
    Interval(f64),
    /// Offline, where several lanes run a clip each.
    Lane {
        /// From the lane's previous mask to this one, over the frames that all lanes finished
        /// meanwhile.
        ms: f64,
        /// The latency in its lane, beside the frames of the others.
        latency_ms: f64,
    },
}

impl FrameTime {
    /// The time, ms. Over a pass both sum to its duration.
    pub fn ms(self) -> f64 {
        match self {
            Self::Latency(ms) | Self::Interval(ms) | Self::Lane { ms, .. } => ms,
        }
    }

    /// The latency, ms; none where frames of one clip overlap.
    pub fn latency_ms(self) -> Option<f64> {
        match self {
            Self::Latency(ms) | Self::Lane { latency_ms: ms, .. } => Some(ms),
            Self::Interval(_) => None,
        }
    }
}

impl Default for FrameTime {
    fn default() -> Self {
        Self::Latency(0.0)
    }
}

/// Measurements of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameTimes {
    /// Frame index in the clip.
    pub frame: usize,
    /// Its time.
    pub time: FrameTime,
    /// Its stages, ms.
    pub stages: StageTimes,
    /// From the device's first work on this frame to its last, by the device's clock, ms. `None`
    /// without a GPU.
    pub gpu_ms: Option<f64>,
    /// The calls that enqueued its work.
    #[serde(default)]
    pub enqueued: Enqueued,
    /// Age of the frame when its mask was there; none where no frame file was read.
    pub age: Option<SourceAge>,
    /// From the start of decoding to the mask, or to the encoded frame in a run that encodes, ms.
    /// The wait of a decoded frame for its predecessors is left out, because a camera's frame has
    /// none. `None` where no frame file was read.
    #[serde(default)]
    pub end_to_end_ms: Option<f64>,
    /// Another thread encoded the frame, so its encode stage lies outside its time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encoded_beside: bool,
    /// Objects that were tracked on this frame and share its time; none where each is tracked
    /// alone.
    pub objects: Option<usize>,
    /// The network's logit that the object is in the frame; none where it was not kept.
    pub objectness: Option<f32>,
    /// The IoU that the mask decoder predicts for its mask.
    pub predicted_iou: Option<f32>,
    /// The mask decoder's selection among its candidate masks; none where it selected nothing, or
    /// where the network does not output it.
    #[serde(default)]
    pub selection: Option<MaskSelection>,
}

impl FrameTimes {
    /// Whether a stage lies inside the frame's time.
    pub fn includes(&self, stage: Stage) -> bool {
        match stage {
            Stage::Decode => false,
            Stage::Encode => !self.encoded_beside,
            _ => true,
        }
    }
}

/// Age of a frame at the moment when its mask lies in host memory; ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceAge {
    /// Since its pixels were decoded, ms.
    pub decoded_ms: f64,
    /// Since its file was opened, ms.
    pub read_ms: f64,
}

/// Source ages of one pass, over the frames after the first; ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceAges {
    /// Median since the pixels were decoded, ms.
    pub decoded_p50_ms: f64,
    /// 95th percentile of the same, ms.
    pub decoded_p95_ms: f64,
    /// Median since the file was opened, ms.
    pub read_p50_ms: f64,
    /// 95th percentile of the same, ms.
    pub read_p95_ms: f64,
}

/// Latency percentiles (type 7) of the frames after the first; ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median, ms.
    pub p50_ms: f64,
    /// 90th percentile, ms.
    pub p90_ms: f64,
    /// 95th percentile, ms.
    pub p95_ms: f64,
    /// 99th percentile, ms.
    pub p99_ms: f64,
    /// 99.9th percentile, ms; only of frames enough that one of them lies beyond it.
    #[serde(default)]
    pub p999_ms: Option<f64>,
    /// Slowest frame, ms.
    pub max_ms: f64,
}

/// Speed of one pass, from its frames' latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Frames that were timed.
    pub frames: usize,
    /// Sum of the frames' latencies, ms.
    pub duration_ms: f64,
    /// Frames per second: frames / duration.
    pub fps: f64,
    /// Mean latency, ms: 1000 / fps.
    pub latency_ms: f64,
    /// Latency of the first frame (the prompted one), ms.
    pub first_frame_ms: f64,
    /// Percentiles of the frames after the first; `None` when there is only one frame, and where
    /// frames of one clip overlap: then the times are intervals between masks and no latencies.
    pub later_frames: Option<Percentiles>,
    /// Ages of the frames when their masks are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ages: Option<SourceAges>,
    /// End-to-end latencies of the frames after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_to_end: Option<Percentiles>,
}

/// Peaks of memory during one pass; MiB. `None`: not measured here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryPeaks {
    /// Most GPU memory in use by allocations, MiB.
    pub gpu_peak_alloc_mib: Option<f64>,
    /// Most GPU memory reserved from the driver, MiB.
    pub gpu_peak_reserved_mib: Option<f64>,
    /// Most resident memory of the process, MiB.
    pub cpu_peak_rss_mib: Option<f64>,
}

/// Everything that an `ok` pass has and another has not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Frames per second and latencies.
    pub speed: Speed,
    /// Mean time per stage, ms.
    pub stages: StageTimes,
    /// Percentiles of the stages, ms.
    #[serde(default)]
    pub stage_percentiles: StagePercentiles,
    /// The calls that enqueued the frames' work.
    #[serde(default)]
    pub enqueued: EnqueuedFrames,
    /// Memory peaks, MiB.
    pub memory: MemoryPeaks,
    /// Mask quality; `None` when no frame could be scored.
    pub quality: Option<Quality>,
    /// Model build and prompt, before the first timed frame, ms.
    pub setup_ms: Option<f64>,
    /// Mean time of a frame by the GPU's own clock, ms; `None` without a GPU.
    #[serde(default)]
    pub gpu_ms: Option<f64>,
    /// Mean part of a frame's latency that no stage accounts for, ms; `None` where no stage is
    /// timed.
    #[serde(default)]
    pub residue_ms: Option<f64>,
    /// Least time of each stage at the GPU's peaks, ms ([`crate::roofline`]). Empty where the
    /// bundle or the platform table lacks the numbers, and where frames or objects overlap.
    #[serde(default)]
    pub least: StageTimes,
    /// The GPU's sensors; `None` where no GPU was watched.
    #[serde(default)]
    pub observed: Option<Observed>,
    /// Decoding beside several lanes; `None` in other modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_load: Option<DecodeLoad>,
}

/// One recorded pass over one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Clip, object and model.
    pub key: ObjectKey,
    /// Number of the recorded pass, from 0.
    pub run: usize,
    /// How it ended.
    pub status: Status,
    /// Why it is not plainly ok, as `code: sentence`.
    pub reason: Option<String>,
    /// The conditions it was measured under.
    pub conditions: Conditions,
    /// Frames of the processed part of the clip.
    pub frames: Option<usize>,
    /// Index after the part of the clip that was run; where frames are left out, its last ones may
    /// be among them.
    pub processed_end_frame: Option<usize>,
    /// Height and width of the clip, pixels.
    pub input_size: Option<[usize; 2]>,
    /// Height and width that the network saw, pixels.
    pub infer_size: Option<[usize; 2]>,
    /// Overlay, if one was written: its path below the run folder.
    pub overlay: Option<String>,
    /// Nsight Systems report, if one was recorded.
    pub nsight_report: Option<String>,
    /// Stage times of the pass that the report shows, ms. None without a report, on the CPU, and
    /// where frames overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiled: Option<ProfiledStages>,
    /// Logits of the masks that were NaN or infinite: 0 of an ok pass, and those of the frame at
    /// which a pass broke off because of them. `None`: not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_finite_logits: Option<usize>,
    /// The numbers; present exactly when the status is ok.
    pub measured: Option<Measured>,
    /// Whether the speed may be believed.
    #[serde(default)]
    pub verdict: Verdict,
}

impl RunRecord {
    /// A row without numbers: an object that was skipped or failed, and why.
    pub fn unmeasured(
        key: ObjectKey,
        conditions: Conditions,
        status: Status,
        code: &str,
        sentence: impl std::fmt::Display,
    ) -> Self {
        Self {
            key,
            run: 0,
            status,
            reason: Some(format!("{code}: {sentence}")),
            conditions,
            frames: None,
            processed_end_frame: None,
            input_size: None,
            infer_size: None,
            overlay: None,
            nsight_report: None,
            profiled: None,
            non_finite_logits: None,
            measured: None,
            verdict: Verdict::default(),
        }
    }

    /// The profiler's report of the pass, if one was recorded.
    pub fn recording(&self) -> Option<Recording> {
        Some(Recording { report: self.nsight_report.clone()?, stages: self.profiled })
    }

    /// The numbers, and nothing unless the pass is ok.
    pub fn numbers(&self) -> Option<&Measured> {
        self.measured.as_ref().filter(|_| self.status == Status::Ok)
    }
}

/// A profiler's report of a pass, and the stage times from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Path of the report.
    pub report: String,
    /// Stage times of the pass under the profiler, where they can be compared.
    pub stages: Option<ProfiledStages>,
}

/// One object's row of the summary: its recorded passes taken together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryRecord {
    /// The passes as one: frames and times summed, percentiles pooled, peaks maximal.
    pub pooled: RunRecord,
    /// Ok passes that went into the numbers.
    pub runs: usize,
}
