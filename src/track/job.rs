/*!
What `track` is to do, and what its worker tells of it.
*/

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bench::load::RuntimePlan;
use crate::bench::plan::BenchModel;
use vos::prompt::Clicks;

/// Folder of the masks inside the output folder.
pub const MASKS: &str = "masks";
/// File of the lines, one for each frame and object.
pub const LINES: &str = "frames.jsonl";
/// Name of the overlay: a film of this name, or a folder of frames.
pub const OVERLAY: &str = "overlay";

/// One clip with its objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrackJob {
    /// A video file, or a folder of JPEG frames.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub clip: PathBuf,
    /// The objects, by rising id.
    pub objects: Vec<Wanted>,
    /// The frame of all prompts.
    pub frame: usize,
    /// Frames to track from it on, 0 for all.
    pub max_frames: usize,
    /// The model.
    pub model: BenchModel,
    /// What runs it.
    pub runtime: RuntimePlan,
    /// Folder of the files.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub out: PathBuf,
    /// The overlay; none: only masks and lines.
    pub overlay: Option<OverlayStyle>,
}

/// An object and its prompt: clicks and a box, or a mask.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// Its id, 1 to 255: its palette index in the masks.
    pub id: u8,
    /// Clicks and box.
    pub clicks: Clicks,
    /// File of its mask.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub mask: Option<PathBuf>,
    /// Folder of its true masks, which the overlay outlines.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub truth: Option<PathBuf>,
}

/// How the overlay looks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverlayStyle {
    /// Opacity of the masks' tint, 0 to 1.
    pub opacity: f32,
    /// Whether the frame rate stands in a corner.
    pub fps: bool,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// What it does before the first frame.
    Doing {
        /// In words.
        what: String,
    },
    /// The clip is open and the model is loaded.
    Ready {
        /// Frames to track.
        total: usize,
    },
    /// Frames that are tracked and written.
    Frames {
        /// Their number.
        done: usize,
        /// Frames per second of the network, over the latest frames.
        fps: f64,
    },
    /// All is written that will be.
    Done(Box<Summary>),
    /// It cannot go on, and has written nothing.
    Failed {
        /// Why.
        reason: String,
        /// Whether the command line is at fault.
        usage: bool,
    },
}

/// What came of a clip.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Width and height of the clip, pixels.
    pub size: (usize, usize),
    /// Frames of the clip, of a video those that were decoded: no more than are tracked.
    pub clip_frames: usize,
    /// The prompted frame.
    pub first: usize,
    /// Frames that are tracked and written.
    pub frames: usize,
    /// Their objects.
    pub objects: usize,
    /// Network, image side and arithmetic.
    pub model: String,
    /// What ran it.
    pub backend: String,
    /// On which device.
    pub device: String,
    /// Frames per second: frames over the sum of their times.
    pub fps: f64,
    /// Mean time of a frame, ms.
    pub frame_ms: f64,
    /// Time of the prompted frame, ms.
    pub first_frame_ms: f64,
    /// Median time of the frames after it, ms; none for a single frame.
    pub later_p50_ms: Option<f64>,
    /// Mean decoding time, ms; none where threads decode ahead.
    pub decode_ms: Option<f64>,
    /// Mean time to write a frame's files, ms.
    pub write_ms: f64,
    /// Time to load the model, ms.
    pub load_ms: f64,
    /// Overlay, masks and lines that were written, as far as there are any.
    pub files: Vec<PathBuf>,
    /// Positive clicks that the prompted frame's masks leave out, as sentences.
    pub missed: Vec<String>,
    /// What broke off the clip, if something did.
    pub failed: Option<String>,
    /// Whether the user stopped it.
    pub stopped: bool,
}
