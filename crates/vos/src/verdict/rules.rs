/*!
The rules, one function each: finding, limit and advice.
*/

use super::power_limit::{self, Held};
use super::{Evidence, Thresholds, same_work};
use crate::record::Finding;
use crate::record::Weight::{Fault, Gap, Note};
use crate::record::{FrameTimes, Limit, Observed, Weight, mean_residue_ms};
use crate::stats;

pub(super) fn finding(weight: Weight, code: &str, sentence: String) -> Finding {
    Finding { code: code.to_owned(), sentence, weight }
}

pub(super) fn percent(part: f64) -> f64 {
    100.0 * part
}

/// No sensors were read on a GPU.
pub(super) fn unwatched() -> Finding {
    let sentence =
        "no sensors of the GPU were read, so throttling would not have been seen; the log says why";
    finding(Note, "unwatched", sentence.to_owned())
}

/// The reason why a pass measures no speed: it read a teacher's logits, or saved its logits.
pub fn exchange(teacher_forced: bool, saved: bool) -> Option<Finding> {
    let (code, sentence) = match (teacher_forced, saved) {
        (true, _) => (
            "teacher_forced",
            "teacher-forced: not a measurement of speed; its memories are another run's, and \
             every frame took that run's logits",
        ),
        (false, true) => (
            "logits_saved",
            "not a measurement of speed: every frame handed out its logits; leave --save-logits \
             out to measure",
        ),
        (false, false) => return None,
    };
    Some(finding(Fault, code, sentence.to_owned()))
}

/// The reason why a pass measures no speed of this machine: SEGTRT_RUNNER started its worker.
pub fn runner(runner: &str) -> Finding {
    let sentence = format!(
        "not a measurement of this machine: SEGTRT_RUNNER ({runner}) started the worker; unset it to measure"
    );
    finding(Fault, "runner", sentence)
}

/// What the sensors speak against.
pub(super) fn sensors(observed: &Observed, held: Held, limits: &Thresholds) -> Vec<Finding> {
    // At the power limit clocks move with the load, and this movement is a part of the speed.
    let clocks = match power_limit::is_sustained(observed, held, limits) {
        true => [Some(power_limit::power_limited(observed, held)), None],
        false => [throttled(observed, held, limits), clock_drift(observed, limits)],
    };
    [untold(observed)]
        .into_iter()
        .chain(clocks)
        .chain([other_process(observed), few_readings(observed, limits)])
        .flatten()
        .collect()
}

/// Sensors without a reading of clock limits prove nothing.
fn untold(observed: &Observed) -> Option<Finding> {
    observed.limits.is_none().then(|| {
        let sentence = "the GPU's sensors do not tell what holds the clocks down, so throttling \
                        would not have been seen; look at the clocks and the temperature beside \
                        it";
        finding(Note, "unwatched", sentence.to_owned())
    })
}

fn throttled(observed: &Observed, held: Held, limits: &Thresholds) -> Option<Finding> {
    let found = observed.limits?.throttling();
    let advice: Vec<&str> = found.iter().filter_map(advice).collect();
    (!found.is_empty()).then(|| {
        let sentence = format!(
            "the clocks were held down ({}) during the pass{}; {}; then measure again{}",
            found.text(),
            clocks(observed),
            advice.join(", "),
            power_limit::lacks(observed, held, limits)
        );
        finding(Fault, "throttled", sentence)
    })
}

/// By how much the clocks were lowered, for whoever wonders what it may have cost.
pub(super) fn clocks(observed: &Observed) -> String {
    match (observed.sm_clock_min_mhz, observed.sm_clock_max_mhz) {
        (Some(low), Some(high)) if low < high => {
            format!(", the SM clock at {low:.0} to {high:.0} MHz")
        }
        (Some(low), Some(_)) => format!(", the SM clock at {low:.0} MHz"),
        _ => String::new(),
    }
}

/// What to do about a limit.
fn advice(limit: Limit) -> Option<&'static str> {
    match limit {
        Limit::PowerCap => Some(
            "raise the power limit (nvidia-smi -pl) or lock a clock that it can hold (nvidia-smi -lgc)",
        ),
        Limit::Thermal | Limit::ThermalHardware => Some("let the GPU cool and give it more air"),
        Limit::PowerBrake => Some("look at the power supply"),
        Limit::HardwareSlowdown => Some("look at the power supply and the temperature"),
        Limit::OverCurrent => {
            Some("choose a power mode with less current (nvpmodel -m) or a stronger supply")
        }
        Limit::SyncBoost => Some("leave the other GPUs of its group idle"),
        Limit::ClocksSetting | Limit::DisplaySetting => None,
    }
}

fn clock_drift(observed: &Observed, limits: &Thresholds) -> Option<Finding> {
    let (low, high) = (observed.sm_clock_min_mhz?, observed.sm_clock_max_mhz?);
    let drift = (high - low) / high;
    (drift > limits.clock_drift).then(|| {
        let sentence = format!(
            "the SM clock moved between {low:.0} and {high:.0} MHz, {:.0} % apart, {:.0} % are \
             allowed; lock it (nvidia-smi -lgc {low:.0}, on a Jetson jetson_clocks) or warm up \
             longer (--warmup-runs)",
            percent(drift),
            percent(limits.clock_drift)
        );
        finding(Fault, "clock_drift", sentence)
    })
}

fn other_process(observed: &Observed) -> Option<Finding> {
    let others = observed.other_processes.filter(|others| *others > 0)?;
    let sentence =
        format!("{others} other processes had work on the GPU; stop them (nvidia-smi lists them)");
    Some(finding(Fault, "other_process", sentence))
}

fn few_readings(observed: &Observed, limits: &Thresholds) -> Option<Finding> {
    (observed.readings < limits.readings).then(|| {
        let sentence = format!(
            "the sensors were read {} times in {:.2} s, so short throttling may have been missed; \
             run longer clips",
            observed.readings, observed.seconds
        );
        finding(Note, "few_readings", sentence)
    })
}

/// The stages must add up to the latency.
pub(super) fn unexplained(frames: &[FrameTimes], limits: &Thresholds) -> Option<Finding> {
    let latencies: Vec<f64> = frames.iter().map(|frame| frame.time.ms()).collect();
    let (residue, latency) = (mean_residue_ms(frames)?, stats::mean(&latencies)?);
    let explained = 1.0 - residue / latency;
    (explained < limits.explained).then(|| {
        let sentence = format!(
            "the stages explain {:.0} % of the latency, {:.0} % are wanted; {residue:.3} ms of \
             each frame lie between them: look with nsys profile -t nvtx,cuda",
            percent(explained),
            percent(limits.explained)
        );
        finding(Fault, "unexplained", sentence)
    })
}

/// Mean times of frames that are encoded together, ms: masks come in bursts of `batch` frames.
pub(super) fn batches(steady: &[f64], batch: usize) -> Vec<f64> {
    steady.chunks_exact(batch.max(1)).filter_map(stats::mean).collect()
}

/// What the times of the steady frames, ms, speak against: latencies, or where frames overlap the
/// intervals between masks.
pub(super) fn steadiness(
    steady: &[f64],
    evidence: &Evidence<'_>,
    limits: &Thresholds,
) -> Vec<Finding> {
    let batches = batches(steady, evidence.batch);
    if let Some(few) = few_frames(evidence, steady.len(), batches.len(), limits) {
        return vec![few];
    }
    let unsteady = unsteady(&batches, limits);
    let others = evidence.observed.is_some_and(|observed| other_process(observed).is_some());
    let drift = drift(&batches, unsteady.is_some() || others, limits);
    [
        unsteady,
        drift,
        outliers(&batches, if evidence.batch > 1 { "batches" } else { "frames" }, limits),
        // Intervals have no percentiles in any file.
        tail(evidence.frames, limits).filter(|_| !evidence.overlapping),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn few_frames(
    evidence: &Evidence<'_>,
    frames: usize,
    batches: usize,
    limits: &Thresholds,
) -> Option<Finding> {
    let wanted = match (frames < limits.steady_frames, batches < limits.steady_batches) {
        (true, _) => format!("{} are needed", limits.steady_frames),
        (false, true) => format!("{} batches are needed", limits.steady_batches),
        (false, false) => return None,
    };
    let from = limits.steady_from;
    let came = match same_work::changes(evidence.frames) {
        false => format!("{frames} frames came after the first {from}, which fill the memory"),
        true => format!(
            "the longest stretch with the same objects has {frames} frames after the first {from} \
             of each, which fill its memory"
        ),
    };
    let sentence =
        format!("{came}; {wanted} to judge by: run longer clips, or raise --max-clip-frames");
    Some(finding(Gap, "few_frames", sentence))
}

fn unsteady(steady: &[f64], limits: &Thresholds) -> Option<Finding> {
    let spread = stats::population_std(steady)? / stats::mean(steady)?;
    (spread > limits.spread).then(|| {
        let sentence = format!(
            "the latencies spread by {:.0} % of their mean, {:.0} % are allowed; stop other \
             programs, lock the clocks, use the performance governor",
            percent(spread),
            percent(limits.spread)
        );
        finding(Fault, "unsteady", sentence)
    })
}

/// Where the pass was `disturbed`, that explains halves that differ; no advice on heat or warming
/// up then.
fn drift(steady: &[f64], disturbed: bool, limits: &Thresholds) -> Option<Finding> {
    let (first, second) = steady.split_at(steady.len() / 2);
    let change = (stats::median(second)? - stats::median(first)?) / stats::median(steady)?;
    (change.abs() > limits.drift).then(|| {
        let direction = if change > 0.0 { "slower" } else { "faster" };
        let advice = match change > 0.0 {
            _ if disturbed => "other programs disturbed the run: stop them, then measure again",
            true => "it heats up, or another program began to run: let it cool, stop what else runs",
            false => {
                "it was not warm yet, or another program ended: raise --warmup-runs, stop what else runs"
            }
        };
        let sentence = format!(
            "the second half of the frames was {:.0} % {direction} than the first, {:.0} % are \
             allowed; {advice}",
            percent(change.abs()),
            percent(limits.drift)
        );
        finding(Fault, "drift", sentence)
    })
}

fn outliers(steady: &[f64], what: &str, limits: &Thresholds) -> Option<Finding> {
    let median = stats::median(steady)?;
    let deviation = stats::median_absolute_deviation(steady)?;
    let allowed = (limits.outlier_mads * deviation).max(limits.outlier_least * median);
    let count = steady.iter().filter(|latency| (**latency - median).abs() > allowed).count();
    let slowest = stats::max(steady)?;
    (count > 0).then(|| {
        let sentence = format!(
            "{count} of {} {what} lie far from the median of {median:.3} ms, the slowest at \
             {slowest:.3} ms; something else ran meanwhile: trust the median more than the mean",
            steady.len()
        );
        finding(Note, "outliers", sentence)
    })
}

/// Percentiles are of all frames, whoever else was tracked on them.
fn tail(frames: &[FrameTimes], limits: &Thresholds) -> Option<Finding> {
    let steady = frames.len().saturating_sub(limits.steady_from);
    (steady < limits.p99_frames).then(|| {
        let sentence = format!(
            "the 99th percentile of {} frames is hardly more than the slowest one; {} are needed to read it",
            steady,
            limits.p99_frames
        );
        finding(Note, "p99_of_few", sentence)
    })
}
