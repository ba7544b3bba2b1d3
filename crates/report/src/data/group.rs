/*!
A line of the report: what rows of one model under one set of conditions on one platform say
together.
*/

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::bandwidth::Bandwidth;
use super::conditions::Conditions;
use super::frames::Frames;
use super::memory::DeviceMemory;
use super::stages::StageTable;
use crate::input::Believed;
use vos::stats;

/// Mean and spread of a column over rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stat {
    /// Rows with a number.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the population.
    pub std: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Middle.
    pub median: f64,
}

/// How many rows ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// All.
    pub rows: usize,
    /// With numbers.
    pub measured: usize,
    /// Clips' objects that the rows are of: fewer than rows where a table has one for each pass.
    pub objects: usize,
    /// Those of which a row has numbers.
    pub objects_measured: usize,
    /// Judged VALID.
    pub valid: usize,
    /// Judged INVALID.
    pub invalid: usize,
    /// Judged `-`.
    pub unjudged: usize,
    /// In tables without verdicts.
    pub no_verdict: usize,
}

/// Why rows are INVALID or have no numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// What they are.
    pub state: Believed,
    /// The table's own words.
    pub text: String,
    /// Rows with the same words.
    pub rows: usize,
}

/// The rows taken together.
#[derive(Debug, Serialize)]
pub struct Group {
    /// Model tag, and what sets it apart on its platform.
    pub name: String,
    /// Model tag.
    pub model: String,
    /// Platform, with the host's name where there are several of that platform.
    pub platform: String,
    /// Host's name, where known.
    pub hostname: Option<String>,
    /// What all rows have in common.
    pub conditions: Conditions,
    /// The weights in words, where the run says.
    pub weights: Option<String>,
    /// Rows by outcome.
    pub counts: Counts,
    /// Every measured row is INVALID: the numbers are not to be used.
    pub invalid: bool,
    /// The rows are the Python predecessor's, whose timed region is another.
    pub predecessor: bool,
    /// By column.
    pub stats: BTreeMap<String, Stat>,
    /// The largest reading of each sensor over the passes, by the sidecar's names.
    pub observed_max: BTreeMap<String, f64>,
    /// What the driver says of the GPU, where every run behind the group says the same.
    pub gpu_facts: BTreeMap<String, f64>,
    /// Bandwidth against its peak.
    pub bandwidth: Bandwidth,
    /// Words of the column `throttle` with the number of rows that have them, `none` left out.
    pub throttle: BTreeMap<String, usize>,
    /// Rows whose sensors told whether clocks were held down; of the others nobody knows.
    pub throttle_told: usize,
    /// Reasons, the most frequent first.
    pub reasons: Vec<Reason>,
    /// Frame times of all passes.
    pub frames: Option<Frames>,
    /// Where the time goes.
    pub stages: Option<StageTable>,
    /// Memory of the GPU as a whole.
    pub device_memory: Option<DeviceMemory>,
    /// Clips and objects of which a row has numbers.
    #[serde(skip)]
    pub objects: BTreeSet<(String, String)>,
}

impl Group {
    /// Mean of a column.
    pub fn mean(&self, column: &str) -> Option<f64> {
        self.stats.get(column).map(|stat| stat.mean)
    }

    /// Largest of a column.
    pub fn max(&self, column: &str) -> Option<f64> {
        self.stats.get(column).map(|stat| stat.max)
    }

    /// Name with the platform.
    pub fn full_name(&self) -> String {
        format!("{} · {}", self.name, self.platform)
    }

    /// Frames overlap: there are intervals between masks and no latencies.
    pub fn overlapping(&self) -> bool {
        self.conditions.get("mode") == Some("throughput")
    }
}

/// Statistics of values; `None` without any.
pub fn stat(values: &[f64]) -> Option<Stat> {
    Some(Stat {
        n: values.len(),
        mean: stats::mean(values)?,
        std: stats::population_std(values)?,
        min: stats::min(values)?,
        max: stats::max(values)?,
        median: stats::median(values)?,
    })
}
