/*!
Targets held against groups: what was measured, and of what it is.
*/

use serde::Serialize;

use super::Targets;
use crate::data::Group;
use crate::input::NsysReport;

/// How a target ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Reached.
    Pass,
    /// Missed.
    Fail,
    /// There are numbers, of INVALID rows alone.
    Invalid,
    /// Nobody measured it.
    NotMeasured,
}

impl State {
    /// The word that people read.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "INVALID rows",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A target held against a group.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Index of the group.
    pub group: usize,
    /// The target's name.
    pub name: String,
    /// Its metric.
    pub metric: String,
    /// Its limit in words.
    pub limit: String,
    /// Its unit.
    pub unit: String,
    /// What was measured.
    pub value: Option<f64>,
    /// What the value is of.
    pub basis: String,
    /// Required, whether or not measured.
    pub required: bool,
    /// How it ended.
    pub state: State,
}

/// All targets against all groups.
#[derive(Clone, Debug, Serialize)]
pub struct Verdicts {
    /// Where the targets come from.
    pub from: String,
    /// One for each target and group that it is for.
    pub results: Vec<Verdict>,
}

impl Verdicts {
    /// Results with this end.
    pub fn count(&self, state: State) -> usize {
        self.results.iter().filter(|result| result.state == state).count()
    }

    /// Why `--check` fails; `None` when it passes. What was never measured cannot pass, so a check
    /// of nothing fails.
    pub fn failure(&self) -> Option<String> {
        let (failed, invalid) = (self.count(State::Fail), self.count(State::Invalid));
        let missing =
            self.results.iter().filter(|r| r.required && r.state == State::NotMeasured).count();
        let mut said = Vec::new();
        for (count, what) in [
            (failed, "missed"),
            (invalid, "measured by INVALID rows alone"),
            (missing, "required and not measured"),
        ] {
            if count > 0 {
                said.push(format!("{count} {what}"));
            }
        }
        if said.is_empty() && self.count(State::Pass) == 0 {
            said.push("none of them was measured".to_owned());
        }
        (!said.is_empty())
            .then(|| format!("targets: {} (of {})", said.join(", "), self.results.len()))
    }
}

/// Holds every target against every group that it is for.
pub fn judge(targets: &Targets, groups: &[Group], nsys: &[NsysReport]) -> Verdicts {
    // A profile names no model: with several groups, or several profiles, nobody knows whose it is.
    let profile = match (groups, nsys) {
        ([_], [only]) => Some(only),
        _ => None,
    };
    let mut results = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        for target in targets.list.iter().filter(|target| target.is_for(group)) {
            let (value, basis) = measured(&target.metric, group, profile)
                .map_or((None, String::new()), |(v, b)| (Some(v), b));
            let state = match value {
                None => State::NotMeasured,
                Some(_) if group.invalid => State::Invalid,
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

/// A metric of a group and what it is of.
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
        // Where frames overlap there is an interval between masks, and no time that a frame took.
        "frame_ms" | "end_to_end_ms" if group.overlapping() => None,
        "frame_ms" => stages.map(|stages| per_frame(stages.frame_ms)),
        "end_to_end_ms" => Some(per_frame(stages?.frame_ms + stage(&["decode_ms"])?)),
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

/// Percentiles over all frames, which beat a mean of percentiles.
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
