/*!
The kernels' rows as a table and as CSV.
*/

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::selftest::{KernelReport, KernelRow, Timing, Verdict};
use host::screen_table;

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
    )
    .optional([2, 6, 3]);
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

/// The rows in a CSV file, each as soon as it is there: a test that is stopped leaves those that
/// were judged.
pub struct KernelsCsv {
    path: PathBuf,
    writer: csv::Writer<File>,
    /// Rows of the report that are written.
    rows: usize,
    /// What went wrong first; nothing is written after it.
    failed: Option<csv::Error>,
}

impl KernelsCsv {
    /// Makes the file anew, with its header.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path)
            .with_context(|| format!("cannot write {}; name another file", path.display()))?;
        let mut csv = Self {
            path: path.to_owned(),
            writer: csv::Writer::from_writer(file),
            rows: 0,
            failed: None,
        };
        csv.put(&[
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
        ]);
        csv.check()?;
        Ok(csv)
    }

    /// Writes the rows of the report that are new.
    pub fn hear(&mut self, report: &KernelReport) {
        for row in report.rows.get(self.rows..).unwrap_or_default() {
            let us = |get: fn(&Timing) -> f64| micros(row, get).unwrap_or_default();
            self.put(&[
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
            ]);
        }
        self.rows = report.rows.len();
    }

    /// The file, whole.
    ///
    /// # Errors
    /// A row could not be written.
    pub fn finish(mut self) -> Result<PathBuf> {
        self.check()?;
        Ok(self.path)
    }

    fn put<C: AsRef<[u8]>>(&mut self, cells: &[C]) {
        if self.failed.is_none() {
            let put = self.writer.write_record(cells);
            self.failed = put.and_then(|()| Ok(self.writer.flush()?)).err();
        }
    }

    fn check(&mut self) -> Result<()> {
        let failed = self.failed.take().map_or(Ok(()), Err);
        let path = self.path.display();
        failed.with_context(|| format!("cannot write {path}; it has the first rows alone"))
    }
}
