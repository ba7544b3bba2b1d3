/*!
Whether a side's masks and scores equal the reference's within the limits of its precision.
*/

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::ObjectEvidence;
use super::shown::{self, ShownFrame};
use crate::compare::iou_format;
use crate::compare::thresholds::{EqualityLimits, PROOF, equality_of};
use vos::stats;

/// Result of the check.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Equality {
    /// Masks and scores equal the reference's within the limits, and the masks prove something.
    pub same: bool,
    /// Enough reference masks are neither empty nor as large as the frame.
    pub proves: bool,
    /// Each broken limit as a sentence.
    pub faults: Vec<String>,
    /// The limits of this precision; none for an unknown precision.
    #[serde(skip_deserializing)]
    pub limits: Option<EqualityLimits>,
    /// Frames compared, all objects.
    pub frames: usize,
    /// Mean IoU over these frames.
    pub mean_iou: f64,
    /// Lowest IoU of any frame.
    pub min_iou: f64,
    /// Frames on which both masks are empty; they count as IoU 1.
    pub both_empty: usize,
    /// Frames whose reference mask is large enough, and not nearly the whole frame, to prove
    /// something.
    pub counting: usize,
    /// All rounds gave identical masks.
    pub rounds_identical: bool,
    /// The frame with the least agreement.
    pub worst: Option<Worst>,
    /// Frames with a small picture: prompted, best, median, worst.
    pub shown: Vec<ShownFrame>,
    /// Official scores; none without a scored frame.
    pub scores: Option<Scores>,
}

impl Equality {
    /// The masks prove something, and mean IoU and J&F hold the limits; single frames may break
    /// them.
    pub fn holds_on_the_whole(&self) -> bool {
        let Some(limits) = self.limits else { return false };
        let moved = self.scores.map_or(0.0, |scores| scores.difference.abs());
        self.proves && self.mean_iou >= limits.mean_iou && moved <= limits.jf_points
    }
}

/// The frame with the lowest IoU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Worst {
    /// Clip.
    pub video: String,
    /// Object.
    pub object: String,
    /// Frame index in the clip.
    pub frame: usize,
    /// Its round, from 1.
    pub round: usize,
    /// Its IoU.
    pub iou: f64,
    /// Pixels that only one mask has.
    pub differing_pixels: usize,
    /// Its picture, relative to the output folder; none if it could not be drawn.
    pub picture: Option<String>,
}

/// J, F and J&F by the official rules, means over objects, points of 100, and the differences to
/// the reference.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scores {
    /// Objects with scores.
    pub objects: usize,
    /// J of this side.
    pub j: f64,
    /// F of this side.
    pub f: f64,
    /// J&F of this side.
    pub jf: f64,
    /// J&F of the reference.
    pub reference_jf: f64,
    /// J&F of this side minus J&F of the reference.
    pub difference: f64,
    /// Largest difference of any object, with its sign.
    pub largest_difference: f64,
}

/// IoU by frame: the drift curve of a side.
#[derive(Clone, Debug, Serialize)]
pub struct DriftCurve {
    /// Model tag.
    pub model: String,
    /// Side.
    pub side: String,
    /// Source of its memories: `free` (its own masks) or `teacher` (the reference's masks).
    pub memory: &'static str,
    /// Frames since the prompt; the prompted frame is 0.
    pub frame: Vec<usize>,
    /// Mean IoU over the objects with this frame.
    pub iou: Vec<f64>,
    /// Lowest IoU of any of these objects.
    pub lowest: Vec<f64>,
    /// Number of these objects.
    pub objects: Vec<usize>,
}

/// Judges the masks of a side that ran in `precision`.
pub(super) fn judge(objects: &[ObjectEvidence], precision: &str) -> Equality {
    let frames: Vec<_> =
        objects.iter().flat_map(|o| o.frames.iter().map(move |f| (o, f))).collect();
    let ious: Vec<f64> = frames.iter().map(|(_, frame)| frame.iou).collect();
    let worst = frames.iter().min_by(|a, b| {
        // Of frames with equal IoU the one with more differing pixels shows more.
        a.1.iou.total_cmp(&b.1.iou).then(b.1.differing.cmp(&a.1.differing))
    });
    let limits = equality_of(precision);
    let mut found = Equality {
        same: false,
        proves: false,
        faults: Vec::new(),
        limits: limits.copied(),
        frames: frames.len(),
        mean_iou: stats::mean(&ious).unwrap_or(0.0),
        min_iou: stats::min(&ious).unwrap_or(0.0),
        both_empty: frames.iter().filter(|(_, frame)| frame.both_empty).count(),
        counting: frames.iter().filter(|(_, frame)| frame.counts).count(),
        rounds_identical: objects.iter().all(|object| object.rounds_identical),
        worst: worst.map(|(object, frame)| Worst {
            video: object.key.video.clone(),
            object: object.key.object.clone(),
            frame: frame.frame,
            round: frame.round,
            iou: frame.iou,
            differing_pixels: frame.differing,
            picture: None,
        }),
        shown: shown::choose(objects),
        scores: scores(objects),
    };
    found.proves =
        found.counting as f64 >= PROOF.least_share * found.frames as f64 && found.counting > 0;
    found.faults = faults(&found, limits, precision);
    found.same = found.faults.is_empty();
    found
}

fn faults(found: &Equality, limits: Option<&EqualityLimits>, precision: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(limits) = limits else {
        return vec![format!("there are no limits for the precision {precision:?}")];
    };
    if found.min_iou < limits.min_iou {
        let place = found.worst.as_ref().map_or_else(String::new, |worst| {
            format!(
                " ({} object {} frame {}, {} pixels differ)",
                worst.video, worst.object, worst.frame, worst.differing_pixels
            )
        });
        faults.push(format!(
            "lowest IoU {}{place}, the limit of {precision} is {}",
            iou_format::frame(found.min_iou),
            limits.min_iou
        ));
    }
    if found.mean_iou < limits.mean_iou {
        faults.push(format!(
            "mean IoU {}, the limit of {precision} is {}",
            iou_format::mean(found.mean_iou),
            limits.mean_iou
        ));
    }
    if let Some(scores) = found.scores
        && scores.difference.abs() > limits.jf_points
    {
        faults.push(format!(
            "J&F differs by {:+.3} points, the limit of {precision} is {}",
            scores.difference, limits.jf_points
        ));
    }
    if !found.proves {
        faults.push(format!(
            "masks prove nothing: {} of {} reference masks have {} pixels or more and do not cover \
             the frame, {} are empty on both sides; run clips and weights that give masks",
            found.counting, found.frames, PROOF.least_pixels, found.both_empty
        ));
    }
    faults
}

fn scores(objects: &[ObjectEvidence]) -> Option<Scores> {
    let scored: Vec<_> =
        objects.iter().filter_map(|object| Some((object.quality?, object.reference?))).collect();
    let mean = |pick: &dyn Fn(usize) -> f64| {
        stats::mean(&(0..scored.len()).map(pick).collect::<Vec<_>>()).map(|mean| 100.0 * mean)
    };
    let (jf, reference_jf) = (mean(&|at| scored[at].0.jf)?, mean(&|at| scored[at].1.jf)?);
    let differences = scored.iter().map(|(ours, theirs)| 100.0 * (ours.jf - theirs.jf));
    Some(Scores {
        objects: scored.len(),
        j: mean(&|at| scored[at].0.j)?,
        f: mean(&|at| scored[at].0.f)?,
        jf,
        reference_jf,
        difference: jf - reference_jf,
        largest_difference: differences.max_by(|a, b| a.abs().total_cmp(&b.abs()))?,
    })
}

/// Memories from the side's own masks.
pub(super) const FREE: &str = "free";
/// Memories from the reference's masks.
pub(super) const TEACHER: &str = "teacher";

/// IoU against the number of frames since the prompt, means over objects; `memory` is [`FREE`] or
/// [`TEACHER`].
pub(super) fn drift(
    model: &str,
    side: &str,
    memory: &'static str,
    objects: &[ObjectEvidence],
) -> DriftCurve {
    let mut by_frame: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for object in objects {
        let start = object.frames.first().map_or(0, |frame| frame.frame);
        for frame in &object.frames {
            by_frame.entry(frame.frame.saturating_sub(start)).or_default().push(frame.iou);
        }
    }
    let values = || by_frame.values();
    DriftCurve {
        model: model.to_owned(),
        side: side.to_owned(),
        memory,
        frame: by_frame.keys().copied().collect(),
        iou: values().filter_map(|ious| stats::mean(ious)).collect(),
        lowest: values().filter_map(|ious| stats::min(ious)).collect(),
        objects: values().map(Vec::len).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::agreement::FrameAgreement;
    use super::*;
    use vos::record::{ObjectKey, Quality};

    fn object(start: usize, ious: &[f64], jf: Option<(f64, f64)>) -> ObjectEvidence {
        let frame = |(at, &iou): (usize, &f64)| FrameAgreement {
            frame: start + at,
            iou,
            differing: ((1.0 - iou) * 1000.0) as usize,
            both_empty: false,
            counts: true,
            round: 1,
        };
        let quality = |jf: f64| Quality { j: jf, f: jf, jf, scored_frames: 3 };
        ObjectEvidence {
            key: ObjectKey { video: "v".into(), object: format!("{start}"), tag: "m".into() },
            frames: ious.iter().enumerate().map(frame).collect(),
            quality: jf.map(|(ours, _)| quality(ours)),
            reference: jf.map(|(_, theirs)| quality(theirs)),
            rounds_identical: true,
        }
    }

    #[test]
    fn what_is_close_enough_depends_on_the_precision() {
        let close = [object(0, &[1.0, 0.9955, 1.0, 1.0], Some((0.801, 0.8005)))];
        assert!(judge(&close, "fp16").same, "{:?}", judge(&close, "fp16").faults);
        let fp32 = judge(&close, "fp32");
        assert!(!fp32.same && fp32.faults[0].contains("lowest IoU 0.9955 (v object 0 frame 1"));
        assert!(fp32.faults[1].starts_with("mean IoU 0.998"));
        assert!(judge(&close, "int8").faults[0].contains("no limits"));
    }

    #[test]
    fn scores_that_move_are_a_fault_though_masks_agree() {
        let moved = [
            object(0, &[1.0; 4], Some((0.80, 0.80))),
            object(7, &[1.0; 4], Some((0.797, 0.80))),
            object(9, &[1.0; 4], None),
        ];
        let found = judge(&moved, "fp16");
        assert_eq!(found.faults, ["J&F differs by -0.150 points, the limit of fp16 is 0.1"]);
        let scores = found.scores.unwrap();
        assert_eq!(scores.objects, 2);
        assert!((scores.largest_difference + 0.3).abs() < 1e-9);
    }

    #[test]
    fn masks_that_prove_nothing_are_no_proof() {
        let mut empty = object(0, &[1.0; 20], None);
        empty.frames.iter_mut().for_each(|frame| (frame.counts, frame.both_empty) = (false, true));
        let found = judge(&[empty.clone()], "fp32");
        assert!(!found.same && !found.proves && found.faults.len() == 1);
        assert!(found.faults[0].contains("masks prove nothing: 0 of 20"), "{:?}", found.faults);
        assert!(found.faults[0].contains("20 are empty on both sides"));
        empty.frames[0].counts = true;
        assert!(!judge(&[empty.clone()], "fp32").same);
        empty.frames[1].counts = true;
        assert!(judge(&[empty], "fp32").same, "a tenth of the frames proves something");
        assert!(!judge(&[], "fp32").same);
    }

    #[test]
    fn drift_counts_from_the_prompt() {
        let curve = drift(
            "m",
            "s",
            FREE,
            &[object(0, &[1.0, 0.9, 0.8], None), object(5, &[1.0, 0.7], None)],
        );
        assert_eq!(curve.frame, [0, 1, 2]);
        assert_eq!(curve.objects, [2, 2, 1]);
        assert_eq!(curve.lowest, [1.0, 0.7, 0.8]);
        assert!((curve.iou[1] - 0.8).abs() < 1e-12);
    }
}
