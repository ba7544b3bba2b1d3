/*!
The verdict on a pass's speed: VALID, INVALID with the reason and the advice, or `-` after too few
frames.

LoadGen refuses results that break a rule and says what to change; hyperfine warns of outliers and
of a slow first run. This module does both from the measured numbers alone. It never repeats or
repairs a pass. All limits stand in [`THRESHOLDS`], and docs/reference/verdicts.md shows the same
table.
*/

mod power_limit;
mod rules;
mod same_work;
mod thresholds;

pub use power_limit::POWER_LIMITED;
pub use rules::{exchange, runner};
pub use thresholds::{THRESHOLDS, Thresholds};

use crate::record::{FrameTimes, Observed, Verdict};
use power_limit::Held;

/// What a pass is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Its frames in order, the prompted one first.
    pub frames: &'a [FrameTimes],
    /// Frames overlap: their times are intervals, and stages do not add up to them.
    pub overlapping: bool,
    /// Frames that the encoder takes at once: masks come in bursts of so many, with a wait for the
    /// next ones between, so that what is looked at are batches.
    pub batch: usize,
    /// A GPU took part.
    pub on_gpu: bool,
    /// The readings of its sensors.
    pub observed: Option<&'a Observed>,
}

/// The times of the frames that a pass is judged by, ms.
fn steady_ms(frames: &[FrameTimes]) -> Vec<f64> {
    let steady = same_work::stretch(frames, THRESHOLDS.steady_from);
    steady.iter().map(|frame| frame.time.ms()).collect()
}

/// Whether a pass took long enough, with a GPU at work, for its clocks to be those that the GPU
/// holds. Not without sensors that tell what holds the clocks down.
pub fn is_long(evidence: &Evidence<'_>) -> bool {
    let tells = evidence.observed.is_some_and(|observed| observed.limits.is_some());
    tells && Held::of(evidence, &steady_ms(evidence.frames), &[]).is_long(&THRESHOLDS)
}

/// Judges a pass that has been measured.
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let limits = &THRESHOLDS;
    let steady = steady_ms(evidence.frames);
    let steadiness = rules::steadiness(&steady, evidence, limits);
    let held = Held::of(evidence, &steady, &steadiness);
    let mut findings = Vec::new();
    match evidence.observed {
        Some(observed) => findings.extend(rules::sensors(observed, held, limits)),
        None if evidence.on_gpu => findings.push(rules::unwatched()),
        None => {}
    }
    if !evidence.overlapping {
        findings.extend(rules::unexplained(evidence.frames, limits));
    }
    findings.extend(steadiness);
    Verdict::of(findings)
}

#[cfg(test)]
mod tests;
