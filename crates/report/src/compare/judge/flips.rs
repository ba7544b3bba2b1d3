/*!
Decisions that turned over: whether the object is in the frame, and which of the decoder's masks was
taken.

A flip far from the threshold is an error; one close by is what rounding does. So each flip is told
with its margin: how far the reference was from deciding the other way.
*/

use serde::Serialize;

use super::contender::Contender;
use crate::compare::runs::Decisions;
use crate::compare::thresholds::LISTED_FLIPS;
use vos::record::ObjectKey;

/// Flips of one kind, or why they are not known.
#[derive(Clone, Debug, Serialize)]
pub struct Flips {
    /// Frames on which both sides told their decision.
    pub frames: usize,
    /// Frames on which they differ.
    pub flipped: usize,
    /// Largest margin of any flip.
    pub largest_margin: Option<f64>,
    /// Largest difference of the numbers that were decided by, on any frame.
    pub largest_difference: Option<f64>,
    /// The first flips.
    pub listed: Vec<Flip>,
    /// Why nothing is known, where no frame was told by both.
    pub unknown: Option<String>,
}

/// One flip.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// How far the reference was from deciding the other way: its logit's size, or how much better
    /// it held its mask than the next one (IoU); none where it did not tell.
    pub margin: Option<f64>,
}

/// What is known of one frame.
struct Pair {
    reference: f64,
    side: f64,
    flipped: bool,
    margin: Option<f64>,
    difference: Option<f64>,
}

/// Objectness of `side` against `reference`: does the sign of the logit agree?
pub(super) fn objectness(reference: &Contender<'_>, side: &Contender<'_>) -> Flips {
    count(reference, side, "objectness", |theirs, ours, at| {
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

/// The choice among the decoder's masks.
pub(super) fn chosen_mask(reference: &Contender<'_>, side: &Contender<'_>) -> Flips {
    count(reference, side, "chosen_mask", |theirs, ours, at| {
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
            margin: left.and_then(|ious| lead(ious, a)),
            difference,
        })
    })
}

fn value<T: Copy>(column: &[Option<T>], at: usize) -> Option<T> {
    column.get(at).copied().flatten()
}

/// How much better the chosen mask was held than the best of the others.
fn lead(ious: &[f64], chosen: i64) -> Option<f64> {
    let chosen = usize::try_from(chosen).ok()?;
    let own = ious.get(chosen)?;
    let others = ious.iter().enumerate().filter(|(at, _)| *at != chosen).map(|(_, iou)| *iou);
    Some(own - others.reduce(f64::max)?)
}

fn count(
    reference: &Contender<'_>,
    side: &Contender<'_>,
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
                found.listed.push(Flip {
                    video: key.video.clone(),
                    object: key.object.clone(),
                    frame: frame.frame,
                    reference: pair.reference,
                    side: pair.side,
                    margin: pair.margin,
                });
            }
        }
    }
    if found.frames == 0 {
        let tells = |c: &Contender<'_>| {
            keys.iter().filter_map(|key| c.first_pass(key)).any(|pass| match what {
                "objectness" => pass.decisions.objectness.iter().any(Option::is_some),
                _ => pass.decisions.chosen_mask.iter().any(Option::is_some),
            })
        };
        let silent: Vec<&str> =
            [reference, side].into_iter().filter(|c| !tells(c)).map(|c| c.name).collect();
        found.unknown = Some(format!("{} does not tell {what}", silent.join(" and ")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_is_over_the_best_of_the_others() {
        assert!((lead(&[0.5, 0.9, 0.7], 1).unwrap() - 0.2).abs() < 1e-12);
        assert!((lead(&[0.5, 0.9, 0.7], 0).unwrap() + 0.4).abs() < 1e-12);
        assert_eq!(lead(&[0.5], 0), None);
        assert_eq!(lead(&[0.5, 0.6], 7), None);
        assert_eq!(lead(&[0.5, 0.6], -1), None);
    }
}
