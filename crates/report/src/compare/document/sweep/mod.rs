/*!
A sweep as `sweep.json`, `sweep.csv`, `sweep.md` and a table on the screen.
*/

mod fit;
mod reading;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::compare::iou_format;
use crate::compare::judge::{Gain, SweepResult, SweepRow};
use host::screen_table;
pub use reading::{fastest_of, remarks, slowest_stages};
use vos::files::atomic;

/// The file with everything.
pub const FILE_NAME: &str = "sweep.json";

const COLUMNS: usize = 18;
const HEADER: [&str; COLUMNS] = [
    "model",
    "combination",
    "precision",
    "imgsz",
    "objects together",
    "FPS",
    "object frames / s",
    "× previous",
    "× first",
    "slowest stage",
    "p50 ms",
    "p99 ms",
    "GPU MiB allocated",
    "IoU mean / lowest",
    "J&F, %",
    "masks",
    "verdict",
    "nsys report",
];
/// Columns that a narrow terminal leaves out, the first of them first.
const OPTIONAL: [usize; 12] = [17, 3, 2, 14, 13, 12, 4, 5, 10, 11, 0, 8];

fn cells(row: &SweepRow) -> [String; COLUMNS] {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let speed = row.speed.as_ref();
    let equality = row.equality.as_ref();
    // A row that is its own reference has no comparison.
    let compared = equality.filter(|_| row.reference != row.combination);
    let stage = |(name, ms): &(String, f64)| format!("{name} {ms:.2} ms");
    let dash = || "-".to_owned();
    let gain = |gain: &Option<Gain>| gain.as_ref().map_or_else(dash, Gain::text);
    [
        row.model.clone(),
        row.combination.clone(),
        row.precision.clone(),
        if row.imgsz.is_empty() { dash() } else { row.imgsz.clone() },
        row.objects_together.to_string(),
        number(speed.map(|s| s.fps), 2),
        number(row.object_fps, 2),
        gain(&row.gain_to_previous),
        gain(&row.gain_to_first),
        row.slowest_stage.as_ref().map_or_else(dash, stage),
        number(speed.and_then(|s| s.p50_ms), 2),
        number(speed.and_then(|s| s.p99_ms), 2),
        number(speed.and_then(|s| s.gpu_alloc_mib), 0),
        compared.map_or_else(dash, |e| iou_format::pair(e.mean_iou, e.min_iou)),
        number(equality.and_then(|e| Some(e.scores?.jf)), 2),
        row.outcome.as_str().to_owned(),
        if speed.is_some() { row.verdict.judgement.as_str().to_owned() } else { dash() },
        row.nsys_report.clone().unwrap_or_else(dash),
    ]
}

/// The table on the screen.
pub fn render(result: &SweepResult) -> String {
    let mut table = screen_table::table(HEADER, 4..COLUMNS - 1).optional(OPTIONAL);
    for row in &result.rows {
        table.add_row(cells(row));
    }
    table.to_string()
}

/// Writes the files and returns their paths.
///
/// # Errors
/// The folder is not writable or the disk is full.
pub fn write(out_dir: &Path, result: &SweepResult) -> Result<Vec<PathBuf>> {
    let paths = ["sweep.md", "sweep.csv", FILE_NAME].map(|name| out_dir.join(name));
    let [text, table, json] = &paths;
    let line = |cells: &[String]| format!("| {} |", cells.join(" | ").replace('<', "&lt;"));
    let mut lines = vec![format!("Measured {}.", result.measured_on.join(", ")), String::new()];
    lines.extend([format!("    {}", result.command), String::new()]);
    lines.push(line(&HEADER.map(str::to_owned)));
    lines.push(format!("|{}|", ["---"; COLUMNS].join("|")));
    lines.extend(result.rows.iter().map(|row| line(&cells(row))));
    lines.push(String::new());
    lines.extend(remarks(result).iter().map(|remark| format!("- {remark}")));
    lines.push(String::new());
    atomic::write(text, |out| Ok(out.write_all(lines.join("\n").as_bytes())?))?;
    atomic::write(table, |out| {
        let mut csv = csv::Writer::from_writer(out);
        // A name for programs; the unit would put a comma into it.
        let swept = || result.axes.iter().map(|axis| axis.setting.name().to_owned());
        let header = HEADER.map(|title| title.trim_end_matches(", %").to_owned());
        csv.write_record(header.into_iter().chain(swept().map(|name| format!("swept {name}"))))?;
        for row in &result.rows {
            let values = row.point.iter().map(|coordinate| coordinate.value.clone());
            csv.write_record(cells(row).into_iter().chain(values))?;
        }
        Ok(csv.flush()?)
    })?;
    atomic::write(json, |out| Ok(serde_json::to_writer_pretty(out, result)?))?;
    Ok(paths.to_vec())
}
