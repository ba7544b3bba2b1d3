/*!
Whether a series of memory readings keeps growing: its slope, with a confidence interval.

The first quarter of the readings is start-up and does not count. The rest is cut into twelve parts
of equal count, and the slope from each part's median to the next one's is one observation. The
interval is Student's, over these eleven slopes. Readings that follow one another are not
independent, so a straight line through all of them would have too small an interval: a model that
is loaded late would pass for a leak. Here that is one slope of eleven, and the interval holds zero.
*/

use serde::{Deserialize, Serialize};

use crate::stats::{mean, median};

/// Readings that it takes to tell.
pub const LEAST_READINGS: usize = 16;
/// Parts of the readings after start-up.
const PARTS: usize = 12;
/// Student's 97.5 % quantile with ten degrees of freedom: eleven slopes, less their mean.
const STUDENT: f64 = 2.228;

/// The slope of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Mean slope, readings' unit by the axis's unit.
    pub slope: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
    /// From the first part's median to the last one's, readings' unit.
    pub grown: f64,
}

impl Trend {
    /// Of readings as (axis, value), the axis rising; `None` of too few.
    pub fn of(series: &[(f64, f64)]) -> Option<Self> {
        if series.len() < LEAST_READINGS {
            return None;
        }
        let steady = &series[series.len() / 4..];
        let part = |at: usize| {
            let part = &steady[at * steady.len() / PARTS..(at + 1) * steady.len() / PARTS];
            let of =
                |pick: fn(&(f64, f64)) -> f64| median(&part.iter().map(pick).collect::<Vec<_>>());
            Some((of(|reading| reading.0)?, of(|reading| reading.1)?))
        };
        let points: Vec<(f64, f64)> = (0..PARTS).map(part).collect::<Option<_>>()?;
        let slopes: Vec<f64> = points
            .windows(2)
            .map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0))
            .collect();
        let slope = mean(&slopes).filter(|slope| slope.is_finite())?;
        let count = slopes.len() as f64;
        let squares = slopes.iter().map(|one| (one - slope).powi(2)).sum::<f64>();
        let half = STUDENT * (squares / (count - 1.0) / count).sqrt();
        let (first, last) = (points.first()?.1, points.last()?.1);
        Some(Self { slope, low: slope - half, high: slope + half, grown: last - first })
    }

    /// Whether it is a leak: the interval lies above zero, and at least `least` was added.
    pub fn is_leak(&self, least: f64) -> bool {
        self.low > 0.0 && self.grown >= least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(count: usize, value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..count).map(|at| (at as f64, value(at as f64))).collect()
    }

    fn leaks(series: &[(f64, f64)], least: f64) -> bool {
        Trend::of(series).is_some_and(|trend| trend.is_leak(least))
    }

    #[test]
    fn a_leak_is_seen_with_its_slope_and_interval() {
        let found = Trend::of(&series(240, |s| 2.0 + s / 60.0)).unwrap();
        assert!((found.slope - 1.0 / 60.0).abs() < 1e-9, "{found:?}");
        assert!(found.high - found.low < 1e-9, "a straight line has no scatter: {found:?}");
        assert!((found.grown - 165.0 / 60.0).abs() < 1e-9 && found.is_leak(2.0), "{found:?}");
        // Scatter widens the interval and does not hide the leak.
        let noise = |s: f64| 0.1 * ((s * 12.9898).sin() * 43758.5453).fract();
        let noisy = Trend::of(&series(240, |s| 2.0 + s / 60.0 + noise(s))).unwrap();
        assert!(noisy.low < 1.0 / 60.0 && noisy.high > 1.0 / 60.0 && noisy.low > 0.0, "{noisy:?}");
        assert!(noisy.high - noisy.low > 1e-4, "{noisy:?}");
        // One reading an object, each object of another size.
        let sizes = [0.0, 0.3, 0.1];
        assert!(leaks(&series(48, |at| 5.0 + at * 0.1 + sizes[at as usize % 3]), 1.0));
    }

    #[test]
    fn what_is_no_leak_is_left_alone() {
        let least = 0.05;
        assert!(!leaks(&series(240, |_| 3.0), least));
        assert!(!leaks(&series(240, |s| 3.0 - s / 60.0), least), "it shrinks");
        assert_eq!(Trend::of(&series(LEAST_READINGS - 1, |s| s)), None, "too few");
        assert!(!leaks(&series(240, |s| s.min(50.0)), least), "start-up");
        assert!(!leaks(&series(240, |s| if s < 150.0 { 1.0 } else { 4.0 }), least), "one step");
        let stairs = |s: f64| {
            if s < 100.0 {
                1.0
            } else if s < 180.0 {
                3.0
            } else {
                4.0
            }
        };
        assert!(!leaks(&series(240, stairs), least), "two steps");
        assert!(!leaks(&series(240, |s| s * 1e-4), least), "too little to mind");
        let waves = Trend::of(&series(240, |s| 5.0 + (s / 9.0).sin() + s * 1e-3)).unwrap();
        assert!(waves.low < 0.0 && waves.high > 0.0, "scatter: {waves:?}");
        assert_eq!(Trend::of(&[]), None);
        assert_eq!(Trend::of(&[(1.0, 2.0); 40]), None, "no time passes");
    }
}
