/*!
Mask quality against ground truth: region similarity J, boundary accuracy F and their mean.

There are two evaluators, because published numbers come from both: the Python predecessor's, and
the official one of SA-V, which agrees with DAVIS 2017's except in one case. They differ in the
counted frames, the definition of a boundary, and the treatment of empty and missing masks; see
[`MetricsKind`].
*/

mod boundary;
mod counts;
mod crop;
mod f_measure;
mod nearness;

use std::borrow::Cow;

pub use counts::{Counts, neighbourhood};
use crop::crop;
use serde::{Deserialize, Serialize};

use crate::mask::Mask;
use crate::stats::mean;

/// The evaluator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MetricsKind {
    /// The Python predecessor: every annotated frame counts, also the prompted one; a missing
    /// prediction scores 0 even if the truth is empty; thick boundary, square
    /// neighbourhood.
    #[default]
    Predecessor,
    /// SA-V (`sav_benchmark.py`): the first and the last annotated frame are skipped, and so are
    /// empty frames before the object or a prediction first appears, which DAVIS 2017's evaluator
    /// counts; all else is as there: a missing prediction is an empty one, 255 is background;
    /// boundary of half-pixel differences, disk neighbourhood.
    Official,
}

impl MetricsKind {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Predecessor => "predecessor",
            Self::Official => "official",
        }
    }
}

/// Mask quality of one pass, 0..1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Region similarity (mean IoU), 0..1.
    pub j: f64,
    /// Boundary accuracy (mean F), 0..1.
    pub f: f64,
    /// Their mean, 0..1.
    pub jf: f64,
    /// Frames that were scored.
    pub scored_frames: usize,
}

/// Quality of one frame, 0..1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameScore {
    /// Intersection over union; 1 when both masks are empty.
    pub j: f64,
    /// Boundary F.
    pub f: f64,
}

/// Scores a prediction by the rules of `kind`. A prediction of another size is resized to the
/// truth's (nearest neighbour).
pub fn score_frame(kind: MetricsKind, truth: &Mask, prediction: &Mask) -> FrameScore {
    let prediction = if prediction.same_size(truth) {
        Cow::Borrowed(prediction)
    } else {
        Cow::Owned(prediction.resized_nearest(truth.width(), truth.height()))
    };
    let diagonal = f_measure::diagonal(truth.width(), truth.height());
    let Some((truth, prediction)) = crop(truth, &prediction) else {
        return FrameScore { j: 1.0, f: 1.0 };
    };
    let f = f_measure::f(kind, &truth, &prediction, diagonal);
    FrameScore { j: truth.iou(&prediction), f }
}

/// Scores one object's frames in order; it stores numbers, no masks.
pub struct Scorer {
    kind: MetricsKind,
    j: Vec<f64>,
    f: Vec<f64>,
    /// Annotated frames so far.
    annotated: usize,
    /// Official: the latest frame, which does not count if it is the last.
    latest: Option<Latest>,
    /// Official: the object, or a prediction of it, has been seen.
    appeared: bool,
    /// Official: the truth has shown the object.
    in_truth: bool,
}

/// A scored frame that may be the last.
struct Latest {
    score: FrameScore,
    truth_empty: bool,
    prediction_empty: bool,
}

impl Scorer {
    /// A scorer for one object.
    pub fn new(kind: MetricsKind) -> Self {
        Self {
            kind,
            j: Vec::new(),
            f: Vec::new(),
            annotated: 0,
            latest: None,
            appeared: false,
            in_truth: false,
        }
    }

    /// Takes the next annotated frame that was processed, in order, the prompted one included.
    ///
    /// `truth` is `None` when the annotation cannot be read (the frame is then left out),
    /// `prediction` when the model gave no mask.
    pub fn push(&mut self, truth: Option<&Mask>, prediction: Option<&Mask>) {
        match self.kind {
            MetricsKind::Predecessor => self.push_predecessor(truth, prediction),
            MetricsKind::Official => self.push_official(truth, prediction),
        }
        self.annotated += 1;
    }

    /// The means over all frames that count; `None` without any.
    pub fn finish(self) -> Option<Quality> {
        if self.kind == MetricsKind::Official && !self.in_truth {
            // The evaluator reports an object only if its truth shows it.
            return None;
        }
        let (j, f) = (mean(&self.j)?, mean(&self.f)?);
        Some(Quality { j, f, jf: (j + f) / 2.0, scored_frames: self.j.len() })
    }

    fn push_predecessor(&mut self, truth: Option<&Mask>, prediction: Option<&Mask>) {
        let Some(truth) = truth else { return };
        self.count(match prediction {
            Some(prediction) => score_frame(self.kind, truth, prediction),
            None => FrameScore { j: 0.0, f: 0.0 },
        });
    }

    fn push_official(&mut self, truth: Option<&Mask>, prediction: Option<&Mask>) {
        if let Some(latest) = self.latest.take() {
            self.appeared |= !latest.truth_empty || !latest.prediction_empty;
            self.in_truth |= !latest.truth_empty;
            if self.appeared {
                self.count(latest.score);
            }
        }
        let Some(truth) = truth.filter(|_| self.annotated > 0) else { return };
        let missing;
        let prediction = match prediction {
            Some(prediction) => prediction,
            None => {
                missing = Mask::new(truth.width(), truth.height());
                &missing
            }
        };
        self.latest = Some(Latest {
            score: score_frame(self.kind, truth, prediction),
            truth_empty: truth.is_empty(),
            prediction_empty: prediction.is_empty(),
        });
    }

    fn count(&mut self, score: FrameScore) {
        self.j.push(score.j);
        self.f.push(score.f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(at: usize) -> Mask {
        Mask::from_fn(40, 30, |x, y| (at..at + 8).contains(&x) && (5..15).contains(&y))
    }

    fn quality(kind: MetricsKind, frames: &[(Option<&Mask>, Option<&Mask>)]) -> Option<Quality> {
        let mut scorer = Scorer::new(kind);
        for &(truth, prediction) in frames {
            scorer.push(truth, prediction);
        }
        scorer.finish()
    }

    #[test]
    fn official_skips_the_first_and_the_last_frame() {
        let (good, bad) = (square(3), square(30));
        let frames = [
            (Some(&good), Some(&bad)),
            (Some(&good), Some(&good)),
            (Some(&good), None),
            (Some(&good), Some(&bad)),
        ];
        let official = quality(MetricsKind::Official, &frames).unwrap();
        assert_eq!((official.j, official.f, official.scored_frames), (0.5, 0.5, 2));
        let predecessor = quality(MetricsKind::Predecessor, &frames).unwrap();
        assert_eq!((predecessor.j, predecessor.scored_frames), (0.25, 4));
        assert_eq!(quality(MetricsKind::Official, &frames[..2]), None);
    }

    #[test]
    fn a_missing_prediction_of_nothing_is_right_only_officially() {
        let (good, empty) = (square(3), Mask::new(40, 30));
        let frames = [
            (Some(&good), Some(&good)),
            (Some(&good), Some(&good)),
            (Some(&empty), None),
            (Some(&empty), Some(&empty)),
            (Some(&good), Some(&good)),
        ];
        assert_eq!(quality(MetricsKind::Official, &frames).unwrap().jf, 1.0);
        let predecessor = quality(MetricsKind::Predecessor, &frames).unwrap();
        assert_eq!((predecessor.j, predecessor.f), (0.8, 0.8));
    }

    #[test]
    fn official_does_not_count_empty_frames_before_the_object_appears() {
        let (good, empty) = (square(3), Mask::new(40, 30));
        let frames = [
            (Some(&good), Some(&good)),
            (Some(&empty), Some(&empty)),
            (Some(&good), Some(&empty)),
            (Some(&empty), Some(&empty)),
            (Some(&good), Some(&good)),
        ];
        let found = quality(MetricsKind::Official, &frames).unwrap();
        assert_eq!((found.j, found.scored_frames), (0.5, 2));
        let never = [&frames[0], &frames[1], &frames[3], &frames[4]].map(|&frame| frame);
        assert_eq!(quality(MetricsKind::Official, &never), None);
    }

    #[test]
    fn an_unreadable_truth_is_left_out() {
        let good = square(3);
        let frames = [(Some(&good), Some(&good)), (None, Some(&good)), (Some(&good), None)];
        let found = quality(MetricsKind::Predecessor, &frames).unwrap();
        assert_eq!((found.j, found.scored_frames), (0.5, 2));
        assert_eq!(quality(MetricsKind::Predecessor, &[(None, None)]), None);
    }

    #[test]
    fn a_prediction_of_another_size_is_resized() {
        let small = Mask::from_fn(20, 15, |x, y| (2..6).contains(&x) && (3..8).contains(&y));
        let large = Mask::from_fn(40, 30, |x, y| (4..12).contains(&x) && (6..16).contains(&y));
        for kind in [MetricsKind::Predecessor, MetricsKind::Official] {
            assert_eq!(score_frame(kind, &large, &small), FrameScore { j: 1.0, f: 1.0 });
        }
    }
}
