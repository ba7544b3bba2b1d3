/*!
The tracker's interface to a backend: the steps of one frame, in order.

Tensors do not cross this interface. A backend keeps features, memory bank and pointers, and gets
only the slots to read and write. `backend::OrtNetwork` and the tests' networks implement it.
Engines on a GPU do not: `pipeline` enqueues whole frames, with the slots of the same
`tracker::bank`.
*/

use anyhow::{Result, bail};
use half::f16;

use super::bank::{Selection, Slots};
use crate::bundle::Manifest;
use crate::decode::RgbImage;
use crate::geometry::{Geometry, NetworkPoints};
use crate::mask::Mask;
use crate::predecode::PreparedFrame;
use crate::preprocess;
use crate::prompt::Prompt;
use crate::record::MaskSelection;

/// A prompt in network pixels.
#[derive(Clone, Debug)]
pub enum NetworkPrompt {
    /// Clicks and box corners.
    Points {
        /// Coordinates and kind of each point.
        points: NetworkPoints,
        /// Whether the decoder chooses among its three multimask outputs.
        multimask: bool,
    },
    /// A mask of `imgsz` × `imgsz` pixels, 0 or 1, row-major.
    Mask(Vec<f32>),
}

impl NetworkPrompt {
    /// Whether the prompt step selects among the candidate masks.
    pub fn selects(&self) -> bool {
        matches!(self, Self::Points { multimask: true, .. })
    }

    /// Converts a prompt in video pixels.
    pub fn new(prompt: &Prompt, geometry: &Geometry) -> Self {
        match geometry.points(prompt) {
            // SAM 2 uses the multimask outputs for at most one point; a box counts as two.
            Ok(points) => Self::Points { multimask: points.coords.len() <= 1, points },
            Err(mask) => Self::Mask(preprocess::mask::prompt_mask(geometry, mask)),
        }
    }
}

/// A frame as the tracker's input.
#[derive(Clone, Copy, Debug)]
pub enum FrameInput<'a> {
    /// Decoded pixels of the video's size.
    Pixels(&'a RgbImage),
    /// The network's input, decoded and resized before the run.
    Prepared(PreparedFrame<'a>),
}

impl<'a> From<&'a RgbImage> for FrameInput<'a> {
    fn from(image: &'a RgbImage) -> Self {
        Self::Pixels(image)
    }
}

/// The result of one frame.
#[derive(Clone, Debug)]
pub struct FrameOutput {
    /// The object's mask at video resolution.
    pub mask: Mask,
    /// Objectness logit; the object counts as visible above 0.
    pub objectness: f32,
    /// The decoder's predicted IoU of its mask.
    pub predicted_iou: f32,
    /// The decoder's selection among its candidate masks; none where it selected nothing (a mask
    /// prompt, several points, a box), or where the graphs do not output it.
    pub selection: Option<MaskSelection>,
    /// Low-resolution logits of the mask that are NaN or infinite.
    pub non_finite_logits: usize,
}

/// The steps of one frame. Call order: `load`, `encode`, then for each object `select_object`,
/// `prompt` or `track`, `output`, `logits` and `teach` if logits are exchanged, and `memorise`.
pub trait Network {
    /// The manifest of the graphs.
    fn manifest(&self) -> &Manifest;

    /// Prepares for a clip with this geometry and clears the memories of all objects.
    fn begin_clip(&mut self, geometry: &Geometry) -> Result<()>;

    /// Takes up an object, counted from 0, for the steps that follow. Its memories and pointers
    /// are its own; the frame's features are shared.
    ///
    /// # Errors
    /// This backend tracks one object at a time.
    fn select_object(&mut self, object: usize) -> Result<()> {
        match object {
            0 => Ok(()),
            _ => bail!("this backend tracks one object at a time"),
        }
    }

    /// Converts a frame to the network's input.
    fn load(&mut self, frame: &RgbImage) -> Result<()>;

    /// Takes a predecoded frame.
    ///
    /// # Errors
    /// This backend takes only pixels, or the frame's size differs from its input.
    fn load_prepared(&mut self, _frame: &PreparedFrame<'_>) -> Result<()> {
        bail!("this backend takes decoded pixels, not predecoded frames; omit --predecoded")
    }

    /// Image encoder: input to features.
    fn encode(&mut self) -> Result<()>;

    /// Prompt step on the conditioning frame.
    fn prompt(&mut self, prompt: &NetworkPrompt) -> Result<()>;

    /// Memory attention and mask decoder, reading the bank's filled slots.
    fn track(&mut self, selection: &Selection) -> Result<()>;

    /// Mask at video resolution and scores of the latest step.
    fn output(&mut self) -> Result<FrameOutput>;

    /// Low-resolution logits of the latest step, `low_size` × `low_size`, row-major.
    ///
    /// # Errors
    /// This backend has no logits, or no step has run.
    fn logits(&self) -> Result<&[f32]> {
        bail!("this backend does not output logits; omit --save-logits")
    }

    /// Makes `memorise` write this frame's memory from these logits instead of the step's. Mask,
    /// scores and pointer stay the step's.
    ///
    /// # Errors
    /// This backend takes none, or their size differs.
    fn teach(&mut self, _logits: &[f16]) -> Result<()> {
        bail!("this backend takes no teacher's logits; omit --teacher")
    }

    /// Memory encoder: writes this frame's memory and pointer into `slots`; `binarise` on the
    /// conditioning frame.
    fn memorise(&mut self, slots: Slots, binarise: bool) -> Result<()>;
}
