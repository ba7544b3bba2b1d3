/*!
Memory that keeps growing: a hint at a leak.
*/

use serde::Serialize;

use vos::trend::Trend;

/// Growth below this, GB, is no leak.
const LEAST_GROWTH_GB: f64 = 0.05;
/// Seconds in a minute.
const MINUTE: f64 = 60.0;

/// A series that keeps growing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// After start-up, GB.
    pub grown_gb: f64,
    /// GB a minute.
    pub gb_per_minute: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
}

/// Growth of `(s, GB)` in the order of time; `None` where there is none, or too little to tell by.
pub fn growth(series: &[(f64, f64)]) -> Option<Growth> {
    let trend = Trend::of(series).filter(|trend| trend.is_leak(LEAST_GROWTH_GB))?;
    Some(Growth {
        grown_gb: trend.grown,
        gb_per_minute: trend.slope * MINUTE,
        interval: [trend.low * MINUTE, trend.high * MINUTE],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_is_told_by_the_minute() {
        let series = |slope: f64| -> Vec<(f64, f64)> {
            (0..240).map(|s| (f64::from(s), 2.0 + f64::from(s) * slope)).collect()
        };
        let found = growth(&series(1.0 / 60.0)).unwrap();
        assert!((found.gb_per_minute - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.interval[1] - 1.0).abs() < 1e-6, "{found:?}");
        assert_eq!(growth(&series(1e-4)), None, "24 MB are no leak");
    }
}
