/*!
`segtrt history`.
*/

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::Outcome;
use crate::commands::baseline::{table as numbers, warn_of};
use crate::commands::headings::{MEASURING, OUTPUT};
use crate::commands::shared::LimitArgs;
use host::{counted, screen_table};
use report::regression::{History, LevelChange, Limits, RunSummary, Series, series};

/// Flags of `segtrt history`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt history h200.jsonl out          adds the run in out\n  \
    segtrt history h200.jsonl              shows all runs\n  \
    segtrt report out h200.jsonl           draws them\n\n\
    It exits with 1 if an added run, or without one the last, is worse than the runs before. \
    docs/how-to/regressions.md has the rules and a CI job.")]
pub struct HistoryArgs {
    /// File with the runs of one machine: a JSON line each, oldest first.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Folders of finished runs to add, oldest first.
    #[arg(value_name = "RUN_FOLDER")]
    pub runs: Vec<PathBuf>,
    /// The limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Add a run despite this difference from the last one: a name from the refusal, or "machine"
    /// or "settings" for all of them.
    #[arg(long, help_heading = MEASURING, value_name = "WHAT", value_delimiter = ',')]
    pub allow_different: Vec<String>,
    /// Print one JSON document instead of tables.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Adds the runs, then shows and judges all.
pub fn run(args: HistoryArgs) -> Result<Outcome> {
    let HistoryArgs { file, runs, limits, allow_different, json } = args;
    let limits = limits.limits();
    let mut history = History::read(&file)?;
    let before = history.entries.len();
    for from in &runs {
        let run = RunSummary::read(from)?;
        warn_of(&run, &format!("{}: the run", from.display()));
        history.add(from, run, &allow_different)?;
    }
    if history.entries.is_empty() && !json {
        println!("{} has no runs; add one: segtrt history FILE RUN_FOLDER", file.display());
        return Ok(Outcome::Done);
    }
    let judged = if runs.is_empty() { before.saturating_sub(1) } else { before };
    let all = series(&history, &limits);
    let changes = || all.iter().flat_map(|of| of.changes.iter().map(move |change| (of, change)));
    let new = |change: &LevelChange| change.entry >= judged && change.is_regression();
    let regressions = changes().filter(|(_, change)| new(change)).count();
    if json {
        print_json(&history, &all, &limits, regressions)?;
    } else {
        println!("{}", runs_table(&history, &all));
        if let Some(table) = changes_table(&history, &all) {
            println!("{table}");
        }
        let what = if runs.is_empty() { "the last run" } else { "the added runs" };
        println!(
            "{}: {}, {} at {what}",
            file.display(),
            counted(history.entries.len(), "run"),
            counted(regressions, "regression")
        );
    }
    Ok(if regressions > 0 { Outcome::PartlyFailed } else { Outcome::Done })
}

fn print_json(
    history: &History,
    all: &[Series],
    limits: &Limits,
    regressions: usize,
) -> Result<()> {
    let runs = history.entries.iter().map(|entry| {
        json!({
            "added": entry.added, "from": entry.from, "segtrt": entry.run.segtrt,
            "commit": entry.run.commit, "differences": entry.differences,
        })
    });
    let document = json!({
        "file": history.path, "limits": limits, "regressions": regressions,
        "runs": runs.collect::<Vec<_>>(), "series": all,
    });
    println!("{}", serde_json::to_string_pretty(&document)?);
    Ok(())
}

/// A line for each run and model.
fn runs_table(history: &History, all: &[Series]) -> String {
    let mut metrics = Vec::new();
    for series in all {
        if !metrics.contains(&series.metric) {
            metrics.push(series.metric);
        }
    }
    let heads = ["run", "added", "build", "model"].into_iter();
    let heads: Vec<&str> = heads.chain(metrics.iter().map(|metric| metric.name())).collect();
    let columns = heads.len();
    let mut table = screen_table::table(heads, 4..columns);
    for (at, entry) in history.entries.iter().enumerate() {
        let mut models: Vec<(&str, &str)> = Vec::new();
        for series in all.iter().filter(|of| of.points.iter().any(|point| point.entry == at)) {
            let model = (series.model.as_str(), series.configuration.as_str());
            if !models.contains(&model) {
                models.push(model);
            }
        }
        for (model, configuration) in models {
            let number = |metric| {
                let of = all.iter().find(|of| {
                    (of.model.as_str(), of.configuration.as_str(), of.metric)
                        == (model, configuration, metric)
                })?;
                let point = of.points.iter().find(|point| point.entry == at)?;
                point.range.map(|range| numbers::range(metric, &range))
            };
            let (date, _) = entry.added.split_once('T').unwrap_or((&entry.added, ""));
            let name = format!("{model} {configuration}");
            let words = [(at + 1).to_string(), date.to_owned(), entry.build().to_owned(), name];
            let cells = metrics.iter().map(|metric| number(*metric).unwrap_or_else(|| "-".into()));
            table.add_row(words.into_iter().chain(cells));
        }
    }
    table.to_string()
}

/// The changes, oldest first; `None` without one.
fn changes_table(history: &History, all: &[Series]) -> Option<String> {
    let mut changes: Vec<(&Series, &LevelChange)> =
        all.iter().flat_map(|of| of.changes.iter().map(move |change| (of, change))).collect();
    changes.sort_by_key(|(_, change)| change.entry);
    let heads = ["changed at run", "build", "model", "number", "before", "from then on", "change"];
    let mut table = screen_table::table(heads.into_iter().chain(["verdict"]), 4..7);
    for (of, change) in &changes {
        let entry = history.entries.get(change.entry)?;
        let LevelChange { was, is, change: by, verdict, .. } = change;
        let dash = || "-".to_owned();
        table.add_row([
            (change.entry + 1).to_string(),
            entry.build().to_owned(),
            format!("{} {}", of.model, of.configuration),
            of.metric.name().to_owned(),
            numbers::range(of.metric, was),
            is.map_or_else(dash, |is| numbers::range(of.metric, &is)),
            by.map_or_else(dash, |by| numbers::amount(of.metric, by, true)),
            numbers::word(*verdict).to_owned(),
        ]);
    }
    (!changes.is_empty()).then(|| table.to_string())
}
