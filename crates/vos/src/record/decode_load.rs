/*!
Decoding beside the lanes of an offline run: which of the two limits the rate.
*/

use serde::{Deserialize, Serialize};

use crate::stats::mean;

/// A lane that waits for frames for more than this share of its time is limited by decoding.
const LIMITS: f64 = 0.10;

/// How busy decoding was, and how long its lane waited for it, during a pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecodeLoad {
    /// Share of the lane's decoding threads' time in which they read and decoded, 0..1.
    pub busy: f64,
    /// Share of the lane's time in which it waited for a decoded frame, 0..1.
    pub wait: f64,
}

impl DecodeLoad {
    /// What limits the rate: `decode` or `gpu`.
    pub fn limit(&self) -> &'static str {
        if self.wait > LIMITS { "decode" } else { "gpu" }
    }

    /// The mean of several; none of none.
    pub fn mean(all: impl Iterator<Item = Self> + Clone) -> Option<Self> {
        let of = |share: fn(&Self) -> f64| {
            mean(&all.clone().map(|load| share(&load)).collect::<Vec<_>>())
        };
        Some(Self { busy: of(|load| load.busy)?, wait: of(|load| load.wait)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_limited_by_the_other() {
        let of = |busy, wait| DecodeLoad { busy, wait };
        assert_eq!(of(0.5, 0.02).limit(), "gpu");
        assert_eq!(of(0.99, 0.4).limit(), "decode");
        let both = [of(0.5, 0.0), of(1.0, 0.5)];
        assert_eq!(DecodeLoad::mean(both.into_iter()), Some(of(0.75, 0.25)));
        assert_eq!(DecodeLoad::mean([].into_iter()), None);
    }
}
