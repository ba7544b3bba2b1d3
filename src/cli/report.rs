/*!
Arguments of `segtrt report`.
*/

use std::path::PathBuf;

use clap::Args;

/// What a report is made from and where it goes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt report benchmark_outputs -o report.html\n  \
    segtrt report 'RTX 3090=shire.csv' 'Jetson Orin=jetson.csv' --plots figures\n  \
    segtrt report out --targets targets.toml --check\n\n\
    The page is one file that fetches nothing. What it says and how to read it: docs/reading-the-report.md.")]
pub struct ReportArgs {
    /// Run folders (searched for runs below), CSV files of results, comparison.json files; LABEL=PATH names a run.
    #[arg(required_unless_present = "print_targets", value_name = "[LABEL=]PATH")]
    pub inputs: Vec<String>,
    /// The page [default: report.html, and none with --json alone].
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Also write every plot as SVG and PNG to this folder.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Hold every model against the targets in FILE; `default` for the built-in ones.
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// End with exit code 1 if a target is missed (built-in targets unless --targets names others).
    #[arg(long)]
    pub check: bool,
    /// Print the built-in targets as a file to change, and do nothing else.
    #[arg(long, exclusive = true)]
    pub print_targets: bool,
    /// Profiles to show, as `segtrt nsys --json` printed them.
    #[arg(long, value_name = "FILE")]
    pub nsys: Vec<PathBuf>,
    /// Heading of the page.
    #[arg(long, value_name = "TEXT", default_value = "Video object segmentation benchmark")]
    pub title: String,
    /// Print the report's data as one JSON document.
    #[arg(long)]
    pub json: bool,
}
