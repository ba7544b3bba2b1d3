/*!
What a report is made from: run folders and CSV files of segtrt and of the Python predecessor,
`comparison.json` files with drift curves, summaries of Nsight Systems reports.

Reading is lenient where files differ by age and strict about numbers: a column that is not there,
an empty field and a word where a number belongs all mean 'not measured', never zero. A file that
cannot be read is told of and keeps no other from being read.
*/

mod comparison;
mod find;
mod labels;
mod nsys;
mod rows;
mod sidecar;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use serde_json::{Map, Value};

pub use comparison::{DriftCurve, Unproven};
pub use nsys::{NsysOperation, NsysReport};
pub use rows::{Believed, Row};
pub use sidecar::{Pass, StageSum};

/// Everything that was read.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Run folders and tables, in the order given.
    pub sources: Vec<Source>,
    /// Curves of every comparison.
    pub drift: Vec<DriftCurve>,
    /// Sides of comparisons whose masks are not the reference's.
    pub unproven: Vec<Unproven>,
    /// What is to be said of sides that have the original's masks at their precision instead.
    pub as_original: Vec<String>,
    /// Summaries of profiler reports.
    pub nsys: Vec<NsysReport>,
    /// What could not be read, in words.
    pub problems: Vec<String>,
}

/// One run folder, or one table by itself.
#[derive(Debug, Default)]
pub struct Source {
    /// The table.
    pub path: PathBuf,
    /// What the run is called where its rows name no platform.
    pub label: String,
    /// The user chose the name: it goes before what the run says of itself.
    pub named: bool,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Recorded passes with their frames' times; empty without a sidecar.
    pub passes: Vec<Pass>,
    /// The sidecar without its passes; empty without one.
    pub facts: Map<String, Value>,
    /// `experiment_config.txt` as pairs.
    pub experiment: Vec<(String, String)>,
}

impl Source {
    /// Whether the rows are the Python predecessor's: it had no column `status`.
    pub fn is_predecessors(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| !row.has_column("status"))
    }

    /// A member of the sidecar's environment, such as `hostname`.
    pub fn environment(&self, name: &str) -> Option<&Value> {
        self.facts.get("environment")?.get(name)
    }
}

/// Reads everything under `given` (folders, CSV files, comparison files, each as it is or as
/// `LABEL=PATH`) and the profiler summaries `nsys`.
///
/// # Errors
/// Nothing at all could be read; the message has every reason.
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
        // A folder given twice, or once by itself and once inside another, must not count twice.
        let place = std::fs::canonicalize(&thing.path).unwrap_or_else(|_| thing.path.clone());
        if seen.contains(&place) {
            inputs
                .problems
                .push(format!("{} was given twice and is read once", thing.path.display()));
            continue;
        }
        seen.push(place);
        match thing.kind {
            find::Kind::Comparison => match comparison::read(&thing.path) {
                Ok(comparison) => {
                    inputs.drift.extend(comparison.drift);
                    inputs.unproven.extend(comparison.unproven);
                    inputs.as_original.extend(comparison.as_original);
                }
                Err(error) => inputs.problems.push(format!("{error:#}")),
            },
            find::Kind::Table => match source(&thing.path, label, &mut inputs.problems) {
                Ok(source) => {
                    inputs.sources.push(Source { named: thing.label.is_some(), ..source })
                }
                Err(error) => inputs.problems.push(format!("{error:#}")),
            },
        }
    }
    for path in nsys {
        match nsys::read(path) {
            Ok(reports) => inputs.nsys.extend(reports),
            Err(error) => inputs.problems.push(format!("{error:#}")),
        }
    }
    for source in &mut inputs.sources {
        doubt(source, &inputs.unproven);
    }
    if inputs.sources.is_empty() && inputs.drift.is_empty() && inputs.nsys.is_empty() {
        anyhow::bail!("there is nothing to report on: {}", inputs.problems.join("; "));
    }
    Ok(inputs)
}

/// No speed stands beside a failed equality: rows of a side that a comparison found wanting are not
/// to be believed.
fn doubt(source: &mut Source, unproven: &[Unproven]) {
    let Some(Ok(folder)) = source.path.parent().map(std::fs::canonicalize) else { return };
    for side in unproven.iter().filter(|side| side.folders.contains(&folder)) {
        let reason: Arc<str> = side.why.as_str().into();
        for row in source.rows.iter_mut().filter(|row| row.key().2 == side.model) {
            row.doubt(&reason);
        }
    }
}

/// Reads a table and what lies beside it.
fn source(table: &Path, label: String, problems: &mut Vec<String>) -> Result<Source> {
    let rows = rows::read(table)?;
    let folder = table.parent().unwrap_or(Path::new("."));
    let mut source = Source { path: table.to_owned(), label, rows, ..Source::default() };
    // A table by another name, such as a merged one, may lie beside a sidecar that is not its own.
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
