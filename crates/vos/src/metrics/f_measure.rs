/*!
Boundary accuracy F: the parts of each boundary near the other one.

After Perazzi et al., *A Benchmark Dataset and Evaluation Methodology for Video Object Segmentation*
(CVPR 2016). The two evaluators differ in boundary, neighbourhood, radius and empty cases.
*/

use super::MetricsKind;
use super::boundary::{gradient, half_pixel};
use super::nearness::count_near;
use crate::mask::Mask;
use crate::morphology::{disk, square};

/// Neighbourhood as a fraction of the image diagonal.
const TOLERANCE: f64 = 0.008;

/// F of two masks, not both empty; `diagonal` is the image's, in pixels, because the masks may be
/// cropped.
pub(super) fn f(kind: MetricsKind, truth: &Mask, prediction: &Mask, diagonal: f64) -> f64 {
    if kind == MetricsKind::Predecessor && (truth.is_empty() || prediction.is_empty()) {
        return 0.0;
    }
    matched(kind, truth, prediction, &neighbourhood(kind, diagonal)).f()
}

/// The image's diagonal, pixels.
pub(super) fn diagonal(width: usize, height: usize) -> f64 {
    ((width.pow(2) + height.pow(2)) as f64).sqrt()
}

/// Half-widths of the element within which boundaries match.
pub(super) fn neighbourhood(kind: MetricsKind, diagonal: f64) -> Vec<usize> {
    match kind {
        MetricsKind::Predecessor => {
            square((TOLERANCE * diagonal).round_ties_even().max(1.0) as usize)
        }
        MetricsKind::Official => disk((TOLERANCE * diagonal).ceil() as usize),
    }
}

/// Counts the boundaries of both masks, and their parts near the other boundary.
pub(super) fn matched(
    kind: MetricsKind,
    truth: &Mask,
    prediction: &Mask,
    neighbourhood: &[usize],
) -> Matched {
    let boundary = match kind {
        MetricsKind::Predecessor => gradient,
        MetricsKind::Official => half_pixel,
    };
    Matched::count(&boundary(truth), &boundary(prediction), neighbourhood)
}

/// Boundary pixels, and those near the other boundary.
#[derive(Default)]
pub(super) struct Matched {
    pub truth: usize,
    pub prediction: usize,
    pub truth_near: usize,
    pub prediction_near: usize,
}

impl Matched {
    fn count(truth: &Mask, prediction: &Mask, neighbourhood: &[usize]) -> Self {
        Self {
            truth: truth.area(),
            prediction: prediction.area(),
            truth_near: count_near(truth, prediction, neighbourhood),
            prediction_near: count_near(prediction, truth, neighbourhood),
        }
    }

    /// Harmonic mean of precision and recall, in the reference's order of operations. Without any
    /// boundary it is 1; with one boundary only, one of precision and recall counts as 1, the other
    /// as 0.
    pub fn f(&self) -> f64 {
        match (self.truth, self.prediction) {
            (0, 0) => return 1.0,
            (0, _) | (_, 0) => return 0.0,
            _ => {}
        }
        let precision = self.prediction_near as f64 / self.prediction as f64;
        let recall = self.truth_near as f64 / self.truth as f64;
        if precision + recall == 0.0 {
            return 0.0;
        }
        2.0 * precision * recall / (precision + recall)
    }
}
