/*!
A group: the rows of one model under one set of conditions on one platform, and their statistics.
*/

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::bandwidth::Bandwidth;
use super::clip_sizes::OfSize;
use super::conditions::Conditions;
use super::frames::Frames;
use super::memory::DeviceMemory;
use super::platforms::PlaceKind;
use super::stages::StageTable;
use super::stat::Stat;
use crate::input::Validity;
use vos::record::Mode;

/// Number of rows by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// All.
    pub rows: usize,
    /// With numbers.
    pub measured: usize,
    /// Distinct objects of the rows: fewer than rows if a table has a row for each pass.
    pub objects: usize,
    /// Objects with a measured row.
    pub objects_measured: usize,
    /// VALID rows.
    pub valid: usize,
    /// INVALID rows.
    pub invalid: usize,
    /// Rows with the verdict `-`.
    pub unjudged: usize,
    /// Measured rows of tables without verdicts.
    pub no_verdict: usize,
}

/// Why rows are INVALID or have no numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// Their validity.
    pub state: Validity,
    /// The reason in the table.
    pub text: String,
    /// Rows with the same reason.
    pub rows: usize,
}

/// A code of reasons with the number of its rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReasonCode {
    /// Their validity.
    pub state: Validity,
    /// The code, such as `unsteady`; the whole reason if it has none.
    pub code: String,
    /// Rows with it.
    pub rows: usize,
    /// The sentence of the row with the largest percentage.
    pub worst: String,
}

/// Rows with the same model, conditions and platform.
#[derive(Debug, Serialize)]
pub struct Group {
    /// Model tag, and the conditions that distinguish it on its platform.
    pub name: String,
    /// Model tag.
    pub model: String,
    /// Platform, with the host's name if there are several hosts of that platform.
    pub platform: String,
    /// Host's name, if known.
    pub hostname: Option<String>,
    /// What the platform's name stands for.
    pub place: PlaceKind,
    /// It is a side of a comparison, and the platform is the side's name.
    pub side: bool,
    /// The number of its colour on the page.
    #[serde(skip)]
    pub series: usize,
    /// The conditions that all rows share.
    pub conditions: Conditions,
    /// Description of the weights, if the run has one.
    pub weights: Option<String>,
    /// Rows by outcome.
    pub counts: Counts,
    /// Every measured row is INVALID: the numbers must not be used.
    pub invalid: bool,
    /// The rows are the Python predecessor's, whose timed region differs.
    pub predecessor: bool,
    /// Statistics by column.
    pub stats: BTreeMap<String, Stat>,
    /// The largest reading of each sensor over the passes, by the sidecar's names.
    pub observed_max: BTreeMap<String, f64>,
    /// The driver's facts of the GPU on which all runs of the group agree.
    pub gpu_facts: BTreeMap<String, f64>,
    /// Bandwidth against its peak.
    pub bandwidth: Bandwidth,
    /// Words of the column `throttle` with their number of rows, `none` omitted.
    pub throttle: BTreeMap<String, usize>,
    /// VALID rows that reached the power limit: their speed is the one that the board sustains
    /// there.
    pub power_limited: usize,
    /// Rows with a reading of the throttle sensor.
    pub throttle_rows: usize,
    /// Reasons, the most frequent first.
    pub reasons: Vec<Reason>,
    /// The codes of the reasons, the most frequent first.
    pub codes: Vec<ReasonCode>,
    /// Frame times of all passes.
    pub frames: Option<Frames>,
    /// Stages of a frame's time.
    pub stages: Option<StageTable>,
    /// Statistics of the rows by the size of their clips.
    #[serde(skip)]
    pub by_size: Vec<OfSize>,
    /// Memory of the GPU as a whole.
    pub device_memory: Option<DeviceMemory>,
    /// Clips and objects with a measured row.
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

    /// Frames overlap, so there are intervals between masks and no latencies.
    pub fn overlapping(&self) -> bool {
        self.conditions.get("mode").is_some_and(Mode::overlaps)
    }
}
