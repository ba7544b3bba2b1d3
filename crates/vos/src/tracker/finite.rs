/*!
What a step gave must be numbers: a NaN in the scores or in the mask's logits would be a wrong mask
with a speed.
*/

use thiserror::Error;

/// A step whose scores or logits are not all finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error(
    "objectness {objectness}, predicted IoU {predicted_iou} and {logits} logits that are no finite \
     numbers; the network overflowed or its weights are damaged"
)]
pub struct NonFinite {
    /// Objectness logit.
    pub objectness: f32,
    /// The decoder's own estimate of its mask's IoU.
    pub predicted_iou: f32,
    /// Low-resolution logits of the mask that are NaN or infinite.
    pub logits: usize,
}

/// Refuses what a step gave where any of it is no finite number; `logits`: how many of the mask's
/// are none.
///
/// # Errors
/// [`NonFinite`].
pub fn require_finite(objectness: f32, predicted_iou: f32, logits: usize) -> Result<(), NonFinite> {
    match objectness.is_finite() && predicted_iou.is_finite() && logits == 0 {
        true => Ok(()),
        false => Err(NonFinite { objectness, predicted_iou, logits }),
    }
}
