/*!
Refuses NaN and infinite values in a step's scores or logits, because they would produce a wrong
mask with a speed.
*/

use thiserror::Error;

/// A step with scores or logits that are not finite.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error(
    "objectness {objectness}, predicted IoU {predicted_iou} and {logits} logits that are no finite \
     numbers; the network overflowed or its weights are damaged"
)]
pub struct NonFinite {
    /// Objectness logit.
    pub objectness: f32,
    /// The decoder's predicted IoU of its mask.
    pub predicted_iou: f32,
    /// Low-resolution logits of the mask that are NaN or infinite.
    pub logits: usize,
}

/// Refuses a step whose scores are not finite or with `logits` > 0, the number of its mask's logits
/// that are not finite.
///
/// # Errors
/// [`NonFinite`].
pub fn require_finite(objectness: f32, predicted_iou: f32, logits: usize) -> Result<(), NonFinite> {
    match objectness.is_finite() && predicted_iou.is_finite() && logits == 0 {
        true => Ok(()),
        false => Err(NonFinite { objectness, predicted_iou, logits }),
    }
}
