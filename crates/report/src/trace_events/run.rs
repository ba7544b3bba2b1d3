/*!
A run: each recorded pass as a process, its frames and their stages as threads.

A sidecar has durations and no starts. Frames are drawn one after the other, the stages in the order
of the pipeline from the start of their frame. Decoding is outside the latency and is drawn before
its frame. In throughput mode frames overlap: an event lasts from mask to mask, and each stage has a
thread.
*/

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{EventTrace, text};
use vos::stage::Stage;

#[derive(Deserialize)]
struct Sidecar {
    passes: Vec<Pass>,
}

#[derive(Deserialize)]
struct Pass {
    video: String,
    object: String,
    model: String,
    #[serde(default)]
    run: u64,
    /// Missing for an object that was not run.
    #[serde(default)]
    frame_times: Option<Map<String, Value>>,
}

const FRAMES: u64 = 1;
const STAGES: u64 = 2;
const US_PER_MS: f64 = 1000.0;

/// Adds every recorded pass of a sidecar.
pub fn add(trace: &mut EventTrace, path: &Path) -> Result<()> {
    let sidecar: Sidecar = serde_json::from_str(&text(path)?).with_context(|| {
        format!(
            "{} is not a sidecar of segtrt, or is truncated; expected an object with passes, as \
             segtrt bench --out-dir writes it",
            path.display()
        )
    })?;
    let mut added = 0;
    for pass in &sidecar.passes {
        let Some(times) = &pass.frame_times else { continue };
        let name = format!("{} · {} {} · run {}", pass.model, pass.video, pass.object, pass.run);
        let frames = Frames::of(times)
            .with_context(|| format!("{}: the frame times of {name}", path.display()))?;
        added_pass(trace, &name, &frames);
        added += 1;
    }
    if added == 0 {
        bail!(
            "{} has no pass with frame times: no object was measured; see the column reason of the \
             run's table",
            path.display()
        );
    }
    trace.other.insert(path.display().to_string(), PLACED.into());
    Ok(())
}

/// How events were placed; the trace says so itself.
const PLACED: &str = "durations are measured; starts are not: frames are drawn one after the other, \
                      stages in the order of the pipeline";

/// The columns of a pass, ms.
struct Frames {
    numbers: Vec<u64>,
    times: Vec<f64>,
    overlapping: bool,
    stages: Vec<(Stage, Vec<Option<f64>>)>,
}

impl Frames {
    fn of(columns: &Map<String, Value>) -> Result<Self> {
        let (times, overlapping) = match (columns.get("latency_ms"), columns.get("interval_ms")) {
            (Some(times), _) => (times, false),
            (None, Some(times)) => (times, true),
            (None, None) => bail!("have neither latency_ms nor interval_ms"),
        };
        let times: Vec<f64> = parsed(times, "the frames' times")?;
        if times.iter().any(|time| !(0.0..1e12).contains(time)) {
            bail!("have a time that is negative or no number of milliseconds");
        }
        let numbers: Vec<u64> = match columns.get("frame") {
            Some(numbers) => parsed(numbers, "frame")?,
            None => (0..times.len() as u64).collect(),
        };
        let mut stages = Vec::new();
        for stage in Stage::ALL {
            if let Some(column) = columns.get(stage.column()) {
                let column: Vec<Option<f64>> = parsed(column, stage.column())?;
                if column.len() != times.len() {
                    bail!(
                        "{} has {} values, expected one for each of {} frames",
                        stage.column(),
                        column.len(),
                        times.len()
                    );
                }
                stages.push((stage, column));
            }
        }
        if numbers.len() != times.len() {
            bail!("frame has {} values, expected {}", numbers.len(), times.len());
        }
        Ok(Self { numbers, times, overlapping, stages })
    }
}

fn parsed<T: serde::de::DeserializeOwned>(value: &Value, what: &str) -> Result<T> {
    T::deserialize(value).with_context(|| format!("{what}: expected a list of numbers"))
}

fn added_pass(trace: &mut EventTrace, name: &str, frames: &Frames) {
    let pid = trace.process(name);
    trace.thread(pid, FRAMES, if frames.overlapping { "masks" } else { "frames" });
    if !frames.overlapping {
        trace.thread(pid, STAGES, "stages");
    }
    let thread = |stage: Stage| match (frames.overlapping, stage) {
        (false, Stage::Decode) => STAGES + 1,
        (false, _) => STAGES,
        (true, stage) => STAGES + stage as u64,
    };
    for (stage, _) in &frames.stages {
        if frames.overlapping || *stage == Stage::Decode {
            trace.thread(pid, thread(*stage), stage.label());
        }
    }
    let mut now = 0.0;
    // The first free time of each stage's thread, for overlapping frames.
    let mut free = [0.0_f64; Stage::COUNT];
    for (at, (number, time)) in frames.numbers.iter().zip(&frames.times).enumerate() {
        let dur = time * US_PER_MS;
        let of_frame = |stage: &(Stage, Vec<Option<f64>>)| {
            Some((stage.0, stage.1.get(at).copied().flatten()? * US_PER_MS))
        };
        let stages: Vec<(Stage, f64)> = frames.stages.iter().filter_map(of_frame).collect();
        let args = json!({"frame": number});
        if frames.overlapping {
            for (stage, length) in stages {
                let start = free[stage as usize].max(now);
                free[stage as usize] = start + length;
                let names = (stage.label(), "stage");
                trace.complete((pid, thread(stage)), names, (start, length), args.clone());
            }
            let name = format!("frame {number}");
            trace.complete((pid, FRAMES), (&name, "interval"), (now, dur), args);
            now += dur;
            continue;
        }
        if let Some((stage, length)) = stages.first().filter(|(stage, _)| *stage == Stage::Decode) {
            let names = (stage.label(), "stage");
            trace.complete((pid, thread(*stage)), names, (now, *length), args.clone());
            now += length;
        }
        let name = format!("frame {number}");
        trace.complete((pid, FRAMES), (&name, "latency"), (now, dur), args.clone());
        let mut start = now;
        for (stage, length) in stages.into_iter().filter(|(stage, _)| *stage != Stage::Decode) {
            let names = (stage.label(), "stage");
            trace.complete((pid, thread(stage)), names, (start, length), args.clone());
            start += length;
        }
        // A sum of stages may exceed the frame by its rounding.
        now = start.max(now + dur);
    }
}
