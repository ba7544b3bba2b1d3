/*!
Finds run folders at any depth, tables and comparison files below a path.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::sweep::is_sweep;
use crate::compare::document::sweep::FILE_NAME as SWEEP;
use vos::files::{MASKS, is_previous};
use vos::overlay::THUMBNAILS;

/// Tables of a run folder, the best first: the summary contains the profile's columns and quality.
const RUN_TABLES: [&str; 3] =
    ["sav_benchmark_summary.csv", "jetson_benchmark_summary.csv", "profile_summary.csv"];
const COMPARISON: &str = "comparison.json";
const EXPERIMENT: &str = "experiment_config.txt";
/// Folders of a run with thousands of files and no table.
const NOT_ENTERED: [&str; 6] = [MASKS, THUMBNAILS, "nsight_reports", "overlays", "frames", "worst"];
/// Depth of `<split>/<experiment>/profile_outputs` and of a comparison's `<side>/round_<k>`, with a
/// margin.
const DEPTH: usize = 5;

/// FileKind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Rows.
    Table,
    /// `comparison.json`.
    Comparison,
    /// Runs of `segtrt history`.
    History,
    /// `sweep.json`.
    Sweep,
}

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// Its kind.
    pub kind: FileKind,
    /// The user's name for it.
    pub label: Option<String>,
}

/// Whether the file name is that of a run's table.
pub fn is_run_table(path: &Path) -> bool {
    path.file_name().is_some_and(|name| RUN_TABLES.iter().any(|table| name == *table))
}

/// The files of one argument, `PATH` or `LABEL=PATH`.
///
/// # Errors
/// The path does not exist, or contains no results.
pub fn find(given: &str) -> Result<Vec<Found>> {
    let (label, path) = match given.split_once('=') {
        // A path may contain an equals sign.
        Some((label, path)) if !Path::new(given).exists() && !label.is_empty() => {
            (Some(label.to_owned()), PathBuf::from(path))
        }
        _ => (None, PathBuf::from(given)),
    };
    let shown = path.display();
    let meta = match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "{shown} does not exist; expected a run folder, a CSV file, comparison.json or a \
             history. Make one: segtrt bench --split-dir DIR --out-dir OUT"
        ),
        meta => meta.with_context(|| format!("cannot read {shown}"))?,
    };
    let mut files = Vec::new();
    if meta.is_dir() {
        walk(&path, DEPTH, &mut files);
        if files.is_empty() {
            bail!(
                "{} has no results; expected one of {} in it or in a folder below; `segtrt bench \
                 --out-dir` writes one",
                path.display(),
                RUN_TABLES.join(", ")
            );
        }
    } else {
        let is =
            |kind: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(kind));
        let kind = match (is("json"), is("jsonl")) {
            (true, _) if is_sweep(&path) => FileKind::Sweep,
            (true, _) => FileKind::Comparison,
            (_, true) => FileKind::History,
            _ => FileKind::Table,
        };
        files.push((kind, path));
    }
    Ok(files.into_iter().map(|(kind, path)| Found { path, kind, label: label.clone() }).collect())
}

fn walk(folder: &Path, depth: usize, files: &mut Vec<(FileKind, PathBuf)>) {
    let comparison = folder.join(COMPARISON);
    if comparison.is_file() {
        files.push((FileKind::Comparison, comparison));
    }
    let sweep = folder.join(SWEEP);
    if sweep.is_file() {
        files.push((FileKind::Sweep, sweep));
    }
    if let Some(table) =
        RUN_TABLES.iter().map(|name| folder.join(name)).find(|table| table.is_file())
    {
        files.push((FileKind::Table, table));
        return;
    }
    if depth == 0 {
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut below: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        // A link may lead back to a folder above.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            !name.starts_with('.') && !NOT_ENTERED.contains(&name.as_ref()) && !is_previous(&name)
        })
        .map(|entry| entry.path())
        .collect();
    below.sort();
    for folder in below {
        walk(&folder, depth - 1, files);
    }
}

/// `experiment_config.txt` of this folder or its parent, as pairs.
pub fn experiment_config(folder: &Path) -> Option<Vec<(String, String)>> {
    let above = folder.parent();
    let text = [Some(folder), above]
        .into_iter()
        .flatten()
        .find_map(|folder| std::fs::read_to_string(folder.join(EXPERIMENT)).ok())?;
    let pairs = text.lines().filter(|line| !line.starts_with('=')).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    });
    Some(pairs.collect())
}
