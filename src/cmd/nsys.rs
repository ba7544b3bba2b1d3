/*!
`segtrt nsys`: read reports, show where the time goes, compare them.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{Outcome, nsys_screen as screen};
use crate::cli::{DiffArgs, NsysArgs, NsysCommand, ViewArgs};
use host::UsageError;
use host::printable::printable;
use report::nsys::{
    Analysis, Filter, Input, Options, Ranking, Table, analyse, compare, difference, inputs, render,
    side_by_side,
};

/// Rows of a table on the screen unless told otherwise.
const USUAL_TOP: usize = 15;

/// Reads the reports; one that cannot be read does not keep the others from it.
pub fn run(args: NsysArgs) -> Result<Outcome> {
    match args.command {
        Some(NsysCommand::Diff(args)) => diff(args),
        None => show(&args.reports, &args.view),
    }
}

/// What was read and what was not.
struct Read {
    reports: Vec<Analysis>,
    failed: Vec<(PathBuf, String)>,
}

fn read(found: &[Input], view: &ViewArgs) -> Read {
    let options = Options {
        asked: view.report.clone(),
        filter: Filter { window: view.time, range: view.range.clone() },
        with_warmup: view.with_warmup,
        least_gap: view.gap,
    };
    let mut read = Read { reports: Vec::new(), failed: Vec::new() };
    for input in found {
        match analyse(input, &options) {
            Ok(analysis) => read.reports.push(analysis),
            Err(error) => read.failed.push((input.path.clone(), format!("{error:#}"))),
        }
    }
    read
}

fn show(paths: &[PathBuf], view: &ViewArgs) -> Result<Outcome> {
    let read = read(&inputs(paths)?, view);
    if let ([], [(_, error)], false) = (read.reports.as_slice(), read.failed.as_slice(), view.json)
    {
        bail!("{error}");
    }
    let compared = (read.reports.len() > 1).then(|| compared(&read.reports));
    let fastest = compared.as_ref().and_then(|compared| compared.as_ref().ok());
    if view.json {
        print_json(&read, fastest, &[], view)?;
    } else {
        match read.reports.as_slice() {
            [only] => print_tables(&only.tables, view)?,
            several => print_tables(&side_by_side(&screen::columns(several)), view)?,
        }
        screen::sentences(&read.reports, &read.failed, compared.as_ref())?;
    }
    if let Some(folder) = &view.csv {
        print_files(&render::csv(folder, &read.reports, top(view))?, view)?;
    }
    Ok(outcome(&read))
}

fn diff(args: DiffArgs) -> Result<Outcome> {
    let DiffArgs { before, after, view } = args;
    let mut found = [one(&before)?, one(&after)?];
    if found[0].label == found[1].label {
        for input in &mut found {
            input.label = input.path.display().to_string();
        }
    }
    let read = read(&found, &view);
    let [first, second] = read.reports.as_slice() else {
        let errors: Vec<&str> = read.failed.iter().map(|(_, error)| error.as_str()).collect();
        bail!("{}", errors.join("\nError: "));
    };
    let changes = difference(first, second);
    let compared = compared(&read.reports);
    if view.json {
        print_json(&read, compared.as_ref().ok(), &changes, &view)?;
    } else {
        let columns = screen::columns(&read.reports);
        let lettered = columns.first().zip(columns.get(1));
        let shown = lettered.map_or_else(Vec::new, |(first, second)| difference(first, second));
        print_tables(&shown, &view)?;
        screen::sentences(&read.reports, &read.failed, Some(&compared))?;
    }
    if let Some(folder) = &view.csv {
        print_files(&render::csv_of(folder, &changes, top(&view))?, &view)?;
    }
    Ok(outcome(&read))
}

/// The report that a path means.
fn one(path: &Path) -> Result<Input> {
    let found = inputs(&[path.to_owned()])?;
    match <[Input; 1]>::try_from(found) {
        Ok([only]) => Ok(only),
        Err(several) => bail!(UsageError(format!(
            "a difference is of two reports, {} holds {}; name one of them",
            path.display(),
            several.len()
        ))),
    }
}

/// The fastest; a report of a failed program is no candidate for it.
fn compared(reports: &[Analysis]) -> Result<Ranking, String> {
    if let Some(report) = reports.iter().find(|report| !report.faults.is_empty()) {
        return Err(format!("no fastest configuration: {} is not a sound report", report.label));
    }
    let of = |report: &Analysis| (report.label.clone(), report.findings.clone());
    compare(&reports.iter().map(of).collect::<Vec<_>>())
}

fn top(view: &ViewArgs) -> Option<usize> {
    view.top.map(|top| top as usize)
}

fn print_json(
    read: &Read,
    fastest: Option<&Ranking>,
    changes: &[Table],
    view: &ViewArgs,
) -> Result<()> {
    let document = render::json(&read.reports, &read.failed, fastest, changes, top(view));
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &document)?;
    Ok(writeln!(out)?)
}

fn print_tables(tables: &[Table], view: &ViewArgs) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for table in tables {
        writeln!(out, "{}", printable(&render::text(table, top(view).unwrap_or(USUAL_TOP))))?;
    }
    Ok(())
}

/// Not to standard output where a JSON document is printed there.
fn print_files(files: &[PathBuf], view: &ViewArgs) -> Result<()> {
    for file in files {
        match view.json {
            true => eprintln!("{}", file.display()),
            false => println!("{}", file.display()),
        }
    }
    Ok(())
}

fn outcome(read: &Read) -> Outcome {
    let sound =
        read.failed.is_empty() && read.reports.iter().all(|report| report.faults.is_empty());
    if sound { Outcome::Done } else { Outcome::PartlyFailed }
}
