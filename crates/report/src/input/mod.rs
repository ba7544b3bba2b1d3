/*!
Reads the sources of a report: run folders and CSV files of segtrt and of the Python predecessor,
`comparison.json` files with drift curves, sweeps, histories, summaries of Nsight Systems reports.

Older files may lack columns. Numbers are strict: a missing column, an empty field and a word in
place of a number mean 'not measured', never zero. A file that cannot be read is reported, and the
others are still read.
*/

mod comparison;
mod find;
mod labels;
mod nsys;
mod nsys_tables;
mod rows;
mod sidecar;
pub(crate) mod sides;
mod sweep;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use serde_json::{Map, Value};

use crate::compare::judge::SideReport;
use crate::regression::History;

pub use comparison::{DriftCurve, ReadComparison, Unproven};
pub use nsys::{NsysOperation, NsysReport};
pub use nsys_tables::{NsysPlatform, NsysRow};
pub use rows::{ResultRow, TEXT_COLUMNS, Validity};
pub use sidecar::{RecordedPass, StageSum};
pub use sweep::ReadSweep;

/// The content of all sources.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Run folders and tables, in the order given.
    pub sources: Vec<RunSource>,
    /// Comparisons.
    pub comparisons: Vec<ReadComparison>,
    /// Summaries of profiler reports.
    pub nsys: Vec<NsysReport>,
    /// Their ranges by platform.
    pub nsys_platforms: Vec<NsysPlatform>,
    /// Runs of `segtrt history`.
    pub histories: Vec<History>,
    /// Sweeps.
    pub sweeps: Vec<ReadSweep>,
    /// Files that could not be read, with the reason.
    pub problems: Vec<String>,
}

/// One run folder, or one table by itself.
#[derive(Debug, Default)]
pub struct RunSource {
    /// The table.
    pub path: PathBuf,
    /// The run's name if its rows name no platform.
    pub label: String,
    /// The user chose the name: it replaces the run's platform.
    pub named: bool,
    /// The side of a comparison that these rows belong to, by the side's shown name.
    pub side: Option<String>,
    /// What the comparison computed of that side, by model tag.
    pub compared: Vec<(String, SideReport)>,
    /// Its rows.
    pub rows: Vec<ResultRow>,
    /// Recorded passes with their frames' times; empty without a sidecar.
    pub passes: Vec<RecordedPass>,
    /// The sidecar without its passes; empty without one.
    pub facts: Map<String, Value>,
    /// `experiment_config.txt` as pairs.
    pub experiment: Vec<(String, String)>,
}

impl RunSource {
    /// Whether the rows are the Python predecessor's, whose tables have no column `status`.
    pub fn is_predecessors(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| !row.has_column("status"))
    }

    /// A member of the sidecar's environment, such as `hostname`.
    pub fn environment(&self, name: &str) -> Option<&Value> {
        self.facts.get("environment")?.get(name)
    }
}

/// Reads everything in `given` (folders, CSV files, comparison files, sweeps, histories, each
/// possibly as `LABEL=PATH`) and the profiler summaries `nsys`.
///
/// # Errors
/// Nothing could be read; the message has every reason.
pub fn read(given: &[String], nsys: &[PathBuf]) -> Result<Inputs> {
    let mut inputs = Inputs::default();
    let mut found = Vec::new();
    for text in given {
        match find::find(text) {
            Ok(things) => found.extend(things),
            Err(error) => inputs.problems.push(format!("{error:#}")),
        }
    }
    let names = labels::labels(&found);
    let mut seen = Vec::new();
    for (thing, label) in found.into_iter().zip(names) {
        // A folder that is named twice, or that is inside another named folder, counts once.
        let place = std::fs::canonicalize(&thing.path).unwrap_or_else(|_| thing.path.clone());
        if seen.contains(&place) {
            inputs
                .problems
                .push(format!("{} was named twice and counts once", thing.path.display()));
            continue;
        }
        seen.push(place);
        match thing.kind {
            find::FileKind::Comparison => match comparison::read(&thing.path, label) {
                Ok(comparison) => inputs.comparisons.push(comparison),
                Err(error) => inputs.problems.push(format!("{error:#}")),
            },
            find::FileKind::History => match History::read(&thing.path) {
                Ok(history) if history.entries.is_empty() => {
                    inputs.problems.push(format!("{} has no runs", thing.path.display()));
                }
                Ok(history) => inputs.histories.push(history),
                Err(error) => inputs.problems.push(format!("{error:#}")),
            },
            find::FileKind::Sweep => match sweep::read(&thing.path, label) {
                Ok(sweep) => inputs.sweeps.push(sweep),
                Err(error) => inputs.problems.push(format!("{error:#}")),
            },
            find::FileKind::Table => match source(&thing.path, label, &mut inputs.problems) {
                Ok(source) => {
                    inputs.sources.push(RunSource { named: thing.label.is_some(), ..source })
                }
                Err(error) => inputs.problems.push(format!("{error:#}")),
            },
        }
    }
    for path in nsys {
        match nsys::read(path) {
            Ok((reports, platforms)) => {
                inputs.nsys.extend(reports);
                inputs.nsys_platforms.extend(platforms);
            }
            Err(error) => inputs.problems.push(format!("{error:#}")),
        }
    }
    for source in &mut inputs.sources {
        inputs.comparisons.iter().for_each(|comparison| join(source, comparison));
        inputs.sweeps.iter().for_each(|sweep| join_sweep(source, sweep));
    }
    let Inputs { sources, comparisons, nsys, histories, sweeps, .. } = &inputs;
    let results = comparisons.is_empty() && histories.is_empty() && sweeps.is_empty();
    if sources.is_empty() && results && nsys.is_empty() {
        anyhow::bail!("there is nothing to report on: {}", inputs.problems.join("; "));
    }
    Ok(inputs)
}

/// Tells a source what a comparison knows of its rows: the side, its scores, and whether its masks
/// are proven. The speed of other rows must not be used.
fn join(source: &mut RunSource, comparison: &ReadComparison) {
    let Some(Ok(folder)) = source.path.parent().map(std::fs::canonicalize) else { return };
    for (model, side) in comparison.sides() {
        if !comparison.folders(side).contains(&folder) {
            continue;
        }
        if !source.named {
            source.side = Some(sides::name(&comparison.result, side));
        }
        source.compared.push((model.model.clone(), side.clone()));
    }
    // The reference's run need not be a side.
    let inside = std::fs::canonicalize(comparison.path.parent().unwrap_or(Path::new(".")));
    if source.side.is_none()
        && !source.named
        && inside.is_ok_and(|inside| folder.starts_with(inside))
    {
        source.side = sides::of_run(source);
    }
    for side in comparison.unproven().filter(|side| side.folders.contains(&folder)) {
        let reason: Arc<str> = side.why.as_str().into();
        for row in source.rows.iter_mut().filter(|row| row.key().2 == side.model) {
            row.mark_unproven(&reason);
        }
    }
}

/// Tells a source which point of a sweep its rows are, and whether their masks are proven.
fn join_sweep(source: &mut RunSource, sweep: &ReadSweep) {
    let Some(Ok(folder)) = source.path.parent().map(std::fs::canonicalize) else { return };
    for (point, unproven) in sweep.rows_in(&folder) {
        if !source.named {
            source.side = Some(point.combination.clone());
        }
        if let Some(reason) = unproven.map(Arc::<str>::from) {
            for row in source.rows.iter_mut().filter(|row| row.key().2 == point.model) {
                row.mark_unproven(&reason);
            }
        }
    }
}

/// Reads a table and its sidecar.
fn source(table: &Path, label: String, problems: &mut Vec<String>) -> Result<RunSource> {
    let rows = rows::read(table)?;
    let folder = table.parent().unwrap_or(Path::new("."));
    let mut source = RunSource { path: table.to_owned(), label, rows, ..RunSource::default() };
    // A table with another name, such as a merged one, may be next to a sidecar of another run.
    if find::is_run_table(table) {
        let sidecar = folder.join("sidecar.json");
        if sidecar.exists() {
            match sidecar::read(&sidecar, problems) {
                Ok((facts, passes)) => {
                    source.facts = facts;
                    source.passes = passes;
                }
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        source.experiment = find::experiment_config(folder).unwrap_or_default();
    }
    Ok(source)
}

#[cfg(test)]
mod tests;
