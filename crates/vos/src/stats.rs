/*!
Basic statistics as pure functions of slices; every result has the unit of its input.

An empty slice has no statistic: all functions return `None` for it. Sums use numpy's order of
pairwise summation, because files that the predecessor computed with numpy must have the same last
digit.
*/

use serde::{Deserialize, Serialize};

/// Times of repeated runs, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// How many runs.
    pub runs: usize,
    /// The middle one.
    pub median_ms: f64,
    /// 5th percentile.
    pub p5_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
}

impl Timing {
    /// Of the times of single runs; none of none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples);
        Some(Self {
            runs: samples.len(),
            median_ms: median(samples)?,
            p5_ms: percentile_of_sorted(&sorted, 5.0)?,
            p95_ms: percentile_of_sorted(&sorted, 95.0)?,
        })
    }
}

/// A sorted copy; NaNs go last.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut copy = values.to_vec();
    copy.sort_unstable_by(f64::total_cmp);
    copy
}

/// The `percent`-th percentile (0..100) of values that are sorted ascending.
///
/// Linear interpolation between closest ranks: type 7 of Hyndman and Fan, *Sample Quantiles in
/// Statistical Packages* (1996), numpy's default.
pub fn percentile_of_sorted(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = percent.clamp(0.0, 100.0) / 100.0 * last as f64;
    let below = rank.floor() as usize;
    let above = (below + 1).min(last);
    let (low, high) = (sorted[below], sorted[above]);
    let part = rank - below as f64;
    // From the nearer end, as in numpy, so that the last digit agrees and the result stays between
    // the two values.
    let from_low = low + (high - low) * part;
    let from_high = high - (high - low) * (1.0 - part);
    Some(if part < 0.5 { from_low } else { from_high })
}

/// The `percent`-th percentile (0..100) of values in any order; see [`percentile_of_sorted`].
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    percentile_of_sorted(&sorted(values), percent)
}

/// Arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| pairwise_sum(values) / values.len() as f64)
}

/// Standard deviation of the population (divided by n, not n − 1).
pub fn population_std(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: Vec<f64> = values.iter().map(|value| (value - mean) * (value - mean)).collect();
    Some((pairwise_sum(&squares) / values.len() as f64).sqrt())
}

/// The middle value, or the mean of the two middle values.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// Median absolute deviation from the median, unscaled.
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    median(&values.iter().map(|value| (value - centre).abs()).collect::<Vec<_>>())
}

/// Smallest value.
pub fn min(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

/// Largest value.
pub fn max(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// Pairwise sum (numpy's blocks: eight accumulators up to 128 values, recursion above), whose
/// rounding error grows with log n instead of n.
fn pairwise_sum(values: &[f64]) -> f64 {
    const BLOCK: usize = 128;
    if values.len() < 8 {
        return values.iter().sum();
    }
    if values.len() > BLOCK {
        let half = values.len() / 2 / 8 * 8;
        return pairwise_sum(&values[..half]) + pairwise_sum(&values[half..]);
    }
    let (eights, rest) = values.as_chunks::<8>();
    let mut lane = eights[0];
    for chunk in &eights[1..] {
        for (sum, value) in lane.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    let sum =
        ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    rest.iter().fold(sum, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_interpolate_between_ranks() {
        let values = [40.0, 10.0, 20.0, 30.0];
        assert_eq!(percentile(&values, 0.0), Some(10.0));
        assert_eq!(percentile(&values, 50.0), Some(25.0));
        assert_eq!(percentile(&values, 90.0), Some(37.0));
        assert_eq!(percentile(&values, 100.0), Some(40.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn spread_and_centre_of_a_known_sample() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), Some(5.0));
        assert_eq!(population_std(&values), Some(2.0));
        assert_eq!(median(&values), Some(4.5));
        assert_eq!(median_absolute_deviation(&values), Some(0.5));
        assert_eq!((min(&values), max(&values)), (Some(2.0), Some(9.0)));
        assert_eq!((mean(&[]), population_std(&[]), min(&[])), (None, None, None));
    }

    proptest! {
        #[test]
        fn a_percentile_lies_within_the_values_and_grows(
            values in prop::collection::vec(-1e6..1e6f64, 1..300), a in 0.0..100.0, b in 0.0..100.0,
        ) {
            let (low, high) = (f64::min(a, b), f64::max(a, b));
            let (p, q) = (percentile(&values, low).unwrap(), percentile(&values, high).unwrap());
            prop_assert!(p <= q + 1e-9);
            prop_assert!(min(&values).unwrap() <= p && q <= max(&values).unwrap());
        }

        #[test]
        fn the_sum_by_halves_agrees_with_the_plain_one(
            values in prop::collection::vec(-1e3..1e3f64, 1..1000),
        ) {
            let plain: f64 = values.iter().sum();
            prop_assert!((pairwise_sum(&values) - plain).abs() < 1e-6);
        }
    }
}
