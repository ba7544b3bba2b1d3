/*!
A comparison as files and tables: `comparison.json` with everything, `comparison.md` to paste,
`comparison.csv` and `comparison_drift.csv` to plot, a table for the screen.
*/

mod cells;
mod csv_files;
mod markdown;
mod remarks;
mod selections;
pub mod sweep;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::judge::Comparison;
use host::screen_table;
use vos::files::atomic;

pub use remarks::remarks;

/// The columns that a narrow terminal leaves out, the least important first.
const OPTIONAL: [&str; 8] = [
    cells::SETUP,
    cells::COMPILE,
    cells::FIRST_FRAME,
    cells::GPU_MEMORY,
    cells::ENERGY,
    cells::PRECISION,
    cells::TEACHER_FORCED,
    cells::LATENCIES,
];

/// The comparison's table on the screen.
///
/// J and F are by the official rules.
pub fn render(comparison: &Comparison) -> String {
    let (header, rows) = cells::cells(comparison);
    let at = |name: &&str| header.iter().position(|title| title == name);
    let optional: Vec<usize> = OPTIONAL.iter().filter_map(at).collect();
    let mut table = screen_table::table(header.clone(), 2..header.len()).optional(optional);
    for row in rows {
        table.add_row(row);
    }
    table.to_string()
}

/// Creates `out_dir` and writes every file into it. Returns their paths.
///
/// # Errors
/// The folder is not writable or the disk is full.
pub fn write(out_dir: &Path, comparison: &Comparison) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(out_dir).with_context(|| {
        format!("cannot create {}; choose another --out-dir", out_dir.display())
    })?;
    let at = |name: &str| out_dir.join(name);
    let paths = [
        at("comparison.md"),
        at("comparison.csv"),
        at("comparison_drift.csv"),
        at("comparison.json"),
    ];
    let [text, rows, drift, json] = &paths;
    atomic::write(text, |out| Ok(out.write_all(markdown::render(comparison).as_bytes())?))?;
    atomic::write(rows, |out| csv_files::write(out, comparison))?;
    atomic::write(drift, |out| csv_files::write_drift(out, comparison))?;
    atomic::write(json, |out| {
        serde_json::to_writer_pretty(&mut *out, comparison)?;
        Ok(out.write_all(b"\n")?)
    })?;
    Ok(paths.to_vec())
}
