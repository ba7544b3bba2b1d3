/*!
What the tracker needs of a backend: the steps of one frame, in order.

Tensors never cross this line. A backend keeps features, memory bank and pointers and is told only
which slots to read and write. `backend::OrtNetwork` implements it, and so do the tests' networks.
Engines on a GPU are not driven step by step: `pipeline` enqueues whole frames, with the slots of
the same `tracker::bank`.
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

/// A prompt in the network's own pixels.
#[derive(Clone, Debug)]
pub enum NetworkPrompt {
    /// Clicks and box corners.
    Points {
        /// Where, and of which kind.
        points: NetworkPoints,
        /// Whether the decoder chooses among its three multimask outputs.
        multimask: bool,
    },
    /// A mask of `imgsz` × `imgsz` pixels, 0 or 1, row after row.
    Mask(Vec<f32>),
}

impl NetworkPrompt {
    /// Turns a prompt in video pixels into the network's own.
    pub fn new(prompt: &Prompt, geometry: &Geometry) -> Self {
        match geometry.points(prompt) {
            // SAM 2 takes the multimask outputs for at most one point; a box counts as two.
            Ok(points) => Self::Points { multimask: points.coords.len() <= 1, points },
            Err(mask) => Self::Mask(preprocess::mask::prompt_mask(geometry, mask)),
        }
    }
}

/// A frame as the tracker gets it.
#[derive(Clone, Copy, Debug)]
pub enum FrameInput<'a> {
    /// Decoded pixels of the video's size.
    Pixels(&'a RgbImage),
    /// The network's input, decoded and resized ahead of time.
    Prepared(PreparedFrame<'a>),
}

impl<'a> From<&'a RgbImage> for FrameInput<'a> {
    fn from(image: &'a RgbImage) -> Self {
        Self::Pixels(image)
    }
}

/// What one frame yields.
#[derive(Clone, Debug)]
pub struct FrameOutput {
    /// The object's mask at video resolution.
    pub mask: Mask,
    /// Objectness logit; the object counts as visible above 0.
    pub objectness: f32,
    /// The decoder's own estimate of its mask's IoU.
    pub predicted_iou: f32,
    /// Low-resolution logits of the mask that are NaN or infinite.
    pub non_finite_logits: usize,
}

/// The steps of one frame. Call order: `load`, `encode`, then `prompt` or `track`, then `output`,
/// `logits` and `teach` where logits are exchanged, and `memorise`.
pub trait Network {
    /// What the graphs are.
    fn manifest(&self) -> &Manifest;

    /// Prepares for a clip with this geometry and forgets every memory.
    fn begin_clip(&mut self, geometry: &Geometry) -> Result<()>;

    /// Takes a frame and turns it into the network's input.
    fn load(&mut self, frame: &RgbImage) -> Result<()>;

    /// Takes a frame that was decoded and resized ahead of time.
    ///
    /// # Errors
    /// This backend takes pixels only, or the frame has another size than its input.
    fn load_prepared(&mut self, _frame: &PreparedFrame<'_>) -> Result<()> {
        bail!("this backend takes decoded pixels, not predecoded frames; leave --predecoded out")
    }

    /// Image encoder: input to features.
    fn encode(&mut self) -> Result<()>;

    /// Prompt step on the conditioning frame.
    fn prompt(&mut self, prompt: &NetworkPrompt) -> Result<()>;

    /// Memory attention and mask decoder, reading the bank's filled slots.
    fn track(&mut self, selection: &Selection) -> Result<()>;

    /// Mask at video resolution and the scores of the step just run.
    fn output(&mut self) -> Result<FrameOutput>;

    /// Low-resolution logits of the step just run, `low_size` × `low_size`, row after row.
    ///
    /// # Errors
    /// This backend does not give them, or no step has run.
    fn logits(&self) -> Result<&[f32]> {
        bail!("this backend does not give its logits; leave --save-logits out")
    }

    /// Lets `memorise` write this frame's memory from these logits instead of the step's own. Mask,
    /// scores and pointer stay the step's.
    ///
    /// # Errors
    /// This backend takes none, or they are of another size.
    fn teach(&mut self, _logits: &[f16]) -> Result<()> {
        bail!("this backend takes no teacher's logits; leave --teacher out")
    }

    /// Memory encoder: writes this frame's memory and pointer into `slots`. `binarise` on the
    /// conditioning frame.
    fn memorise(&mut self, slots: Slots, binarise: bool) -> Result<()>;
}
