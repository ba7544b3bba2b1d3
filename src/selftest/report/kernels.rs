/*!
The kernels' rows as a table and as CSV.
*/

use std::path::Path;

use anyhow::Result;

use crate::files::atomic;
use crate::screen_table;
use crate::selftest::{KernelReport, KernelRow, Timing, Verdict};

/// Renders the rows in their order, then the reasons of failures, and what was left out.
pub fn render(report: &KernelReport) -> String {
    let mut table = screen_table::dense(
        [
            "kernel",
            "case",
            "elements",
            "different",
            "error",
            "median µs",
            "p95 µs",
            "TFLOP/s",
            "verdict",
        ],
        2..8,
    );
    for row in &report.rows {
        let us = |get: fn(&Timing) -> f64| micros(row, get).unwrap_or_else(|| "-".to_owned());
        table.add_row([
            row.kernel.clone(),
            row.case.clone(),
            row.elements.to_string(),
            row.different.map_or_else(|| "-".to_owned(), |different| different.to_string()),
            row.error.map_or_else(|| "-".to_owned(), |error| format!("{error:.1e}")),
            us(|timing| timing.median_ms),
            us(|timing| timing.p95_ms),
            row.tflops.map_or_else(|| "-".to_owned(), |tflops| format!("{tflops:.0}")),
            row.verdict.word().to_owned(),
        ]);
    }
    let mut text = table.to_string();
    for row in report.rows.iter().filter(|row| row.verdict == Verdict::Failed) {
        let reason = row.reason.as_deref().unwrap_or("no reason was given");
        text += &format!("\nFAILED {} ({}): {reason}", row.kernel, row.case);
    }
    for skipped in &report.skipped {
        text += &format!("\nSKIPPED {skipped}");
    }
    text
}

fn micros(row: &KernelRow, get: fn(&Timing) -> f64) -> Option<String> {
    row.timing.map(|timing| format!("{:.2}", 1000.0 * get(&timing)))
}

/// Writes the rows to `path`, whole or not at all.
pub fn write_csv(path: &Path, report: &KernelReport) -> Result<()> {
    atomic::write(path, |out| {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record([
            "kernel",
            "case",
            "elements",
            "different",
            "error",
            "runs",
            "median_us",
            "p5_us",
            "p95_us",
            "tflops",
            "verdict",
            "reason",
            "device",
            "sm",
            "driver_cuda",
            "form",
        ])?;
        for row in &report.rows {
            let us = |get: fn(&Timing) -> f64| micros(row, get).unwrap_or_default();
            writer.write_record([
                row.kernel.clone(),
                row.case.clone(),
                row.elements.to_string(),
                row.different.map_or_else(String::new, |different| different.to_string()),
                row.error.map_or_else(String::new, |error| format!("{error:e}")),
                row.timing.map_or_else(String::new, |timing| timing.runs.to_string()),
                us(|timing| timing.median_ms),
                us(|timing| timing.p5_ms),
                us(|timing| timing.p95_ms),
                row.tflops.map_or_else(String::new, |tflops| format!("{tflops:.1}")),
                row.verdict.word().to_owned(),
                row.reason.clone().unwrap_or_default(),
                report.device.clone(),
                report.sm.to_string(),
                report.driver_cuda.clone(),
                row.library.as_ref().or(report.form.as_ref()).cloned().unwrap_or_default(),
            ])?;
        }
        Ok(writer.flush()?)
    })
}
