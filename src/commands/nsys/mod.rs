/*!
`segtrt nsys`: read reports, show where the time goes, compare them.
*/

mod screen;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use super::Outcome;
use crate::commands::headings::{DATA, OUTPUT};
use host::UsageError;
use host::printable::printable;
use report::nsys::{
    Analysis, Filter, Input, Options, Ranking, Table, analyse, as_reports, compare, difference,
    inputs, platforms, render, side_by_side,
};
use report::nsys::{ReportKind, Window};

/// Flags of `segtrt nsys`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  segtrt nsys out/nsight_reports\n  segtrt nsys bs01.nsys-rep \
                  bs16.nsys-rep --report nvtx,kernels --top 5\n  segtrt nsys run.nsys-rep --range \
                  track --csv tables\n  segtrt nsys 'RTX 3090=desktop' 'Jetson Orin=board' --report boxes\n  segtrt nsys diff before.nsys-rep \
                  after.nsys-rep\n\nReports are exported with nsys from NSYS_CMD, PATH or \
                  JetPack's folder; exports (.sqlite) need no nsys. Tables and columns are those \
                  of nsys stats. Exit code 1: a report is unreadable or empty, or its program \
                  failed."
)]
pub struct NsysArgs {
    /// Compare two reports.
    #[command(subcommand)]
    pub command: Option<NsysCommand>,
    /// Reports (.nsys-rep), exports (.sqlite) or folders of them; PLATFORM=PATH names the machine.
    #[arg(required = true, value_name = "[PLATFORM=]REPORT")]
    pub reports: Vec<PathBuf>,
    /// Selection and output.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// Subcommands of `segtrt nsys`.
#[derive(Debug, Subcommand)]
pub enum NsysCommand {
    /// Compare two reports, largest change first.
    #[command(
        after_help = "Example: segtrt nsys diff before.nsys-rep after.nsys-rep --report nvtx,kernels"
    )]
    Diff(DiffArgs),
}

/// The two reports of a difference.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The report before.
    pub before: PathBuf,
    /// The report after.
    pub after: PathBuf,
    /// Selection and output.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// Selection and output of tables.
#[derive(Clone, Debug, Args)]
pub struct ViewArgs {
    /// Tables, separated by commas: nvtx, kernels, memory, api, gaps, util, counters, boxes, hist,
    /// pace, map, copies [default: the first eight; files have all].
    #[arg(
        long, help_heading = DATA,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        hide_possible_values = true
    )]
    pub report: Vec<ReportKind>,
    /// Rows of each table [default: 15 on the screen, all in files].
    #[arg(long, help_heading = OUTPUT, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    pub top: Option<u32>,
    /// Only events inside ranges of this name, with or without domain.
    #[arg(long, help_heading = DATA, value_name = "NAME")]
    pub range: Option<String>,
    /// Only events wholly between two times of the session, such as 1.5:2, 800ms: or :2s. The
    /// default unit is seconds.
    #[arg(
        long,
        help_heading = DATA,
        value_name = "START:END",
        value_parser = parse_window,
        allow_hyphen_values = true
    )]
    pub time: Option<Window>,
    /// Include the warm-up passes of a bench in ranges, kernels, memory and API.
    #[arg(long, help_heading = DATA)]
    pub with_warmup: bool,
    /// Shortest GPU idle gap to list.
    #[arg(long, help_heading = DATA, default_value = "100us", value_parser = parse_time, value_name = "TIME")]
    pub gap: i64,
    /// Write each table to DIR/TABLE.csv, with nsys's names.
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// A stretch of time such as `1.5:2s`.
fn parse_window(text: &str) -> Result<Window, String> {
    let wrong = || format!("{text:?} is not START:END; write for example 1.5:2, 800ms: or :2s");
    let (start, end) = text.split_once(':').ok_or_else(wrong)?;
    let side = |side: &str| match side.trim() {
        "" => Ok(None),
        side => parse_time(side).map(Some),
    };
    let window = Window { start: side(start)?, end: side(end)? };
    match (window.start, window.end) {
        (None, None) => Err(wrong()),
        (Some(start), Some(end)) if start >= end => Err(format!("{text:?} ends before it begins")),
        _ => Ok(window),
    }
}

/// Nanoseconds of `2`, `2s`, `1.5ms`, `100us`, `7ns`.
fn parse_time(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_alphabetic());
    let scale = match &text[number.len()..] {
        "" | "s" => 1e9,
        "ms" => 1e6,
        "us" | "µs" => 1e3,
        "ns" => 1.0,
        unit => return Err(format!("{unit:?} in {text:?} is no unit; use s, ms, us or ns")),
    };
    let value: Option<f64> = number.trim().parse().ok();
    let value = value.map(|value| value * scale).filter(|ns| (0.0..9e18).contains(ns));
    value.map(|ns| ns.round() as i64).ok_or_else(|| {
        format!("{text:?} is no time; write a number that is not negative and s, ms, us or ns")
    })
}

/// Default number of rows of a table on the screen.
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
            [only] => print_tables(&shown(&only.tables, view), view)?,
            several => {
                print_tables(&shown(&side_by_side(&screen::columns(several)), view), view)?;
                print_platforms(several, view)?;
            }
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
        let changed = lettered.map_or_else(Vec::new, |(first, second)| difference(first, second));
        print_tables(&shown(&changed, &view), &view)?;
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

/// The tables for the screen: those asked for, else the usual ones.
fn shown(tables: &[Table], view: &ViewArgs) -> Vec<Table> {
    let kinds = ReportKind::value_variants().iter().filter(|kind| !kind.is_usual());
    let unusual: Vec<&str> = kinds.flat_map(|kind| kind.names()).copied().collect();
    let is_shown = |table: &&Table| !view.report.is_empty() || !unusual.contains(&table.name);
    tables.iter().filter(is_shown).cloned().collect()
}

/// The ranges of two or more platforms side by side, all reports of a platform together.
fn print_platforms(reports: &[Analysis], view: &ViewArgs) -> Result<()> {
    let [first, ..] = reports else { return Ok(()) };
    let mut tables = side_by_side(&as_reports(&platforms(reports), first));
    for table in &mut tables {
        table.title = format!("Platforms: {}", table.title).into();
    }
    print_tables(&tables, view)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_windows_two_ends() {
        assert_eq!(parse_time("1.5"), Ok(1_500_000_000));
        assert_eq!(parse_time("100us"), Ok(100_000));
        assert_eq!(parse_time("7 ns"), Ok(7));
        for wrong in ["", "-1", "nan", "1h", "ms", "1e99"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_window("800ms:"), Ok(Window { start: Some(800_000_000), end: None }));
        assert_eq!(parse_window(":2"), Ok(Window { start: None, end: Some(2_000_000_000) }));
        for wrong in ["", ":", "2:1", "1:1", "5", "a:b"] {
            assert!(parse_window(wrong).is_err(), "{wrong}");
        }
    }
}
