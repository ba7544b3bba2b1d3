/*!
The conditions of a pass, which must be equal for two rows to be comparable. They fill the columns
of conditions.
*/

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{Backend, EncodeStage, Fidelity};
use crate::geometry::GeometryKind;
use crate::metrics::MetricsKind;
use crate::precision::Precision;
use crate::prompt::PromptPolicy;
use crate::strides::Strides;

/// How frames follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One frame in flight: its latency is that of a live camera's frame.
    #[default]
    Latency,
    /// Frames overlap: as many as possible in a second, each one older when its mask is there.
    Throughput,
    /// Several clips at once, one frame of each in flight: as many as possible in a second. The
    /// number of clips asks for it.
    #[value(skip)]
    Offline,
}

impl Mode {
    /// The name in every row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Offline => "offline",
        }
    }

    /// Whether frames overlap in the mode of this name, so that their times are no latencies.
    pub fn overlaps(name: &str) -> bool {
        [Self::Throughput, Self::Offline].iter().any(|mode| mode.name() == name)
    }
}

/// The way of predecoded frames to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameTransfer {
    /// The device copies from the mapped file; nothing is copied in host memory.
    Mapped,
    /// Threads copy each frame from the file into pinned memory.
    Pinned,
    /// Threads convert each frame to the network's numbers, in pinned memory.
    Converted,
}

impl FrameTransfer {
    /// The name in every row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Pinned => "pinned",
            Self::Converted => "converted",
        }
    }
}

/// Conditions of a pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Side of the network's input, pixels.
    pub imgsz: usize,
    /// Arithmetic of the network.
    pub precision: Precision,
    /// What ran the network; none where it was never loaded.
    pub backend: Option<Backend>,
    /// The processor or GPU by name; empty where the network was never loaded.
    pub device: String,
    /// How frames are fitted into the network's input.
    pub geometry: GeometryKind,
    /// Where a click goes.
    pub prompt_policy: PromptPolicy,
    /// Which evaluator's rules score the masks.
    pub metrics: MetricsKind,
    /// Frames one at a time, or overlapping.
    pub mode: Mode,
    /// Clips at once, where the mode is offline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<usize>,
    /// What was run; none where the network was never loaded.
    pub fidelity: Option<Fidelity>,
    /// Which frames were fed and which annotations scored.
    pub strides: Strides,
    /// The run's encode stage; none where it encoded nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encode: Option<EncodeStage>,
    /// The way of predecoded frames to a GPU; none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<FrameTransfer>,
    /// Two clips were run in step as the views of a stereo camera, and times are of a pair of frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stereo: bool,
}

impl Conditions {
    /// The same for a clip that is a video file, which `decoder` decoded. `None`: the frames are
    /// JPEG files.
    #[must_use]
    pub fn of_video(&self, decoder: Option<&str>) -> Self {
        let mut conditions = self.clone();
        if let Some(fidelity) = &mut conditions.fidelity {
            fidelity.video_decoder = decoder.map(str::to_owned);
        }
        conditions
    }

    /// The `fidelity` column: memories, pointers, image size, resize and skips.
    pub fn fidelity(&self) -> Option<String> {
        Some(self.fidelity.as_ref()?.label(self.imgsz, self.strides))
    }
}
