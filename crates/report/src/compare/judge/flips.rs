/*!
Decision flips: frames on which a side and the reference decide differently. The decisions are
whether the object is visible, and which of the decoder's candidate masks is selected.

A flip with a large margin is an error; one with a small margin is rounding. The margin is a
difference of the reference's numbers: by how much its decision beat the side's. The IoU on the
previous frame shows whether the masks had already drifted apart.
*/

use serde::{Deserialize, Serialize};

use super::evidence::ObjectEvidence;
use super::side_results::SideResults;
use crate::compare::runs::Decisions;
use crate::compare::thresholds::LISTED_FLIPS;
use vos::record::ObjectKey;

/// Flips of one decision, or why they are unknown.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Flips {
    /// Frames for which both sides stored the decision.
    pub frames: usize,
    /// Frames with different decisions.
    pub flipped: usize,
    /// Largest margin of any flip.
    pub largest_margin: Option<f64>,
    /// Largest difference of the underlying numbers on any frame.
    pub largest_difference: Option<f64>,
    /// The first flips.
    pub listed: Vec<Flip>,
    /// Why nothing is known, if no frame has the decision of both sides.
    pub unknown: Option<String>,
}

/// One flip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flip {
    /// Clip.
    pub video: String,
    /// Object.
    pub object: String,
    /// Frame index in the clip.
    pub frame: usize,
    /// The reference's logit, or number of its mask.
    pub reference: f64,
    /// This side's.
    pub side: f64,
    /// By how much the reference's decision beat the side's: the absolute logit, or the
    /// reference's predicted IoU of its mask minus its predicted IoU of the side's mask. None if
    /// the reference did not store it.
    pub margin: Option<f64>,
    /// IoU of the two masks on this frame; none if the masks were not compared.
    pub iou: Option<f64>,
    /// IoU of the two masks on the frame before; none for the prompted frame.
    pub iou_before: Option<f64>,
}

/// The masks' agreement of each object; none if the masks were not compared.
pub(super) type Agreement<'a> = Option<&'a [ObjectEvidence]>;

/// The decisions of both sides on one frame.
struct Pair {
    reference: f64,
    side: f64,
    flipped: bool,
    margin: Option<f64>,
    difference: Option<f64>,
}

/// Compares the sign of the objectness logit of `side` with `reference`.
pub(super) fn objectness(
    reference: &SideResults<'_>,
    side: &SideResults<'_>,
    masks: Agreement<'_>,
) -> Flips {
    count(reference, side, masks, "objectness", |reference, side, at| {
        let (reference, side) = (value(&reference.objectness, at)?, value(&side.objectness, at)?);
        Some(Pair {
            reference,
            side,
            flipped: (reference > 0.0) != (side > 0.0),
            margin: Some(reference.abs()),
            difference: Some((reference - side).abs()),
        })
    })
}

/// Compares the selected masks.
pub(super) fn chosen_mask(
    reference: &SideResults<'_>,
    side: &SideResults<'_>,
    masks: Agreement<'_>,
) -> Flips {
    count(reference, side, masks, "chosen_mask", |reference, side, at| {
        let reference_mask = value(&reference.chosen_mask, at)?;
        let side_mask = value(&side.chosen_mask, at)?;
        let reference_ious = reference.iou_predictions.get(at).and_then(Option::as_deref);
        let side_ious = side.iou_predictions.get(at).and_then(Option::as_deref);
        let difference = reference_ious.zip(side_ious).and_then(|(reference, side)| {
            reference.iter().zip(side).map(|(x, y)| (x - y).abs()).reduce(f64::max)
        });
        Some(Pair {
            reference: reference_mask as f64,
            side: side_mask as f64,
            flipped: reference_mask != side_mask,
            margin: reference_ious
                .and_then(|ious| selection_margin(ious, reference_mask, side_mask)),
            difference,
        })
    })
}

fn value<T: Copy>(column: &[Option<T>], at: usize) -> Option<T> {
    column.get(at).copied().flatten()
}

/// The reference's predicted IoU of its selected mask minus that of the side's selected mask. Masks
/// are numbered from 1. None without these IoUs.
fn selection_margin(ious: &[f64], reference_mask: i64, side_mask: i64) -> Option<f64> {
    let iou = |mask: i64| ious.get(usize::try_from(mask).ok()?.checked_sub(1)?);
    Some(iou(reference_mask)? - iou(side_mask)?)
}

fn count(
    reference: &SideResults<'_>,
    side: &SideResults<'_>,
    masks: Agreement<'_>,
    what: &str,
    pair: impl Fn(&Decisions, &Decisions, usize) -> Option<Pair>,
) -> Flips {
    let mut found = Flips {
        frames: 0,
        flipped: 0,
        largest_margin: None,
        largest_difference: None,
        listed: Vec::new(),
        unknown: None,
    };
    let larger = |known: &mut Option<f64>, new: Option<f64>| {
        *known = [*known, new].into_iter().flatten().reduce(f64::max);
    };
    let keys: Vec<ObjectKey> = reference.objects().cloned().collect();
    for key in &keys {
        let passes = reference.first_pass(key).zip(side.first_pass(key));
        let Some((reference_pass, side_pass)) = passes else { continue };
        for (at, frame) in reference_pass.frames.iter().enumerate() {
            let decisions = (&reference_pass.decisions, &side_pass.decisions);
            let Some(pair) = pair(decisions.0, decisions.1, at) else { continue };
            found.frames += 1;
            larger(&mut found.largest_difference, pair.difference);
            if !pair.flipped {
                continue;
            }
            found.flipped += 1;
            larger(&mut found.largest_margin, pair.margin);
            if found.listed.len() < LISTED_FLIPS {
                let object = masks.and_then(|all| all.iter().find(|object| object.key == *key));
                let iou = |at: usize| Some(object?.frames.get(at)?.iou);
                found.listed.push(Flip {
                    video: key.video.clone(),
                    object: key.object.clone(),
                    frame: frame.frame,
                    reference: pair.reference,
                    side: pair.side,
                    margin: pair.margin,
                    iou: iou(at),
                    iou_before: at.checked_sub(1).and_then(iou),
                });
            }
        }
    }
    if found.frames == 0 {
        let has_decision = |c: &SideResults<'_>| {
            keys.iter().filter_map(|key| c.first_pass(key)).any(|pass| match what {
                "objectness" => pass.decisions.objectness.iter().any(Option::is_some),
                _ => pass.decisions.chosen_mask.iter().any(Option::is_some),
            })
        };
        let without_decision: Vec<&str> =
            [reference, side].into_iter().filter(|c| !has_decision(c)).map(|c| c.name).collect();
        found.unknown = Some(format!("{} did not store {what}", without_decision.join(" and ")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_the_difference_of_the_two_selected_masks() {
        let margin = |ious: &[f64], masks: [i64; 2]| selection_margin(ious, masks[0], masks[1]);
        assert!((margin(&[0.5, 0.9, 0.7], [2, 3]).unwrap() - 0.2).abs() < 1e-12);
        // The side selected the reference's third best mask.
        assert!((margin(&[0.5, 0.9, 0.7], [2, 1]).unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(margin(&[0.9, 0.5, 0.9], [1, 3]), Some(0.0));
        assert_eq!(margin(&[0.9, 0.5], [1, 3]), None);
        assert_eq!(margin(&[0.9, 0.5], [1, 0]), None);
    }
}
