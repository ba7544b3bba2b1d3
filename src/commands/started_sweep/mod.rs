/*!
What `compare --sweep` and `experiment --sweep` share: measure every point in turn, judge, record a
report of each, write the tables and the page.
*/

pub(in crate::commands) mod flags;
mod record;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use crate::commands::Outcome;
use crate::compare::measure::{self, Plan};
use host::printable::printable;
use host::shell;
use report::chart::Style;
use report::compare::document;
use report::compare::judge::{self, SWEEP_FORMAT, SweepResult, SweepRow};
use report::compare::sweep::{Axis, Combination};
use report::nsys::Nsys;
use report::{Figures, now};
use vos::dataset;
use vos::files::atomic;

/// The page.
const PAGE: &str = "sweep.html";

/// A sweep, resolved.
pub(in crate::commands) struct SweepWork {
    /// The swept settings.
    pub axes: Vec<Axis>,
    /// Every combination, in the order of the plan's sides.
    pub combinations: Vec<Combination>,
    /// What is measured.
    pub plan: Plan,
    /// Records a report of each point.
    pub nsys: Option<Nsys>,
    /// The command line, for the files.
    pub command: String,
}

/// A finished sweep.
pub(in crate::commands) struct Swept {
    /// Its rows.
    pub result: SweepResult,
    /// The written files, the page last.
    pub files: Vec<PathBuf>,
}

/// Measures what is missing, and writes everything that is there.
///
/// # Errors
/// The split or the folder cannot be used. A point that fails is a row that says so.
pub(in crate::commands) fn run(work: &SweepWork, say: &mut dyn FnMut(&str)) -> Result<Swept> {
    let out_dir = &work.plan.out_dir;
    let split = dataset::open(&work.plan.clips.split_dir, &work.plan.clips.split_name)?;
    let measured = measure::run(&work.plan, say)?.measured;
    let set = measured.set(out_dir)?;
    let points = (work.axes.as_slice(), work.combinations.as_slice());
    let mut rows = judge::sweep(&set, split.as_ref(), points, out_dir)?;
    record::find(work, &mut rows);
    let mut result = SweepResult {
        format: SWEEP_FORMAT.to_owned(),
        segtrt: env!("CARGO_PKG_VERSION").to_owned(),
        command: work.command.clone(),
        measured_on: set.dates,
        axes: work.axes.clone(),
        rows,
    };
    let mut files = document::sweep::write(out_dir, &result)?;
    if let Some(nsys) = &work.nsys {
        record::record(work, nsys, &mut result.rows, say)?;
        files = document::sweep::write(out_dir, &result)?;
    }
    files.push(page(work)?);
    Ok(Swept { result, files })
}

/// The page of the folder.
fn page(work: &SweepWork) -> Result<PathBuf> {
    let out_dir = &work.plan.out_dir;
    let inputs = report::read(&[out_dir.display().to_string()], &[])?;
    let report = report::build(inputs, None, now());
    let axes: Vec<String> = work.axes.iter().map(ToString::to_string).collect();
    let title = format!("Sweep of {}", axes.join(" × "));
    let text = report::render(&report, &Figures::of(&report, Style::Page), &title);
    let path = out_dir.join(PAGE);
    atomic::write(&path, |out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(path)
}

impl Swept {
    /// Prints the table, the sentences and the files; how the sweep ended.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(in crate::commands) fn show(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", printable(&document::sweep::render(&self.result)))?;
        for remark in document::sweep::remarks(&self.result) {
            writeln!(out, "{}", printable(&remark))?;
        }
        for path in &self.files {
            writeln!(out, "{}", printable(&path.display().to_string()))?;
        }
        Ok(out.flush()?)
    }

    /// Says on standard error what is missing, and how to read the reports; how the sweep ended.
    pub(in crate::commands) fn finish(&self) -> Outcome {
        let rows = &self.result.rows;
        for row in rows {
            if let Some(why) = &row.stopped_early {
                eprintln!("{} {}: {why}", row.model, row.combination);
            }
        }
        if let Some(page) = self.files.last()
            && rows.iter().any(|row| row.nsys_report.is_some())
        {
            let folder = page.with_file_name(record::FOLDER);
            eprintln!("nsys reports side by side: segtrt nsys {}", shell::path(&folder));
        }
        let sound = |row: &SweepRow| row.is_sound() && row.no_nsys_report.is_none();
        if rows.iter().all(sound) { Outcome::Done } else { Outcome::PartlyFailed }
    }
}
