/*!
Targets: limits that a model must meet on a platform, read from TOML and compared with the groups of
a report.

A target without a measurement is neither passed nor failed, unless it is required. Numbers of
INVALID rows meet no target.
*/

mod judge;

use std::path::Path;

use anyhow::{Context, Result, bail};
pub use judge::{State, Verdict, Verdicts, judge};
use serde::Deserialize;

use super::data::{Group, STEREO, Size};
use vos::stage::Stage;

/// The targets of `--targets default`.
pub const DEFAULT: &str = include_str!("default.toml");

/// Metrics that are computed rather than read from a column.
const DERIVED: [&str; 6] = [
    "gpu_memory_percent",
    "inference_ms",
    "frame_ms",
    "end_to_end_ms",
    "transfer_ms",
    "bandwidth_percent",
];
/// Columns that any run of segtrt may have; a table may have more.
const COLUMNS: [&str; 34] = [
    "fps",
    "latency_ms",
    "first_frame_ms",
    "latency_p50_ms",
    "latency_p90_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "latency_p999_ms",
    "latency_max_ms",
    "setup_ms",
    "gpu_ms",
    "residue_ms",
    "enqueue_ms",
    "enqueue_p99_ms",
    "launches",
    "graph_launches",
    "J",
    "F",
    "JandF",
    "gpu_peak_alloc_MiB",
    "gpu_peak_reserved_MiB",
    "cpu_peak_rss_MiB",
    "power_w",
    "energy_j_per_frame",
    "sm_clock_mhz_min",
    "sm_clock_mhz_mean",
    "temperature_c_max",
    "gpu_util",
    "source_age_p50_ms",
    "source_age_p95_ms",
    "end_to_end_p50_ms",
    "end_to_end_p95_ms",
    "end_to_end_p99_ms",
    "end_to_end_max_ms",
];

/// A file of targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// The targets in order.
    #[serde(rename = "target")]
    pub list: Vec<Target>,
    /// The file's name, for the page.
    #[serde(skip)]
    pub from: String,
}

/// One target.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Column or derived metric.
    pub metric: String,
    /// The value must be less.
    pub below: Option<f64>,
    /// The value must not be more.
    pub at_most: Option<f64>,
    /// The value must be more.
    pub above: Option<f64>,
    /// The value must not be less.
    pub at_least: Option<f64>,
    /// Unit of the value, as text.
    #[serde(default)]
    pub unit: String,
    /// Model tags to which it applies; `*` matches anything. Empty: all.
    #[serde(default)]
    pub models: Vec<String>,
    /// Platforms to which it applies. Empty: all.
    #[serde(default)]
    pub platforms: Vec<String>,
    /// Size of the clips to which it applies, such as `1920x1080`, or `stereo` for pairs of views.
    /// Empty: any.
    #[serde(default)]
    pub source: String,
    /// A missing measurement is a failure.
    #[serde(default)]
    pub required: bool,
}

impl Targets {
    /// The built-in targets of one kind of source.
    ///
    /// # Errors
    /// The built-in file is damaged.
    pub fn of_sources() -> Result<Vec<Target>> {
        let all = Self::open(Path::new("default"))?.list;
        Ok(all.into_iter().filter(|target| !target.source.is_empty()).collect())
    }

    /// Reads a file, or the built-in targets by the name `default`.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, has an unknown key, no target, or a target without
    /// exactly one limit.
    pub fn open(file: &Path) -> Result<Self> {
        if file == Path::new("default") {
            return Self::parse(DEFAULT, "the built-in targets").context("the built-in targets");
        }
        let text = std::fs::read_to_string(file).with_context(|| {
            format!("{} cannot be read; `--targets default` needs no file", file.display())
        })?;
        Self::parse(&text, &file.display().to_string()).with_context(|| {
            format!(
                "{} has no valid targets; `segtrt report --print-targets` prints an example",
                file.display()
            )
        })
    }

    fn parse(text: &str, from: &str) -> Result<Self> {
        let mut targets: Self = toml::from_str(text)?;
        from.clone_into(&mut targets.from);
        if targets.list.is_empty() {
            bail!("it has no [[target]]");
        }
        for target in &targets.list {
            let limits = [target.below, target.at_most, target.above, target.at_least];
            let given: Vec<f64> = limits.into_iter().flatten().collect();
            if target.size().is_none() && !target.is_stereo() && !target.source.is_empty() {
                bail!(
                    "target {:?} has the source {:?}; expected width and height, such as \
                     1920x1080, or stereo",
                    target.name,
                    target.source
                );
            }
            if target.size().is_some() && DERIVED.contains(&target.metric.as_str()) {
                bail!(
                    "target {:?} has a source, and {} is of all clips; expected a column, such as fps",
                    target.name,
                    target.metric
                );
            }
            if given.len() != 1 || !given[0].is_finite() {
                bail!(
                    "target {:?} has {} limits; expected exactly one of below, at_most, above, \
                     at_least, a finite number",
                    target.name,
                    given.len()
                );
            }
        }
        Ok(targets)
    }

    /// Targets whose metric is unknown to this program and to all tables. A typing error must not
    /// count as 'not measured'.
    pub fn unknown(&self, groups: &[Group]) -> Vec<&Target> {
        let known = |metric: &str| {
            DERIVED.contains(&metric)
                || COLUMNS.contains(&metric)
                || Stage::of_column(metric).is_some()
                || groups.iter().any(|group| group.stats.contains_key(metric))
        };
        self.list.iter().filter(|target| !known(&target.metric)).collect()
    }

    /// Every known metric, for messages.
    pub fn known_metrics() -> String {
        [&DERIVED[..], &COLUMNS[..], &Stage::ALL.map(Stage::column)[..]].concat().join(", ")
    }
}

impl Target {
    /// The limit as text.
    pub fn limit(&self) -> String {
        let number = |value: f64, sign: &str| {
            format!("{sign} {value}{}{}", if self.unit.is_empty() { "" } else { " " }, self.unit)
        };
        match (self.below, self.at_most, self.above, self.at_least) {
            (Some(limit), ..) => number(limit, "<"),
            (_, Some(limit), ..) => number(limit, "≤"),
            (_, _, Some(limit), _) => number(limit, ">"),
            (.., limit) => number(limit.unwrap_or(f64::NAN), "≥"),
        }
    }

    /// Width and height of its clips, pixels, the longer side first; none for any clip.
    pub fn size(&self) -> Option<Size> {
        let (width, height) = self.source.split_once('x')?;
        let (width, height): (usize, usize) = (width.parse().ok()?, height.parse().ok()?);
        Some((width.max(height), width.min(height)))
    }

    /// Whether it is for pairs of views.
    pub fn is_stereo(&self) -> bool {
        self.source == STEREO
    }

    /// Whether a value meets it.
    pub fn holds(&self, value: f64) -> bool {
        self.below.is_none_or(|limit| value < limit)
            && self.at_most.is_none_or(|limit| value <= limit)
            && self.above.is_none_or(|limit| value > limit)
            && self.at_least.is_none_or(|limit| value >= limit)
    }

    fn is_for(&self, group: &Group) -> bool {
        let named = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| fits(pattern, text))
        };
        // Few runs have clips of a certain size: without one there is nothing to say.
        let stereo = group.conditions.stereo();
        let of_size = |size| !stereo && group.by_size.iter().any(|clips| clips.size == size);
        named(&self.models, &group.model)
            && named(&self.platforms, &group.platform)
            && (self.required || self.size().is_none_or(of_size) && (stereo || !self.is_stereo()))
    }
}

/// Whether `text` matches `pattern`, in which `*` matches anything.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|tail| {
            tail.char_indices()
                .map(|(at, _)| at)
                .chain([tail.len()])
                .any(|at| fits(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests;
