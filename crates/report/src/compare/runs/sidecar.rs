/*!
Reads `sidecar.json`: settings, machine, and every pass with its frames' raw times and the network's
decisions.

The PyTorch runner writes the same members as `segtrt bench`; further or missing members are
allowed.
*/

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use vos::record::{Enqueued, Finding, FrameTime, FrameTimes, ObjectKey, Observed, StageTimes};
use vos::stage::Stage;

/// The members that a comparison uses.
#[derive(Debug)]
pub(super) struct SidecarFile {
    pub configuration: Map<String, Value>,
    pub configuration_sha256: Option<String>,
    pub environment: Map<String, Value>,
    pub timed_region: String,
    /// `<video>/frames` and `<video>/masks` with their sha256.
    pub inputs: BTreeMap<String, String>,
    pub passes: Vec<PassRecord>,
}

/// One recorded pass over one object.
#[derive(Clone, Debug)]
pub struct PassRecord {
    /// Clip, object, model tag.
    pub key: ObjectKey,
    /// Number of the pass, from 0.
    pub run: usize,
    /// The GPU's sensors; none if none were read or the text is not understood.
    pub observed: Option<Observed>,
    /// Its frames in order.
    pub frames: Vec<FrameTimes>,
    /// What the network decided on each frame.
    pub decisions: Decisions,
    /// The writer's findings.
    pub findings: Vec<Finding>,
    /// Its stage times come from another pass over the same frames.
    pub stages_apart: bool,
}

/// The mask decoder's decisions on each frame; empty if the side does not write the column.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// Logit of the object's visibility.
    pub objectness: Vec<Option<f64>>,
    /// The number of the selected mask.
    pub chosen_mask: Vec<Option<i64>>,
    /// The predicted IoUs of the decoder's candidate masks.
    pub iou_predictions: Vec<Option<Vec<f64>>>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    configuration: Map<String, Value>,
    #[serde(default)]
    configuration_sha256: Option<String>,
    #[serde(default)]
    environment: Map<String, Value>,
    #[serde(default)]
    timed_region: String,
    #[serde(default)]
    inputs: BTreeMap<String, RawHash>,
    passes: Vec<RawPass>,
}

#[derive(Deserialize)]
struct RawHash {
    sha256: String,
}

#[derive(Deserialize)]
struct RawPass {
    video: String,
    object: String,
    model: String,
    #[serde(default)]
    run: usize,
    #[serde(default)]
    observed: Value,
    #[serde(default)]
    verdict: RawVerdict,
    frame_times: RawTimes,
}

#[derive(Default, Deserialize)]
struct RawVerdict {
    #[serde(default)]
    findings: Vec<Finding>,
}

/// Times of the frames, ms: latencies with one frame in flight, else intervals between masks.
#[derive(Deserialize)]
enum RawFrameTimes {
    #[serde(rename = "latency_ms")]
    Latencies(Vec<f64>),
    #[serde(rename = "interval_ms")]
    Intervals(Vec<f64>),
}

#[derive(Deserialize)]
struct RawTimes {
    frame: Vec<usize>,
    #[serde(flatten)]
    times: RawFrameTimes,
    #[serde(default)]
    stages_apart: bool,
    #[serde(flatten)]
    columns: Map<String, Value>,
}

/// Reads the sidecar.
///
/// # Errors
/// It is missing, damaged, or a column is longer than the pass.
pub(super) fn read(path: &Path) -> Result<SidecarFile> {
    let text = std::fs::read(path).with_context(|| {
        format!(
            "cannot read {}; name a folder that segtrt bench or the PyTorch runner wrote",
            path.display()
        )
    })?;
    let raw: Raw = serde_json::from_slice(&text).with_context(|| {
        format!("{} is not the sidecar of a run; measure again", path.display())
    })?;
    let pass = |raw| pass(raw).with_context(|| format!("{} is damaged", path.display()));
    Ok(SidecarFile {
        configuration: raw.configuration,
        configuration_sha256: raw.configuration_sha256,
        environment: raw.environment,
        timed_region: raw.timed_region,
        inputs: raw.inputs.into_iter().map(|(name, hash)| (name, hash.sha256)).collect(),
        passes: raw.passes.into_iter().map(pass).collect::<Result<_>>()?,
    })
}

fn pass(raw: RawPass) -> Result<PassRecord> {
    let RawPass { video, object, model, run, observed, verdict, frame_times } = raw;
    let RawTimes { frame, times, stages_apart, mut columns } = frame_times;
    type Time = fn(f64) -> FrameTime;
    let (name, times, time): (_, _, Time) = match times {
        RawFrameTimes::Latencies(times) => ("latency_ms", times, FrameTime::Latency),
        RawFrameTimes::Intervals(times) => ("interval_ms", times, FrameTime::Interval),
    };
    let frames = frame.len();
    let of = |name: &str| format!("{name} of {video} object {object}, pass {run}");
    if times.len() != frames {
        bail!("{}: {} times for {frames} frames", of(name), times.len());
    }
    if let Some(bad) = times.iter().find(|ms| !ms.is_finite() || **ms <= 0.0) {
        bail!("{}: {bad} ms is no time that a frame can take", of(name));
    }
    let observed = match observed {
        Value::Null => None,
        value => serde_json::from_value(value)
            .inspect_err(|error| log::warn!("{}: not understood: {error}", of("observed")))
            .ok(),
    };
    let mut take = |name: &str| -> Result<Vec<Value>> {
        match columns.remove(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            // If a clip was repeated, the scores are those of its first repetition.
            Some(Value::Array(column)) if column.len() <= frames => Ok(column),
            Some(_) => bail!("{}: not a list of at most {frames} values", of(name)),
        }
    };
    let mut stages = Vec::new();
    for stage in Stage::ALL {
        stages.push(take(stage.column())?);
    }
    let gpu_ms = take("gpu_ms")?;
    let objects = take("objects")?;
    let enqueue_ms = take("enqueue_ms")?;
    let [launches, graph_launches] = [take("launches")?, take("graph_launches")?];
    let decisions = Decisions {
        objectness: take("objectness")?.iter().map(Value::as_f64).collect(),
        chosen_mask: take("chosen_mask")?.iter().map(Value::as_i64).collect(),
        iou_predictions: take("iou_predictions")?.iter().map(numbers).collect(),
    };
    let at = |column: &[Value], index: usize| column.get(index).and_then(Value::as_f64);
    let of_frame = |(index, (&frame, &ms)): (usize, (&usize, &f64))| FrameTimes {
        frame,
        time: time(ms),
        stages: StageTimes::each(|stage| at(&stages[stage as usize], index)),
        gpu_ms: at(&gpu_ms, index),
        enqueued: Enqueued {
            ms: at(&enqueue_ms, index),
            launches: launches.get(index).and_then(Value::as_u64),
            graph_launches: graph_launches.get(index).and_then(Value::as_u64),
        },
        objects: objects.get(index).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()),
        ..FrameTimes::default()
    };
    let frames = frame.iter().zip(&times).enumerate().map(of_frame).collect();
    let key = ObjectKey { video, object, tag: model };
    Ok(PassRecord {
        key,
        run,
        observed,
        frames,
        decisions,
        findings: verdict.findings,
        stages_apart,
    })
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<SidecarFile> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sidecar.json");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    fn with_times(times: &str) -> String {
        format!(
            r#"{{"passes": [{{"video": "v", "object": "1", "model": "m", "run": 0, "frame_times": {times}}}]}}"#
        )
    }

    #[test]
    fn columns_become_frames_and_decisions() {
        let text = with_times(
            r#"{"frame": [3, 4], "latency_ms": [9.0, 2.5], "track_ms": [null, 2.0], "objectness": [7.5, -1],
                "chosen_mask": [0, 2], "iou_predictions": [[0.9, 0.1], null], "objects": [1, 2], "enqueue_ms": [0.5, 0.25],
                "launches": [null, 41], "something": "else"}"#,
        );
        let file = read_text(&text).unwrap();
        let pass = &file.passes[0];
        assert_eq!((pass.frames[1].frame, pass.frames[1].time.ms()), (4, 2.5));
        assert_eq!([0, 1].map(|at: usize| pass.frames[at].stages[Stage::Track]), [None, Some(2.0)]);
        assert_eq!((pass.frames[0].objects, pass.frames[1].objects), (Some(1), Some(2)));
        let enqueued = [0.5, 0.25].map(|ms| Enqueued { ms: Some(ms), ..Enqueued::default() });
        let second = Enqueued { launches: Some(41), ..enqueued[1] };
        assert_eq!([0, 1].map(|at: usize| pass.frames[at].enqueued), [enqueued[0], second]);
        assert_eq!(pass.decisions.objectness, [Some(7.5), Some(-1.0)]);
        assert_eq!(pass.decisions.chosen_mask, [Some(0), Some(2)]);
        assert_eq!(pass.decisions.iou_predictions, [Some(vec![0.9, 0.1]), None]);
        assert!(pass.observed.is_none());
    }

    #[test]
    fn what_cannot_be_a_pass_is_refused_by_name() {
        for (times, says) in [
            (r#"{"frame": [0, 1], "latency_ms": [9.0]}"#, "1 times for 2 frames"),
            (r#"{"frame": [0], "latency_ms": [0.0]}"#, "0 ms is no time"),
            (r#"{"frame": [0], "latency_ms": [1], "gpu_ms": [1, 2]}"#, "gpu_ms of v object 1"),
            (r#"{"frame": [0], "latency_ms": [1], "objectness": 3}"#, "objectness of v object 1"),
        ] {
            let error = format!("{:#}", read_text(&with_times(times)).unwrap_err());
            assert!(error.contains(says) && error.contains("sidecar.json"), "{error}");
        }
        let error = format!("{:#}", read_text("{\"passes\": 3}").unwrap_err());
        assert!(error.contains("is not the sidecar of a run"), "{error}");
    }
}
