/*!
Passes at the power limit: which of them show the speed that a GPU sustains there.
*/

use super::rules::{clocks, finding, percent};
use super::{Evidence, Thresholds, rules};
use crate::record::Weight::Note;
use crate::record::{Finding, Limit, Limits, Observed, Weight};
use crate::stats;

/// The code of a pass whose speed is the one that its GPU sustains at the power limit.
pub const POWER_LIMITED: &str = "power_limited";

/// How long and how evenly a pass ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Times of the judged frames together, s: other frames are other work.
    seconds: f64,
    /// Mean time of the last quarter of these frames less that of the first, over the mean of all.
    change: f64,
    /// The part of the observation that all frames fill; whole where they overlap.
    busy: f64,
    /// The rules of steadiness have nothing but hints.
    is_steady: bool,
}

impl Held {
    /// Of the times of the judged frames, ms, and what those rules found.
    pub(super) fn of(evidence: &Evidence<'_>, steady: &[f64], found: &[Finding]) -> Self {
        // Bursts of frames that are encoded together count as one.
        let batches = rules::batches(steady, evidence.batch);
        let quarter = batches.len().div_ceil(4);
        let (first, last) = (batches.get(..quarter), batches.get(batches.len() - quarter..));
        let mean = |times: Option<&[f64]>| times.and_then(stats::mean).unwrap_or(f64::NAN);
        let all: f64 = evidence.frames.iter().map(|frame| frame.time.ms()).sum();
        let window = evidence.observed.map_or(f64::NAN, |observed| observed.seconds);
        Self {
            seconds: steady.iter().sum::<f64>() / 1e3,
            change: (mean(last) - mean(first)) / mean(Some(&batches)),
            busy: if evidence.overlapping { 1.0 } else { all / 1e3 / window },
            is_steady: found.iter().all(|found| found.weight == Weight::Note),
        }
    }

    /// Whether the pass took so long, with a GPU at work, that its clocks are those that it holds.
    pub(super) fn is_long(self, limits: &Thresholds) -> bool {
        self.seconds >= limits.sustained_seconds && self.is_busy(limits)
    }

    fn is_busy(self, limits: &Thresholds) -> bool {
        self.busy >= limits.sustained_busy
    }

    fn is_even(self, limits: &Thresholds) -> bool {
        self.change.abs() <= limits.sustained_drift
    }
}

fn only_power(observed: &Observed) -> bool {
    let power = Limits::of([Limit::PowerCap]);
    observed.limits.is_some_and(|limits| limits.throttling() == power)
}

/// Whether the power limit alone held the clocks down, for long enough to show what the GPU
/// sustains at it.
pub(super) fn is_sustained(observed: &Observed, held: Held, limits: &Thresholds) -> bool {
    only_power(observed)
        && observed.readings >= limits.sustained_readings
        && held.is_steady
        && held.is_long(limits)
        && held.is_even(limits)
}

/// A board that is at its power limit in every long run has no other speed there.
pub(super) fn power_limited(observed: &Observed, held: Held) -> Finding {
    let power = observed
        .power_mean_w
        .map_or_else(String::new, |watts| format!(", {watts:.0} W on average"));
    let unseen = match observed.other_processes {
        Some(_) => "",
        None => "; other processes could not be seen, and may have drawn a part of this power",
    };
    let sentence = format!(
        "the GPU reached its power limit ({}) in {:.1} s of steady frames{power}{}; the speed is \
         the one that it sustains at this limit, and at no other, so quote the limit with it{unseen}",
        Limit::PowerCap.word(),
        held.seconds,
        clocks(observed)
    );
    finding(Note, POWER_LIMITED, sentence)
}

/// What a pass that the power limit alone held down lacks to be [`power_limited`]; empty if there is
/// none, or if its frames are not steady, which has findings of its own.
pub(super) fn lacks(observed: &Observed, held: Held, limits: &Thresholds) -> String {
    let counts = "steady speed at the limit counts";
    let is_short = held.seconds < limits.sustained_seconds;
    if !only_power(observed) || !held.is_steady && !is_short {
        return String::new();
    }
    if is_short {
        return format!(
            ", or measure a pass with at least {:.0} s of frames (a longer clip, or --repeat-clip), \
             whose {counts}",
            limits.sustained_seconds
        );
    }
    if !held.is_busy(limits) {
        return format!(
            ", or keep the GPU at work: the frames filled {:.0} % of the pass, {:.0} % are needed \
             (more --decode-threads, a lane or overlapping frames), whose {counts} then",
            percent(held.busy),
            percent(limits.sustained_busy)
        );
    }
    if !held.is_even(limits) {
        return format!(
            ", or measure a longer pass: the last quarter of the frames took {:.1} % {} than the \
             first, {:.0} % are allowed where {counts}",
            percent(held.change.abs()),
            if held.change > 0.0 { "longer" } else { "less" },
            percent(limits.sustained_drift)
        );
    }
    format!(
        ", or take at least {} readings of a pass (--telemetry-ms), whose {counts} then",
        limits.sustained_readings
    )
}
