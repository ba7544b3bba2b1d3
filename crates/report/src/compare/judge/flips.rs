/*!
Frames with other decisions than the reference: whether the object is visible, and which of the
decoder's candidate masks was selected.

A flip with a large margin is an error; one with a small margin is rounding. So each flip has its
margin: the reference's distance from the other decision. The IoU of the frame before tells whether
the masks had already drifted apart.
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
    /// The reference's distance from the other decision: the absolute logit, or the distance of
    /// its two highest predicted IoUs; none if the reference did not store it.
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
    count(reference, side, masks, "objectness", |theirs, ours, at| {
        let (theirs, ours) = (value(&theirs.objectness, at)?, value(&ours.objectness, at)?);
        Some(Pair {
            reference: theirs,
            side: ours,
            flipped: (theirs > 0.0) != (ours > 0.0),
            margin: Some(theirs.abs()),
            difference: Some((theirs - ours).abs()),
        })
    })
}

/// Compares the selected masks.
pub(super) fn chosen_mask(
    reference: &SideResults<'_>,
    side: &SideResults<'_>,
    masks: Agreement<'_>,
) -> Flips {
    count(reference, side, masks, "chosen_mask", |theirs, ours, at| {
        let (a, b) = (value(&theirs.chosen_mask, at)?, value(&ours.chosen_mask, at)?);
        let left = theirs.iou_predictions.get(at).and_then(Option::as_deref);
        let right = ours.iou_predictions.get(at).and_then(Option::as_deref);
        let difference = left.zip(right).and_then(|(left, right)| {
            left.iter().zip(right).map(|(x, y)| (x - y).abs()).reduce(f64::max)
        });
        Some(Pair {
            reference: a as f64,
            side: b as f64,
            flipped: a != b,
            margin: left.and_then(lead),
            difference,
        })
    })
}

fn value<T: Copy>(column: &[Option<T>], at: usize) -> Option<T> {
    column.get(at).copied().flatten()
}

/// The distance of the two highest predicted IoUs. The highest is the selected mask's.
fn lead(ious: &[f64]) -> Option<f64> {
    let mut sorted = ious.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    match sorted.as_slice() {
        [first, second, ..] => Some(first - second),
        _ => None,
    }
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
        let Some((theirs, ours)) = reference.first_pass(key).zip(side.first_pass(key)) else {
            continue;
        };
        for (at, frame) in theirs.frames.iter().enumerate() {
            let Some(pair) = pair(&theirs.decisions, &ours.decisions, at) else { continue };
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
        let tells = |c: &SideResults<'_>| {
            keys.iter().filter_map(|key| c.first_pass(key)).any(|pass| match what {
                "objectness" => pass.decisions.objectness.iter().any(Option::is_some),
                _ => pass.decisions.chosen_mask.iter().any(Option::is_some),
            })
        };
        let silent: Vec<&str> =
            [reference, side].into_iter().filter(|c| !tells(c)).map(|c| c.name).collect();
        found.unknown = Some(format!("{} did not store {what}", silent.join(" and ")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_is_the_distance_of_the_two_highest() {
        assert!((lead(&[0.5, 0.9, 0.7]).unwrap() - 0.2).abs() < 1e-12);
        assert!((lead(&[0.9, 0.5, 0.75]).unwrap() - 0.15).abs() < 1e-12);
        assert_eq!(lead(&[0.9, 0.5, 0.9]), Some(0.0));
        assert_eq!(lead(&[0.5]), None);
        assert_eq!(lead(&[]), None);
    }
}
