/*!
The integers of a score, for counting elsewhere than on the CPU.
*/

use super::f_measure::{self, Matched};
use super::{FrameScore, MetricsKind};
use crate::mask::Mask;

/// Pixel counts of a ground truth and a prediction of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Foreground of both.
    pub intersection: usize,
    /// Foreground of either.
    pub union: usize,
    /// Foreground of the truth.
    pub truth: usize,
    /// Foreground of the prediction.
    pub prediction: usize,
    /// Boundary of the truth.
    pub truth_boundary: usize,
    /// Boundary of the prediction.
    pub prediction_boundary: usize,
    /// Boundary of the truth near the prediction's.
    pub truth_near: usize,
    /// Boundary of the prediction near the truth's.
    pub prediction_near: usize,
}

impl Counts {
    /// Counts on the CPU over the whole masks.
    ///
    /// # Panics
    /// The masks have different sizes.
    pub fn of(kind: MetricsKind, truth: &Mask, prediction: &Mask) -> Self {
        let (intersection, union) = truth.intersection_union(prediction);
        let matched = match (truth.width(), truth.height()) {
            (0, _) | (_, 0) => Matched::default(),
            (width, height) => {
                let near = f_measure::neighbourhood(kind, f_measure::diagonal(width, height));
                f_measure::matched(kind, truth, prediction, &near)
            }
        };
        Self {
            intersection,
            union,
            truth: truth.area(),
            prediction: prediction.area(),
            truth_boundary: matched.truth,
            prediction_boundary: matched.prediction,
            truth_near: matched.truth_near,
            prediction_near: matched.prediction_near,
        }
    }

    /// The score that [`super::score_frame`] gives masks with these counts.
    pub fn score(&self, kind: MetricsKind) -> FrameScore {
        if self.union == 0 {
            return FrameScore { j: 1.0, f: 1.0 };
        }
        let matched = Matched {
            truth: self.truth_boundary,
            prediction: self.prediction_boundary,
            truth_near: self.truth_near,
            prediction_near: self.prediction_near,
        };
        let one_is_empty = self.truth == 0 || self.prediction == 0;
        let f = match kind {
            MetricsKind::Predecessor if one_is_empty => 0.0,
            _ => matched.f(),
        };
        FrameScore { j: self.intersection as f64 / self.union as f64, f }
    }
}

/// The element within which two boundaries match, for images of this size: its half-width at each
/// distance from its centre's row, as in [`crate::morphology`].
pub fn neighbourhood(kind: MetricsKind, width: usize, height: usize) -> Vec<usize> {
    f_measure::neighbourhood(kind, f_measure::diagonal(width, height))
}

#[cfg(test)]
mod tests {
    use super::super::score_frame;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_give_the_score_of_the_masks(
            width in 1..200usize, height in 1..80usize, seed in any::<u64>(), rarity in 1..60u64,
            which in 0..4u8,
        ) {
            let mut state = seed;
            let mut blob = |empty: bool| Mask::from_fn(width, height, |_, _| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                !empty && (state >> 33) % rarity == 0
            });
            let (truth, prediction) = (blob(which & 1 == 1), blob(which & 2 == 2));
            for kind in [MetricsKind::Predecessor, MetricsKind::Official] {
                let counts = Counts::of(kind, &truth, &prediction);
                prop_assert_eq!(counts.score(kind), score_frame(kind, &truth, &prediction));
            }
        }
    }
}
