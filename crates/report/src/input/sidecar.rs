/*!
Reads `sidecar.json` pass by pass. Of millions of frames only the latencies stay in memory; stages
are summed while they are read.
*/

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use vos::record::Finding;
use vos::stage::Stage;

/// Sum of a column and number of frames with a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageSum {
    /// Sum, ms.
    pub sum_ms: f64,
    /// Frames.
    pub frames: usize,
}

/// One recorded pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedPass {
    /// Clip.
    pub video: String,
    /// Object.
    pub object: String,
    /// Model tag.
    pub model: String,
    /// Number of the pass, from 0.
    pub run: u64,
    /// Times of the frames in order, ms: latencies, or intervals if frames overlap.
    pub latencies_ms: Vec<f64>,
    /// Stages in the order of [`Stage::ALL`].
    pub stages: [StageSum; Stage::COUNT],
    /// Sensors by name.
    pub observed: Map<String, Value>,
    /// What its verdict is based on.
    pub findings: Vec<Finding>,
}

/// Reads a sidecar: its members without the passes, and the passes. A pass that is not understood
/// is reported in `problems` and omitted.
///
/// # Errors
/// The file cannot be read or is not a JSON object.
pub fn read(
    path: &Path,
    problems: &mut Vec<String>,
) -> Result<(Map<String, Value>, Vec<RecordedPass>)> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let sidecar: Sidecar = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is not a sidecar of segtrt, or is truncated; its rows are shown without frame \
             times",
            path.display()
        )
    })?;
    let count = sidecar.misread.len();
    if let Some(first) = sidecar.misread.first() {
        problems.push(format!(
            "{}: {count} passes are not understood and their frame times omitted ({first})",
            path.display()
        ));
    }
    Ok((sidecar.facts, sidecar.passes))
}

#[derive(Default)]
struct Sidecar {
    facts: Map<String, Value>,
    passes: Vec<RecordedPass>,
    misread: Vec<String>,
}

impl<'de> Deserialize<'de> for Sidecar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Sidecar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the object of a sidecar")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sidecar, A::Error> {
        let mut sidecar = Sidecar::default();
        while let Some(name) = map.next_key::<String>()? {
            if name == "passes" {
                let Passes { passes, misread } = map.next_value()?;
                sidecar.passes = passes;
                sidecar.misread = misread;
            } else {
                sidecar.facts.insert(name, map.next_value()?);
            }
        }
        Ok(sidecar)
    }
}

struct Passes {
    passes: Vec<RecordedPass>,
    misread: Vec<String>,
}

impl<'de> Deserialize<'de> for Passes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Passes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of passes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Passes, A::Error> {
                let mut read = Passes { passes: Vec::new(), misread: Vec::new() };
                while let Some(text) = seq.next_element::<&RawValue>()? {
                    match serde_json::from_str::<WrittenPass>(text.get()) {
                        Ok(pass) => read.passes.extend(pass.into_pass()),
                        Err(error) => read.misread.push(error.to_string()),
                    }
                }
                Ok(read)
            }
        }
        deserializer.deserialize_seq(Each)
    }
}

/// A pass in the file.
#[derive(Deserialize)]
struct WrittenPass {
    video: String,
    object: String,
    model: String,
    #[serde(default)]
    run: u64,
    #[serde(default)]
    observed: Option<Map<String, Value>>,
    #[serde(default)]
    verdict: WrittenVerdict,
    /// Missing for an object that was not run.
    #[serde(default)]
    frame_times: Option<WrittenTimes>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenVerdict {
    findings: Vec<Finding>,
}

#[derive(Default)]
struct WrittenTimes {
    latencies_ms: Vec<f64>,
    stages: [StageSum; Stage::COUNT],
}

impl WrittenPass {
    fn into_pass(self) -> Option<RecordedPass> {
        let times = self.frame_times?;
        Some(RecordedPass {
            video: self.video,
            object: self.object,
            model: self.model,
            run: self.run,
            latencies_ms: times.latencies_ms,
            stages: times.stages,
            observed: self.observed.unwrap_or_default(),
            findings: self.verdict.findings,
        })
    }
}

impl<'de> Deserialize<'de> for WrittenTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Columns;
        impl<'de> Visitor<'de> for Columns {
            type Value = WrittenTimes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("frame times as columns")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WrittenTimes, A::Error> {
                let mut times = WrittenTimes::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "latency_ms" | "interval_ms" => times.latencies_ms = map.next_value()?,
                        _ => match Stage::of_column(&name) {
                            Some(stage) => {
                                times.stages[stage as usize] = map.next_value::<Summed>()?.0
                            }
                            None => drop(map.next_value::<IgnoredAny>()?),
                        },
                    }
                }
                Ok(times)
            }
        }
        deserializer.deserialize_map(Columns)
    }
}

/// A column that is summed while it is read.
struct Summed(StageSum);

impl<'de> Deserialize<'de> for Summed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Summed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("numbers or null, one for each frame")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Summed, A::Error> {
                let mut sum = StageSum::default();
                while let Some(number) = seq.next_element::<Option<f64>>()? {
                    if let Some(number) = number {
                        sum.sum_ms += number;
                        sum.frames += 1;
                    }
                }
                Ok(Summed(sum))
            }
        }
        deserializer.deserialize_seq(Numbers)
    }
}
