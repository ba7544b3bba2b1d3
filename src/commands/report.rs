/*!
`segtrt report`.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::Outcome;
use crate::commands::headings::{DATA, OUTPUT};
use host::UsageError;
use host::screen_table;
use report::chart::{Style, thousands};
use report::targets::{self, Targets, Verdicts};
use report::{self, Figures, Report};
use vos::files::atomic;

/// What a report is made from and where it goes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt report benchmark_outputs -o report.html\n  \
    segtrt report compare_out --plots figures --style paper --tables tables\n  \
    segtrt report 'RTX 3090=shire.csv' 'Jetson Orin=jetson.csv' --plots figures\n  \
    segtrt report out --targets targets.toml --check\n\n\
    The page is one file that loads nothing from the network. docs/reference/report.md explains it.")]
pub struct ReportArgs {
    /// Run folders (searched recursively), CSV files, or comparison.json files; LABEL=PATH names a
    /// run.
    #[arg(required_unless_present_any = ["print_targets", "nsys"], value_name = "[LABEL=]PATH")]
    pub inputs: Vec<String>,
    /// The page [default: report.html; none with --json alone].
    #[arg(short, long, help_heading = OUTPUT, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Also write every plot as SVG and PNG into this folder.
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Style of --plots: page, or paper (3.3 inches wide, 8 points, no titles, PDF).
    #[arg(long, help_heading = OUTPUT, value_enum, default_value_t = PlotStyle::Page, requires = "plots",
        hide_possible_values = true)]
    pub style: PlotStyle,
    /// Also write every table as Markdown and LaTeX into this folder.
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub tables: Option<PathBuf>,
    /// Compare each model with the targets in FILE; "default" for the built-in ones.
    #[arg(long, help_heading = DATA, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// Exit with 1 if a target is missed (built-in targets unless --targets is given).
    #[arg(long, help_heading = DATA)]
    pub check: bool,
    /// Print the built-in targets as a file to edit, and exit.
    #[arg(long, help_heading = OUTPUT, exclusive = true)]
    pub print_targets: bool,
    /// Profiles to include: reports of Nsight Systems, folders of them, or output of
    /// `segtrt nsys --json`; PLATFORM=PATH names the machine.
    #[arg(long, help_heading = DATA, value_name = "PATH")]
    pub nsys: Vec<PathBuf>,
    /// Heading of the page.
    #[arg(long, help_heading = OUTPUT, value_name = "TEXT", default_value = "Video object \
        segmentation benchmark")]
    pub title: String,
    /// Print the report's data as one JSON document.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Style of plot files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotStyle {
    /// For a page, with titles.
    Page,
    /// For a column of a paper.
    Paper,
}

/// Reads, writes the page and what else was asked for. Unreadable inputs are named and end in exit
/// code 1; the page has the rest.
pub fn run(args: ReportArgs) -> Result<Outcome> {
    if args.print_targets {
        print!("{}", targets::DEFAULT);
        return Ok(Outcome::Done);
    }
    let targets = targets(&args)?;
    let inputs = report::read(&args.inputs, &args.nsys)?;
    for problem in &inputs.problems {
        eprintln!("Error: {problem}");
    }
    let report = report::build(inputs, targets.as_ref(), report::now());
    if let Some(targets) = &targets {
        check_metrics(targets, &report)?;
    }
    let written = write(&args, &report)?;
    if args.json {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else if !args.out.as_deref().is_some_and(atomic::is_standard_output) {
        print(&report, &written);
    }
    let missed = report.targets.as_ref().and_then(Verdicts::failure);
    if let Some(missed) = missed.as_ref().filter(|_| args.check) {
        eprintln!("Error: {missed}");
    }
    let sound = report.problems.is_empty() && !(args.check && missed.is_some());
    Ok(if sound { Outcome::Done } else { Outcome::PartlyFailed })
}

fn targets(args: &ReportArgs) -> Result<Option<Targets>> {
    let built_in = || args.check.then_some(Path::new("default"));
    let Some(file) = args.targets.as_deref().or_else(built_in) else { return Ok(None) };
    Targets::open(file).map(Some).map_err(|error| UsageError(format!("{error:#}")).into())
}

fn check_metrics(targets: &Targets, report: &Report) -> Result<()> {
    let unknown = targets.unknown(&report.groups);
    if unknown.is_empty() {
        return Ok(());
    }
    let named = unknown
        .iter()
        .map(|target| format!("target {:?} asks for {:?}", target.name, target.metric));
    bail!(UsageError(format!(
        "{}: {}, a metric that no table has; known are the tables' own columns and {}",
        targets.from,
        named.collect::<Vec<_>>().join(", "),
        Targets::known_metrics()
    )))
}

/// The page and the plots; where they are.
fn write(args: &ReportArgs, report: &Report) -> Result<Vec<PathBuf>> {
    let page = match (&args.out, args.json) {
        (Some(path), _) => Some(path.clone()),
        (None, false) => Some(PathBuf::from("report.html")),
        (None, true) => None,
    };
    let mut written = Vec::new();
    if page.is_none() && args.plots.is_none() && args.tables.is_none() {
        return Ok(written);
    }
    let figures = Figures::of(report, Style::Page);
    if let Some(path) = page {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let text = report::render(report, &figures, &args.title);
        atomic::write(&path, |out| Ok(out.write_all(text.as_bytes())?))?;
        written.push(path);
    }
    if let Some(folder) = &args.plots {
        let paper = (args.style == PlotStyle::Paper).then(|| Figures::of(report, Style::Paper));
        let figures = paper.as_ref().unwrap_or(&figures);
        written.extend(report::write_plots(folder, figures.all())?);
    }
    if let Some(folder) = &args.tables {
        written.extend(report::write_tables(folder, &report::tables(report, &figures))?);
    }
    Ok(written)
}

/// The sides of comparisons on the screen.
fn print_compared(report: &Report) {
    let heads = ["model", "side", "fps", "ratio", "lowest IoU", "verdict"];
    let mut table = screen_table::table(heads, 2..5);
    for model in &report.compared {
        for side in &model.sides {
            let fps = side.speed.as_ref().map(|speed| thousands(speed.fps, 1));
            table.add_row([
                model.title(&report.compared),
                side.name.clone(),
                fps.unwrap_or_else(|| "-".to_owned()),
                side.ratio_text(),
                side.min_iou.map_or_else(|| "-".to_owned(), |iou| format!("{iou:.4}")),
                side.verdict_text(),
            ]);
        }
    }
    if !report.compared.is_empty() {
        println!("{table}");
    }
}

/// The short form on the screen.
fn print(report: &Report, written: &[PathBuf]) {
    print_compared(report);
    let kind = report.platforms.kind.lower();
    let heads = ["model", kind, "objects", "fps", "p50 ms", "p99 ms", "J&F, %", "valid"];
    let mut table = screen_table::table(heads, 2..8);
    for group in &report.groups {
        let number = |column: &str, digits: usize| match group.mean(column) {
            Some(value) if group.invalid => format!("({})", thousands(value, digits)),
            Some(value) => thousands(value, digits),
            None => "-".to_owned(),
        };
        let counts = &group.counts;
        table.add_row([
            group.name.clone(),
            group.platform.clone(),
            format!("{}/{}", counts.objects_measured, counts.objects),
            number("fps", 2),
            number("latency_p50_ms", 2),
            number("latency_p99_ms", 2),
            match group.mean("JandF") {
                Some(value) => thousands(100.0 * value, 2),
                None => "-".to_owned(),
            },
            if counts.no_verdict > 0 {
                "no verdict".to_owned()
            } else {
                format!("{}/{}", counts.valid, counts.measured)
            },
        ]);
    }
    if !report.groups.is_empty() {
        println!("{table}");
    }
    if report.groups.iter().any(|group| group.invalid) {
        println!("In brackets: every row is INVALID; the page says why.");
    }
    if let Some(verdicts) = &report.targets {
        let count = |state| verdicts.count(state);
        println!(
            "targets: {} passed, {} failed, {} not measured, {} of INVALID rows ({})",
            count(targets::State::Pass),
            count(targets::State::Fail),
            count(targets::State::NotMeasured),
            count(targets::State::Invalid),
            verdicts.from
        );
    }
    for path in written {
        println!("{}", path.display());
    }
}
