/*!
Memory that keeps growing: a hint at a leak.

The first quarter of the samples is start-up and does not count. The rest is cut into three; memory
grows where each third's median lies above the one before it, by similar steps, and the whole growth
is well above the scatter. A program that loads a model late makes one step and is not meant.
*/

use serde::Serialize;

use vos::stats::{median, median_absolute_deviation};

/// Samples that it takes to tell.
const LEAST_SAMPLES: usize = 24;
/// Growth below this, GB, is no leak.
const LEAST_GROWTH_GB: f64 = 0.05;
/// Growth over the scatter (median absolute deviation) within the thirds. A straight line has 8.
const LEAST_OVER_SCATTER: f64 = 5.0;
/// Each of the two steps has at least this part of the growth.
const LEAST_STEP: f64 = 0.25;

/// A series that keeps growing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// Between the first and the last third, GB.
    pub grown_gb: f64,
    /// GB a minute.
    pub gb_per_minute: f64,
}

/// Growth of `(s, GB)` in the order of time; `None` where there is none, or too little to tell by.
pub fn growth(series: &[(f64, f64)]) -> Option<Growth> {
    let steady = &series[series.len() / 4..];
    if series.len() < LEAST_SAMPLES {
        return None;
    }
    let third = steady.len() / 3;
    let part = |at: usize| &steady[at * third..(at + 1) * third];
    let values = |at: usize| part(at).iter().map(|(_, gb)| *gb).collect::<Vec<_>>();
    let moment = |at: usize| median(&part(at).iter().map(|(s, _)| *s).collect::<Vec<_>>());
    let [first, second, last] = [values(0), values(1), values(2)];
    let (low, middle, high) = (median(&first)?, median(&second)?, median(&last)?);
    let grown_gb = high - low;
    let scatter = [&first, &second, &last].map(|values| median_absolute_deviation(values));
    let scatter = scatter.into_iter().flatten().fold(0.0, f64::max);
    let least_step = LEAST_STEP * grown_gb;
    let steady_steps = middle - low >= least_step && high - middle >= least_step;
    let minutes = (moment(2)? - moment(0)?) / 60.0;
    (grown_gb >= LEAST_GROWTH_GB
        && grown_gb >= LEAST_OVER_SCATTER * scatter
        && steady_steps
        && minutes > 0.0)
        .then(|| Growth { grown_gb, gb_per_minute: grown_gb / minutes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(count: usize, gb: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..count).map(|at| (at as f64, gb(at as f64))).collect()
    }

    #[test]
    fn a_leak_is_seen_with_its_slope() {
        let found = growth(&series(240, |s| 2.0 + s / 60.0)).unwrap();
        assert!((found.gb_per_minute - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.grown_gb - 2.0).abs() < 1e-9, "{found:?}");
        // Scatter of a tenth of the growth does not hide it.
        let noisy = series(240, |s| 2.0 + s / 60.0 + if s % 2.0 == 0.0 { 0.1 } else { -0.1 });
        assert!((growth(&noisy).unwrap().gb_per_minute - 1.0).abs() < 0.1);
    }

    #[test]
    fn what_is_no_leak_is_left_alone() {
        assert_eq!(growth(&series(240, |_| 3.0)), None);
        assert_eq!(growth(&series(240, |s| 3.0 - s / 60.0)), None, "it shrinks");
        assert_eq!(growth(&series(23, |s| s)), None, "too few");
        assert_eq!(growth(&series(240, |s| if s < 50.0 { s } else { 50.0 })), None, "start-up");
        assert_eq!(growth(&series(240, |s| if s < 150.0 { 1.0 } else { 4.0 })), None, "one step");
        assert_eq!(growth(&series(240, |s| s * 1e-4)), None, "too little to mind");
        let waves = series(240, |s| 5.0 + (s / 9.0).sin() + s * 1e-3);
        assert_eq!(growth(&waves), None, "scatter");
        assert_eq!(growth(&[]), None);
    }
}
