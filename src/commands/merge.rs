/*!
`segtrt merge`: the predecessor's messages around a merge.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;

use super::Outcome;
use crate::commands::headings::{DATA, OUTPUT};
use host::shell;
use report::merge::Table;
use report::merge::{self, MergeSource, Merged, Missing};
use vos::files::atomic;

/// Flags of `segtrt merge`.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt merge collected_results/nsight_experiment_* -o \
                  final_comparison.csv\n\nThe columns platform, hostname and timestamp come \
                  first. Columns of some tables come last and are empty for the others. Values \
                  are copied unchanged. Repeated rows are kept and reported. A damaged or missing \
                  table is skipped and named; the exit code is then 1.")]
pub struct MergeArgs {
    /// Result folders or CSV files of segtrt or its predecessor; LABEL=PATH names the platform of a
    /// run.
    #[arg(required = true, value_name = "[LABEL=]PATH")]
    pub dirs: Vec<PathBuf>,
    /// The merged file.
    #[arg(short, long, help_heading = OUTPUT, value_name = "FILE", default_value = "merged_results.csv")]
    pub output: PathBuf,
    /// Table to take from each folder.
    #[arg(long, help_heading = DATA, value_enum, default_value = "profile_summary")]
    pub table: Table,
    /// Print one JSON document on standard output; messages go to standard error.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Merges the tables of all folders that have one. The file is there before the first word: whoever
/// reads the words may hang up.
pub fn run(args: MergeArgs) -> Result<Outcome> {
    let MergeArgs { dirs, output, table, json } = args;
    let (mut sources, mut missing, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
    for dir in &dirs {
        match MergeSource::find(dir, table) {
            // One damaged table must not cost the rows of all others; but it is a failure, and said
            // to be one.
            Ok(source) => match merge::check(&source) {
                Ok(()) => sources.push(source),
                Err(error) => damaged.push(format!("{error:#}")),
            },
            Err(why) => missing.push(match why {
                Missing::Path => format!("Directory not found: {}", dir.display()),
                Missing::Kind => format!("Neither a folder nor a file: {}", dir.display()),
                Missing::Table => format!("No {} in {}", table.file_name(), dir.display()),
            }),
        }
    }
    if sources.is_empty() {
        return Err(no_source(&dirs, table, damaged));
    }
    let mut words: Vec<String> = missing.iter().map(|why| format!("Warning: {why}")).collect();
    let merged = merge::merge(&sources, &output);
    if let Ok(merged) = &merged {
        words.extend(account(merged, &output));
    }
    // The predecessor's words, on standard output as there; a document or a table must stand there
    // alone.
    let alone = json || atomic::is_standard_output(&output);
    for line in &words {
        if alone { eprintln!("{line}") } else { println!("{line}") }
    }
    for why in &damaged {
        log::warn!("left out: {why}");
    }
    let left_out = [missing, damaged].concat();
    let merged = merged?;
    warn(&merged);
    if json {
        let platforms: serde_json::Map<_, _> =
            merged.platforms.iter().map(|(name, rows)| (name.clone(), json!(rows))).collect();
        let document = match merged.rows {
            0 => json!({"output": null, "rows": 0, "left_out": left_out}),
            _ => json!({
                "output": output, "rows": merged.rows, "platforms": platforms, "columns": merged.columns,
                "sources": merged.sources, "repeated": merged.repeated,
                "left_out": left_out,
            }),
        };
        println!("{}", serde_json::to_string_pretty(&document)?);
    }
    Ok(if left_out.is_empty() { Outcome::Done } else { Outcome::PartlyFailed })
}

/// Why no argument can be merged, and the command to type next.
fn no_source(dirs: &[PathBuf], table: merge::Table, damaged: Vec<String>) -> anyhow::Error {
    let name = table.file_name();
    let expected = format!("expected a run folder with {name}, or a CSV file");
    let reason = |dir: &PathBuf| {
        let shown = dir.display();
        match MergeSource::find(dir, table) {
            Ok(_) => None,
            Err(Missing::Path) => Some(format!("{shown} does not exist; {expected}")),
            Err(Missing::Kind) => {
                Some(format!("{shown} is neither a folder nor a file; {expected}"))
            }
            Err(Missing::Table) => {
                Some(format!("{shown} has neither {name} nor profile_outputs/{name}; {expected}"))
            }
        }
    };
    let reasons: Vec<String> = dirs.iter().filter_map(reason).chain(damaged).collect();
    let next = below(dirs, table)
        .unwrap_or_else(|| "Measure first: segtrt bench --split-dir DIR --out-dir OUT".to_owned());
    match reasons.as_slice() {
        [reason] => anyhow!("{reason}. {next}"),
        reasons => anyhow!("nothing can be merged:\n  {}\n{next}", reasons.join("\n  ")),
    }
}

/// What was merged, in the predecessor's words.
fn account(merged: &Merged, output: &Path) -> Vec<String> {
    let mut lines = vec!["Merging results from:".to_owned()];
    for source in &merged.sources {
        lines.push(format!("  - {}", source.folder));
        lines.push(format!("    Found {} entries from {}", source.rows, source.platform));
    }
    if merged.rows == 0 {
        lines.push("No data to merge!".to_owned());
        return lines;
    }
    lines.push(format!("\nMerged CSV written to: {}", output.display()));
    lines.push(format!("Total entries: {}", merged.rows));
    lines.push("\nEntries by platform:".to_owned());
    lines.extend(merged.platforms.iter().map(|(platform, rows)| format!("  {platform}: {rows}")));
    lines
}

/// Folders one step below the named ones that could be merged, ready to be typed:
/// `collected_results` instead of the folders in it is an easy slip.
fn below(dirs: &[PathBuf], table: merge::Table) -> Option<String> {
    let inside = |dir: &PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
    // A folder whose own table is damaged has a subfolder that holds this table.
    let mut found: Vec<PathBuf> = dirs
        .iter()
        .filter(|dir| MergeSource::find(dir, table).is_err())
        .flat_map(inside)
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && MergeSource::find(path, table).is_ok())
        .collect();
    if found.is_empty() {
        return None;
    }
    found.sort();
    let words: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    let words = shell::line(words.iter().map(String::as_str));
    Some(format!("Merge the folders in it: segtrt merge {words}"))
}

/// Warnings that the predecessor did not print.
fn warn(merged: &Merged) {
    for source in &merged.sources {
        if let Some(ragged) = source.ragged {
            log::warn!(
                "{}: {} rows have another number of fields than the header (the first is row {}: \
                 {} instead of {}); what is missing is empty, what is too much is left out: look \
                 at that file",
                source.folder,
                ragged.rows,
                ragged.first,
                ragged.fields,
                ragged.expected
            );
        }
    }
    if let Some(first) = &merged.first_repeated {
        log::warn!(
            "{} rows repeat an object, model and pass that came before (first: {first}); they are \
             kept, so means count them twice: look for a folder that was named or collected twice",
            merged.repeated
        );
    }
}
