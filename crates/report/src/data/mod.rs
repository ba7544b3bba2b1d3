/*!
What a report says, before anybody decides how it looks: groups of rows with their statistics,
distributions, stages, sensors, and what follows from them. The page and `--json` show the same.
*/

mod bandwidth;
mod best;
mod conditions;
mod frames;
mod gather;
mod group;
mod hints;
mod memory;
mod notes;
mod platforms;
mod sources;
mod stages;

use serde::Serialize;

pub use bandwidth::Bandwidth;
pub use best::Best;
pub use conditions::COLUMNS as CONDITIONS;
pub use frames::{Frames, Series};
pub use group::{Counts, Group, Reason, Stat};
pub use hints::Hint;
pub use memory::DeviceMemory;
pub use platforms::{PlatformCell, PlatformLine, PlatformTable};
pub use sources::SourceInfo;
pub use stages::{StageLine, StageTable};

use super::input::{DriftCurve, Inputs, NsysReport, Row, Unproven};
use super::targets::{self, Targets, Verdicts};

/// Everything on the page.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this program.
    pub segtrt: &'static str,
    /// Moment of the report, UTC.
    pub generated: String,
    /// What was read.
    pub sources: Vec<SourceInfo>,
    /// Rows of one model under one set of conditions on one platform, taken together.
    pub groups: Vec<Group>,
    /// Best of all groups that may be compared.
    pub best: Vec<Best>,
    /// Platform against platform.
    pub platforms: PlatformTable,
    /// Mask IoU against frame index.
    pub drift: Vec<DriftCurve>,
    /// Sides of comparisons whose masks are not the reference's.
    pub unproven: Vec<Unproven>,
    /// Profiles.
    pub nsys: Vec<NsysReport>,
    /// Targets, where asked for.
    pub targets: Option<Verdicts>,
    /// What slows a group down, with the evidence.
    pub hints: Vec<Hint>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// What could not be read.
    pub problems: Vec<String>,
    /// Every row.
    pub rows: Vec<RowEntry>,
}

/// A row and the group that it belongs to.
#[derive(Debug, Serialize)]
pub struct RowEntry {
    /// Index in [`Report::groups`].
    pub group: usize,
    /// Index in [`Report::sources`].
    pub source: usize,
    /// Its fields by column.
    #[serde(flatten, serialize_with = "row_fields")]
    pub row: Row,
}

/// Makes the report of what was read.
pub fn build(inputs: Inputs, targets: Option<&Targets>, generated: String) -> Report {
    let (groups, places) = gather::groups(&inputs.sources);
    let sources = inputs.sources.iter().map(sources::info).collect();
    let notes = notes::notes(&inputs, &groups);
    let mut hints = hints::hints(&groups);
    hints.extend(hints::of_profiles(&inputs.nsys));
    let rows =
        inputs.sources.into_iter().zip(places).enumerate().flat_map(|(source, (read, places))| {
            let entry = move |(row, group)| RowEntry { group, source, row };
            read.rows.into_iter().zip(places).map(entry).collect::<Vec<_>>()
        });
    let rows = rows.collect();
    let targets = targets.map(|targets| targets::judge(targets, &groups, &inputs.nsys));
    Report {
        segtrt: env!("CARGO_PKG_VERSION"),
        generated,
        sources,
        best: best::best(&groups),
        platforms: platforms::table(&groups),
        drift: inputs.drift,
        unproven: inputs.unproven,
        nsys: inputs.nsys,
        targets,
        hints,
        notes,
        problems: inputs.problems,
        rows,
        groups,
    }
}

/// Columns of words: a name may look like a number and is none.
const WORDS: [&str; 9] = [
    "video",
    "object",
    "model",
    "platform",
    "hostname",
    "timestamp",
    "experiment_name",
    "device",
    "reason",
];

fn row_fields<S: serde::Serializer>(row: &Row, serializer: S) -> Result<S::Ok, S::Error> {
    let value = |column: &str| match (row.number(column), row.text(column)) {
        (Some(number), _) if !WORDS.contains(&column) => number.into(),
        (_, Some(text)) => text.into(),
        (_, None) => serde_json::Value::Null,
    };
    serializer.collect_map(row.columns().into_iter().map(|column| (column, value(column))))
}

#[cfg(test)]
mod tests;
