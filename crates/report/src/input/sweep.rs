/*!
`sweep.json`: the result of `segtrt compare --sweep` and `segtrt experiment --sweep`.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;

use crate::compare::document::sweep::FILE_NAME;
use crate::compare::judge::{Outcome, SWEEP_FORMAT, SweepResult, SweepRow};

/// One sweep.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReadSweep {
    /// The file.
    pub path: PathBuf,
    /// Its short name.
    pub label: String,
    /// Its content.
    pub result: SweepResult,
}

/// Whether the file name is that of a sweep.
pub fn is_sweep(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == FILE_NAME)
}

/// Reads the file.
///
/// # Errors
/// It cannot be read, is no sweep, or has rows that are not of its points.
pub fn read(path: &Path, label: String) -> Result<ReadSweep> {
    let again = "repeat the command of the sweep: it measures nothing again";
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let value: Value = serde_json::from_str(&text)
        .with_context(|| format!("{} is not JSON; {again}", path.display()))?;
    let format = value.get("format").and_then(Value::as_str).unwrap_or("none").to_owned();
    if format != SWEEP_FORMAT {
        bail!("{}: found format {format:?}, expected {SWEEP_FORMAT:?}; {again}", path.display());
    }
    let result: SweepResult = serde_json::from_value(value)
        .with_context(|| format!("{} is damaged; {again}", path.display()))?;
    let axes = result.axes.as_slice();
    let points = axes
        .iter()
        .try_fold(1_usize, |product, axis| product.checked_mul(axis.values.len()))
        .unwrap_or(0);
    let is_of_axes = |row: &SweepRow| {
        row.point.len() == axes.len()
            && row.point.iter().zip(axes).all(|(coordinate, axis)| {
                coordinate.setting == axis.setting && axis.values.contains(&coordinate.value)
            })
    };
    let is_whole = axes.iter().all(|axis| !axis.values.is_empty())
        && result.models().iter().all(|(_, rows)| rows.len() == points)
        && result.rows.iter().all(is_of_axes);
    if result.rows.is_empty() || !is_whole {
        bail!("{}: its rows are not the points of its axes; {again}", path.display());
    }
    Ok(ReadSweep { path: path.to_owned(), label, result })
}

impl ReadSweep {
    /// The row that was measured in this folder, by model, and why its masks are not proven.
    pub fn rows_in(&self, folder: &Path) -> Vec<(&SweepRow, Option<String>)> {
        let near = self.path.parent().unwrap_or(Path::new("."));
        let at = |path: &Path| std::fs::canonicalize(near.join(path)).ok();
        let is_there = |row: &&SweepRow| {
            // A round that failed is in no list, but lies with the others.
            let rounds = Path::new("runs").join(&row.model).join(&row.combination);
            at(&rounds).is_some_and(|rounds| folder.starts_with(rounds))
                || row.folders.iter().any(|own| at(Path::new(own)).as_deref() == Some(folder))
        };
        let unproven = |row: &SweepRow| {
            let is_so = matches!(
                row.outcome,
                Outcome::Mismatch | Outcome::ProvesNothing | Outcome::Refused
            );
            let why = row.why.as_deref().unwrap_or("no reason given");
            is_so.then(|| format!("{}: {why}", row.outcome.as_str()))
        };
        self.result.rows.iter().filter(is_there).map(|row| (row, unproven(row))).collect()
    }
}
