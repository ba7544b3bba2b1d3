/*!
Prompts: clicks, a box or a mask of an object on one frame.

A bench derives the prompt from the ground truth of the object's first annotated frame; `track`
takes the user's. There are two policies, because the predecessor's click can lie outside the object
or on a stray speck of it. Rows with that policy are comparable with its old files; rows with
[`PromptPolicy::Interior`] say more about the model.
*/

mod components;
mod distance;
mod error;
mod interior;

use clap::ValueEnum;
pub use error::PromptError;
use serde::{Deserialize, Serialize};

use crate::dataset::ObjectTruth;
use crate::mask::{Mask, PixelBox};

/// Kind of the prompt; the last part of a model tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptKind {
    /// One positive click.
    Points,
    /// The tight box around the object.
    Bbox,
    /// The object's mask.
    Mask,
}

impl PromptKind {
    /// The name in model tags (`sam2_tiny_points`) and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Points => "points",
            Self::Bbox => "bbox",
            Self::Mask => "mask",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Points, Self::Bbox, Self::Mask].into_iter().find(|kind| kind.name() == name)
    }
}

/// Position of the click. Boxes and masks are the same under both policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptPolicy {
    /// Truncated centroid of the first 4-connected component in raster order; may miss the object.
    #[default]
    Predecessor,
    /// The foreground pixel farthest from the object's edge.
    Interior,
}

impl PromptPolicy {
    /// The name on the command line and in the records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Predecessor => "predecessor",
            Self::Interior => "interior",
        }
    }
}

/// A prompt in video pixels; pixel (0, 0) is the top-left one.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// One positive click.
    Point {
        /// Column.
        x: f32,
        /// Row.
        y: f32,
    },
    /// A box with inclusive corners.
    Box {
        /// Left-most column.
        x_min: f32,
        /// Top-most row.
        y_min: f32,
        /// Right-most column.
        x_max: f32,
        /// Bottom-most row.
        y_max: f32,
    },
    /// Clicks, positive and negative, with or without a box.
    Clicks(Clicks),
    /// The object's mask.
    Mask(Mask),
}

/// A click in video pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Click {
    /// Column.
    pub x: f32,
    /// Row.
    pub y: f32,
    /// Whether it lies on the object; else it lies on something that is not the object.
    pub positive: bool,
}

/// The clicks of one object on one frame, given together.
///
/// Meta's predictor takes them in one call, the box before the clicks. Clicks that correct an
/// earlier mask, in a later call, are another input, which this type does not express.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clicks {
    /// A box with inclusive corners: left, top, right, bottom.
    pub bbox: Option<[f32; 4]>,
    /// The clicks in the order of the user.
    pub clicks: Vec<Click>,
}

impl Clicks {
    /// Points of the prompt encoder: a box counts as two.
    pub fn points(&self) -> usize {
        self.clicks.len() + if self.bbox.is_some() { 2 } else { 0 }
    }
}

impl Prompt {
    /// The prompt for an object with this `mask`; `None` if the mask is empty.
    pub fn from_mask(mask: &Mask, kind: PromptKind, policy: PromptPolicy) -> Option<Self> {
        let PixelBox { x_min, y_min, x_max, y_max } = mask.extents()?;
        Some(match (kind, policy) {
            (PromptKind::Mask, _) => Self::Mask(mask.clone()),
            (PromptKind::Bbox, _) => Self::Box {
                x_min: x_min as f32,
                y_min: y_min as f32,
                x_max: x_max as f32,
                y_max: y_max as f32,
            },
            (PromptKind::Points, PromptPolicy::Predecessor) => {
                let first = components::components(mask).into_iter().next()?;
                let (x, y) = first.truncated_centroid();
                Self::Point { x: x as f32, y: y as f32 }
            }
            (PromptKind::Points, PromptPolicy::Interior) => {
                let (x, y) = interior::interior_point(mask)?;
                Self::Point { x: x as f32, y: y as f32 }
            }
        })
    }
}

/// The prompt of one object of a clip, with its frame and mask.
#[derive(Clone, Debug)]
pub struct ObjectPrompt {
    /// Index of the prompted frame.
    pub index: usize,
    /// Ground truth of that frame.
    pub mask: Mask,
    /// The prompt of the model.
    pub prompt: Prompt,
}

impl ObjectPrompt {
    /// The prompt of `object` in a clip of `frames` frames of `width` × `height` pixels.
    ///
    /// # Errors
    /// The object has no mask, or its first mask is past the end of the clip, missing, unreadable,
    /// of another size than the frames, or empty. Later frames are not tried, as in the
    /// predecessor.
    pub fn new(
        object: &ObjectTruth,
        frames: usize,
        (width, height): (usize, usize),
        kind: PromptKind,
        policy: PromptPolicy,
    ) -> Result<Self, PromptError> {
        let index = object
            .prompt_index()
            .ok_or_else(|| PromptError::NoMasks { object: object.name.clone() })?;
        if index >= frames {
            return Err(PromptError::OutOfRange { object: object.name.clone(), index, frames });
        }
        let mask = object
            .mask_of_size(index, width, height)
            .map_err(|source| PromptError::from_mask_error(&object.name, index, source))?;
        let prompt = Prompt::from_mask(&mask, kind, policy).ok_or_else(|| PromptError::Empty {
            object: object.name.clone(),
            index,
            path: object.masks[&index].clone(),
        })?;
        Ok(Self { index, mask, prompt })
    }
}
