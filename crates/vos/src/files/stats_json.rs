/*!
`profile_stats.json`: mean, spread and extremes of speed and GPU memory of each model, pooled over
its rows in `profile_summary.csv`, in the format of the predecessor's `json.dump(indent=2)`.
*/

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;

use super::python_format::{float_repr, json_string, round};
use crate::record::{Measured, RunRecord};
use crate::stats;

/// File name, the predecessor's.
pub const FILE_NAME: &str = "profile_stats.json";

/// A metric, its decimals in the CSV, and its source. The statistics use the rounded values, so
/// that they can be checked against the CSV.
type Metric = (&'static str, usize, fn(&Measured) -> Option<f64>);

const METRICS: [Metric; 4] = [
    ("fps", 2, |m| Some(m.speed.fps)),
    ("latency_ms", 1, |m| Some(m.speed.latency_ms)),
    ("gpu_peak_alloc_MiB", 1, |m| m.memory.gpu_peak_alloc_mib),
    ("gpu_peak_reserved_MiB", 1, |m| m.memory.gpu_peak_reserved_mib),
];

/// Writes the statistics of `runs`, models in order of first appearance, without a final newline.
///
/// Passes that are not ok are excluded; a metric without values is omitted.
pub fn write<'a>(
    out: &mut impl Write,
    runs: impl IntoIterator<Item = &'a RunRecord>,
) -> Result<()> {
    let mut models: Vec<(&str, [Vec<f64>; METRICS.len()])> = Vec::new();
    let mut index_of = HashMap::new();
    for run in runs {
        let tag = run.key.tag.as_str();
        let index = *index_of.entry(tag).or_insert_with(|| {
            models.push((tag, Default::default()));
            models.len() - 1
        });
        for ((_, digits, get), values) in METRICS.iter().zip(&mut models[index].1) {
            values.extend(run.numbers().and_then(get).map(|value| round(value, *digits)));
        }
    }
    let models = models.iter().map(|(tag, values)| {
        let metrics = METRICS.iter().zip(values);
        (json_string(tag), metrics.filter_map(|((name, ..), v)| Some((json_string(name), of(v)?))))
    });
    let models = models.map(|(tag, metrics)| (tag, object(4, metrics)));
    Ok(out.write_all(object(2, models).as_bytes())?)
}

/// The statistics of one metric as a JSON object; `None` without values.
fn of(values: &[f64]) -> Option<String> {
    let entries = [
        ("mean", stats::mean(values)?),
        ("std", stats::population_std(values)?),
        ("min", stats::min(values)?),
        ("max", stats::max(values)?),
        ("median", stats::median(values)?),
    ];
    Some(object(6, entries.map(|(name, value)| (json_string(name), float_repr(value)))))
}

/// A JSON object with each member on its own line, `indent` spaces in.
fn object(indent: usize, members: impl IntoIterator<Item = (String, String)>) -> String {
    let lines: Vec<String> =
        members.into_iter().map(|(key, value)| format!("{:indent$}{key}: {value}", "")).collect();
    if lines.is_empty() {
        return "{}".into();
    }
    format!("{{\n{}\n{:2$}}}", lines.join(",\n"), "", indent - 2)
}
