/*!
The interval of a ratio of speeds: a percentile bootstrap over rounds and clips.

Frames of one pass are not independent, so frames are never resampled. Clips are drawn (the same for
both sides, because a clip's difficulty is common to them), and rounds (in pairs if both sides have
equally many, because round k of one was measured next to round k of the other). The ratio of each
draw is taken over the summed frames and times. See Efron and Tibshirani, *An Introduction to the
Bootstrap* (1993), chapter 13.
*/

use crate::compare::thresholds::{CONFIDENCE, REPLICATES, SEED};
use vos::dataset::Mt19937;
use vos::stats;

/// Frames and time of one clip in one round of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// Frames.
    pub frames: f64,
    /// Their time, s.
    pub seconds: f64,
}

/// Rounds of cells, one cell for each clip, in the same order in every round.
pub type Rounds = Vec<Vec<Cell>>;

/// The central part of the replicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Frames per second of `a` over those of `b`, all rounds and clips together.
pub fn ratio(a: &Rounds, b: &Rounds) -> Option<f64> {
    let all = |rounds: &Rounds| {
        rounds.iter().flatten().fold(Cell::default(), |sum, cell| Cell {
            frames: sum.frames + cell.frames,
            seconds: sum.seconds + cell.seconds,
        })
    };
    of(all(a), all(b))
}

/// Frames per second of all rounds and clips together.
pub(super) fn rate(rounds: &Rounds) -> Option<f64> {
    let (frames, seconds) = rounds
        .iter()
        .flatten()
        .fold((0.0, 0.0), |(f, s), cell| (f + cell.frames, s + cell.seconds));
    (seconds > 0.0).then(|| frames / seconds)
}

fn of(a: Cell, b: Cell) -> Option<f64> {
    let ratio = (a.frames / a.seconds) / (b.frames / b.seconds);
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// The interval of the ratio; `None` for one round of one clip, which leaves nothing to draw.
///
/// All rounds must have equally many cells. The seed is fixed: the same numbers give the same
/// interval.
pub fn interval(a: &Rounds, b: &Rounds) -> Option<Interval> {
    let clips = a.first()?.len();
    let same = a.iter().chain(b).all(|round| round.len() == clips);
    let fewest = a.len().min(b.len());
    if !same || clips == 0 || fewest == 0 || (clips == 1 && fewest == 1) {
        return None;
    }
    let paired = a.len() == b.len();
    let mut random = Mt19937::new(SEED);
    let mut draw = |count: usize| -> Vec<usize> {
        let bound = u32::try_from(count).unwrap_or(u32::MAX);
        (0..count).map(|_| random.below(bound) as usize).collect()
    };
    let sum = |rounds: &Rounds, which: &[usize], clips: &[usize]| {
        let mut all = Cell::default();
        for &round in which {
            for &clip in clips {
                let cell = rounds[round][clip];
                all.frames += cell.frames;
                all.seconds += cell.seconds;
            }
        }
        all
    };
    let mut ratios: Vec<f64> = Vec::with_capacity(REPLICATES);
    for _ in 0..REPLICATES {
        let drawn = draw(clips);
        let left = draw(a.len());
        let right = if paired { left.clone() } else { draw(b.len()) };
        ratios.extend(of(sum(a, &left, &drawn), sum(b, &right, &drawn)));
    }
    let ratios = stats::sorted(&ratios);
    let tail = 100.0 * (1.0 - CONFIDENCE) / 2.0;
    Some(Interval {
        low: stats::percentile_of_sorted(&ratios, tail)?,
        high: stats::percentile_of_sorted(&ratios, 100.0 - tail)?,
    })
}

/// The interval of the frames per second of `rounds`: as [`interval`], against one frame a second.
pub fn fps_interval(rounds: &Rounds) -> Option<Interval> {
    let unit = Cell { frames: 1.0, seconds: 1.0 };
    interval(rounds, &rounds.iter().map(|round| vec![unit; round.len()]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rounds(seconds: &[&[f64]]) -> Rounds {
        let cell = |&seconds: &f64| Cell { frames: 50.0, seconds };
        seconds.iter().map(|round| round.iter().map(cell).collect()).collect()
    }

    #[test]
    fn the_ratio_is_of_sums_and_not_a_mean_of_ratios() {
        let (a, b) = (rounds(&[&[1.0, 1.0]]), rounds(&[&[1.0, 3.0]]));
        assert_eq!(ratio(&a, &b), Some(2.0));
        assert_eq!(ratio(&a, &rounds(&[&[0.0, 0.0]])), None);
    }

    #[test]
    fn a_common_factor_has_no_spread() {
        let (a, b) = (rounds(&[&[1.0, 2.0], &[1.5, 3.5]]), rounds(&[&[4.0, 8.0], &[6.0, 14.0]]));
        assert_eq!(interval(&a, &b), Some(Interval { low: 4.0, high: 4.0 }));
    }

    #[test]
    fn one_round_of_one_clip_says_nothing() {
        assert_eq!(interval(&rounds(&[&[1.0]]), &rounds(&[&[2.0]])), None);
        assert!(interval(&rounds(&[&[1.0, 1.1]]), &rounds(&[&[2.0, 2.0]])).is_some());
        assert_eq!(interval(&rounds(&[&[1.0, 1.0]]), &rounds(&[&[2.0]])), None, "other clips");
        assert_eq!(interval(&vec![], &vec![]), None);
    }

    #[test]
    fn two_rounds_give_the_three_ratios_that_can_be_drawn() {
        // One clip, two paired rounds: (1, 1), (1, 2) or (2, 2), a quarter of the replicates each
        // at the ends.
        let (a, b) = (rounds(&[&[1.0], &[1.0]]), rounds(&[&[2.0], &[4.0]]));
        assert_eq!(interval(&a, &b), Some(Interval { low: 2.0, high: 4.0 }));
        assert_eq!(ratio(&a, &b), Some(3.0));
    }

    #[test]
    fn many_rounds_come_near_the_normal_interval() {
        // b's seconds are 10 with a known spread. The ratio's mean is near 10 and its standard
        // error is s / sqrt(n).
        let n = 64;
        let noise = |i: usize| ((i * 37 % n) as f64 / (n - 1) as f64 - 0.5) * 2.0;
        let a: Rounds = (0..n).map(|_| vec![Cell { frames: 10.0, seconds: 1.0 }]).collect();
        let times: Vec<f64> = (0..n).map(|i| 10.0 + noise(i)).collect();
        let b = times.iter().map(|&seconds| vec![Cell { frames: 10.0, seconds }]).collect();
        let found = interval(&a, &b).unwrap();
        let error = 1.96 * stats::population_std(&times).unwrap() / (n as f64).sqrt();
        let centre = stats::mean(&times).unwrap();
        assert!((found.low - (centre - error)).abs() < 0.05 * error, "{found:?} {error}");
        assert!((found.high - (centre + error)).abs() < 0.05 * error, "{found:?} {error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn the_interval_lies_within_the_extremes_and_is_the_same_again(
            a in prop::collection::vec(prop::collection::vec(0.1..10.0f64, 3), 1..5),
            b in prop::collection::vec(prop::collection::vec(0.1..10.0f64, 3), 1..5),
            factor in 0.5..4.0f64,
        ) {
            let make = |rows: &[Vec<f64>], factor: f64| -> Rounds {
                rows.iter().map(|row| row.iter().map(|&s| Cell { frames: 30.0, seconds: s * factor }).collect()).collect()
            };
            let (left, right) = (make(&a, 1.0), make(&b, 1.0));
            let found = interval(&left, &right).unwrap();
            prop_assert_eq!(Some(found), interval(&left, &right));
            let ends = |rows: &[Vec<f64>]| {
                let all: Vec<f64> = rows.concat();
                (stats::min(&all).unwrap(), stats::max(&all).unwrap())
            };
            let ((a_low, a_high), (b_low, b_high)) = (ends(&a), ends(&b));
            prop_assert!(found.low <= found.high);
            prop_assert!(found.low >= b_low / a_high - 1e-9 && found.high <= b_high / a_low + 1e-9);
            // A slower baseline only scales the interval.
            let slower = interval(&left, &make(&b, factor)).unwrap();
            prop_assert!((slower.low - factor * found.low).abs() < 1e-9 * slower.low.max(1.0));
            prop_assert!((slower.high - factor * found.high).abs() < 1e-9 * slower.high.max(1.0));
        }
    }
}
