/*!
Boundary accuracy F: how much of each boundary lies near the other one.

After Perazzi et al., *A Benchmark Dataset and Evaluation Methodology for Video Object Segmentation*
(CVPR 2016); the two evaluators differ in boundary, neighbourhood, radius and empty cases.
*/

use super::boundary::{gradient, half_pixel};
use super::nearness::count_near;
use crate::mask::Mask;
use crate::morphology::{disk, square};

/// Neighbourhood as a part of the image diagonal.
const TOLERANCE: f64 = 0.008;

/// F as the Python predecessor computes it; `diagonal` is the image's, in pixels, as the masks may be
/// cut out of it.
pub(super) fn predecessor(truth: &Mask, prediction: &Mask, diagonal: f64) -> f64 {
    match (truth.is_empty(), prediction.is_empty()) {
        (true, true) => return 1.0,
        (false, false) => {}
        _ => return 0.0,
    }
    let radius = (TOLERANCE * diagonal).round_ties_even().max(1.0) as usize;
    let matched = Matched::count(&gradient(truth), &gradient(prediction), &square(radius));
    match (matched.truth, matched.prediction) {
        (0, 0) => 1.0,
        (0, _) | (_, 0) => 0.0,
        _ => matched.f(),
    }
}

/// F as DAVIS 2017 and SA-V compute it; `diagonal` as in [`predecessor`].
pub(super) fn official(truth: &Mask, prediction: &Mask, diagonal: f64) -> f64 {
    let radius = (TOLERANCE * diagonal).ceil() as usize;
    let matched = Matched::count(&half_pixel(truth), &half_pixel(prediction), &disk(radius));
    match (matched.truth, matched.prediction) {
        (0, 0) => 1.0,
        // One of precision and recall is defined as 1 here, the other as 0.
        (0, _) | (_, 0) => 0.0,
        _ => matched.f(),
    }
}

/// Boundary pixels, and those of them that lie near the other boundary.
struct Matched {
    truth: usize,
    prediction: usize,
    truth_near: usize,
    prediction_near: usize,
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

    /// Harmonic mean of precision and recall, in the reference's order of operations.
    fn f(&self) -> f64 {
        let precision = self.prediction_near as f64 / self.prediction as f64;
        let recall = self.truth_near as f64 / self.truth as f64;
        if precision + recall == 0.0 {
            return 0.0;
        }
        2.0 * precision * recall / (precision + recall)
    }
}
