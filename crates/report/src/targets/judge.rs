/*!
Compares groups with targets.
*/

use serde::Serialize;

use super::{Target, Targets};
use crate::data::{Group, OfSize};
use crate::input::NsysReport;

/// Result of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Reached.
    Pass,
    /// Missed.
    Fail,
    /// Only INVALID rows have numbers.
    Invalid,
    /// There are no numbers.
    NotMeasured,
}

impl State {
    /// The word on the page.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "INVALID rows",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A target and a group.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Index of the group.
    pub group: usize,
    /// The target's name.
    pub name: String,
    /// Its metric.
    pub metric: String,
    /// Its limit as text.
    pub limit: String,
    /// Its unit.
    pub unit: String,
    /// The measured value.
    pub value: Option<f64>,
    /// Source of the value.
    pub basis: String,
    /// A missing measurement is a failure.
    pub required: bool,
    /// The result.
    pub state: State,
}

/// The results of all targets and groups.
#[derive(Clone, Debug, Serialize)]
pub struct Verdicts {
    /// File of the targets.
    pub from: String,
    /// One result for each target and group to which it applies.
    pub results: Vec<Verdict>,
}

impl Verdicts {
    /// Number of results with this state.
    pub fn count(&self, state: State) -> usize {
        self.results.iter().filter(|result| result.state == state).count()
    }

    /// Why `--check` fails; `None` if it passes. A check without any measurement fails.
    pub fn failure(&self) -> Option<String> {
        let (failed, invalid) = (self.count(State::Fail), self.count(State::Invalid));
        let missing =
            self.results.iter().filter(|r| r.required && r.state == State::NotMeasured).count();
        let mut failures = Vec::new();
        for (count, what) in [
            (failed, "missed"),
            (invalid, "with only INVALID rows"),
            (missing, "required and not measured"),
        ] {
            if count > 0 {
                failures.push(format!("{count} {what}"));
            }
        }
        if failures.is_empty() && self.count(State::Pass) == 0 {
            failures.push("none was measured".to_owned());
        }
        (!failures.is_empty())
            .then(|| format!("targets: {} (of {})", failures.join(", "), self.results.len()))
    }
}

/// Compares every group with every target that applies to it.
pub fn judge(targets: &Targets, groups: &[Group], nsys: &[NsysReport]) -> Verdicts {
    // A profile names no model, so with several groups or profiles its group is unknown.
    let profile = match (groups, nsys) {
        ([_], [only]) => Some(only),
        _ => None,
    };
    let mut results = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        for target in targets.list.iter().filter(|target| target.is_for(group)) {
            let clips = target
                .size()
                .and_then(|size| group.by_size.iter().find(|clips| clips.size == size));
            let found = match target.size() {
                None => measured(&target.metric, group, profile),
                Some(_) => clips.and_then(|clips| of_clips(target, group, clips)),
            };
            let invalid = clips.map_or(group.invalid, |clips| clips.invalid);
            let (value, basis) = found.map_or((None, String::new()), |(v, b)| (Some(v), b));
            let state = match value {
                None => State::NotMeasured,
                Some(_) if invalid => State::Invalid,
                Some(value) if target.holds(value) => State::Pass,
                Some(_) => State::Fail,
            };
            results.push(Verdict {
                group: at,
                name: target.name.clone(),
                metric: target.metric.clone(),
                limit: target.limit(),
                unit: target.unit.clone(),
                value,
                basis,
                required: target.required,
                state,
            });
        }
    }
    Verdicts { from: targets.from.clone(), results }
}

/// The value of a column over the clips of one size.
fn of_clips(target: &Target, group: &Group, clips: &OfSize) -> Option<(f64, String)> {
    let stat = clips.stats.get(&target.metric)?;
    let mode = group.conditions.get("mode").unwrap_or("unknown");
    let rows = stat.n;
    Some((stat.mean, format!("{rows} rows of {} clips, {mode} mode", target.source)))
}

/// The value of a metric and its source.
fn measured(metric: &str, group: &Group, profile: Option<&NsysReport>) -> Option<(f64, String)> {
    if let Some(value) = of_frames(metric, group) {
        return Some(value);
    }
    let stages = group.stages.as_ref();
    let stage = |columns: &[&str]| {
        let lines = stages?.lines.iter().filter(|line| columns.contains(&line.column));
        lines.filter_map(|line| line.per_frame_ms).reduce(|sum, part| sum + part)
    };
    let per_frame = |value: f64| {
        (value, format!("per frame, over {} frames", stages.map_or(0, |stages| stages.frames)))
    };
    match metric {
        "gpu_memory_percent" => {
            let memory = group.device_memory.as_ref()?;
            Some((
                memory.percent,
                format!("peak of {}, size by {}", memory.peak_of, memory.total_from),
            ))
        }
        "inference_ms" => {
            stage(&["encoder_ms", "prompt_ms", "track_ms", "memory_ms"]).map(per_frame)
        }
        "transfer_ms" => stage(&["upload_ms", "download_ms"]).map(per_frame),
        // Overlapping frames have an interval between masks and no latency.
        "frame_ms" | "end_to_end_ms" if group.overlapping() => None,
        "frame_ms" => stages.map(|stages| per_frame(stages.frame_ms)),
        "end_to_end_ms" => {
            // Inside, encoding is a part of the frame's time.
            let encode = stage(&["encode_ms"]).filter(|_| group.conditions.encode_beside());
            let frame = stages?.frame_ms + encode.unwrap_or(0.0);
            Some(per_frame(frame + stage(&["decode_ms"])?))
        }
        "bandwidth_percent" => {
            let sound = profile.filter(|profile| profile.faults.is_empty())?;
            Some((sound.bandwidth_percent?, format!("profile {}", sound.name)))
        }
        column => {
            let stat = group.stats.get(column)?;
            Some((stat.mean, format!("mean of {} rows", stat.n)))
        }
    }
}

/// Percentiles over all frames, which are better than means of percentiles.
fn of_frames(metric: &str, group: &Group) -> Option<(f64, String)> {
    let frames = group.frames.as_ref().filter(|frames| frames.kind == "latency")?;
    let value = match metric {
        "latency_p50_ms" => frames.p50_ms,
        "latency_p90_ms" => frames.p90_ms,
        "latency_p95_ms" => frames.p95_ms,
        "latency_p99_ms" => frames.p99_ms,
        "latency_p999_ms" => frames.p999_ms?,
        "latency_max_ms" => frames.max_ms,
        _ => return None,
    };
    Some((value, format!("over {} frames", frames.frames)))
}
