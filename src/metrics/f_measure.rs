/*!
Boundary accuracy F: how much of each boundary lies near the other one.

After Perazzi et al., *A Benchmark Dataset and Evaluation Methodology for Video Object Segmentation*
(CVPR 2016); the two evaluators differ in boundary, neighbourhood, radius and empty cases.
*/

use super::boundary::{gradient, half_pixel};
use crate::mask::Mask;
use crate::morphology::{dilate, disk, square};

/// Neighbourhood as a part of the image diagonal.
const TOLERANCE: f64 = 0.008;

/// F as the Python predecessor computes it.
pub(super) fn predecessor(truth: &Mask, prediction: &Mask) -> f64 {
    match (truth.is_empty(), prediction.is_empty()) {
        (true, true) => return 1.0,
        (false, false) => {}
        _ => return 0.0,
    }
    let radius = (TOLERANCE * diagonal(truth)).round_ties_even().max(1.0) as usize;
    let matched = Matched::count(&gradient(truth), &gradient(prediction), &square(radius));
    match (matched.truth, matched.prediction) {
        (0, 0) => 1.0,
        (0, _) | (_, 0) => 0.0,
        _ => matched.f(),
    }
}

/// F as DAVIS 2017 and SA-V compute it.
pub(super) fn official(truth: &Mask, prediction: &Mask) -> f64 {
    let radius = (TOLERANCE * diagonal(truth)).ceil() as usize;
    let matched = Matched::count(&half_pixel(truth), &half_pixel(prediction), &disk(radius));
    match (matched.truth, matched.prediction) {
        (0, 0) => 1.0,
        // One of precision and recall is defined as 1 here, the other as 0.
        (0, _) | (_, 0) => 0.0,
        _ => matched.f(),
    }
}

fn diagonal(mask: &Mask) -> f64 {
    ((mask.width().pow(2) + mask.height().pow(2)) as f64).sqrt()
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
        let (truth_near, prediction_near) = (
            overlap(truth, &dilate(prediction, neighbourhood)),
            overlap(prediction, &dilate(truth, neighbourhood)),
        );
        Self { truth: truth.area(), prediction: prediction.area(), truth_near, prediction_near }
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

fn overlap(a: &Mask, b: &Mask) -> usize {
    a.words().iter().zip(b.words()).map(|(a, b)| (a & b).count_ones() as usize).sum()
}
