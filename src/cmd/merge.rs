/*!
`segtrt merge`: the predecessor's messages around a merge.
*/

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::json;

use super::Outcome;
use crate::cli::MergeArgs;
use crate::merge::{self, Merged, MergedSource, Missing, Source};
use crate::shell;

/// Merges the tables of all folders that have one.
pub fn run(args: MergeArgs) -> Result<Outcome> {
    let MergeArgs { dirs, output, table, json } = args;
    // The predecessor's words, on standard output as there; a JSON document must stand there alone.
    let say = |line: String| if json { eprintln!("{line}") } else { println!("{line}") };
    let (mut sources, mut left_out) = (Vec::new(), Vec::new());
    for dir in &dirs {
        match Source::find(dir, table) {
            // One damaged table must not cost the rows of all others; but it is a failure, and said to be one.
            Ok(source) => match merge::check(&source) {
                Ok(()) => sources.push(source),
                Err(error) => left_out.push(format!("{error:#}")),
            },
            Err(Missing::Folder) => say(format!("Warning: Directory not found: {}", dir.display())),
            Err(Missing::Table) => {
                say(format!("Warning: No {} in {}", table.file_name(), dir.display()));
            }
        }
    }
    for why in &left_out {
        log::warn!("left out: {why}");
    }
    let outcome = if left_out.is_empty() { Outcome::Done } else { Outcome::PartlyFailed };
    if sources.is_empty() {
        bail!(
            "No valid result directories provided\n\
             expected folders with {0} or profile_outputs/{0} in them, such as bench's --out-dir{1}",
            table.file_name(),
            below(&dirs, table)
        );
    }
    say("Merging results from:".to_owned());
    let begun = &mut |source: &Source| say(format!("  - {}", source.folder.display()));
    let done = &mut |added: &MergedSource| {
        say(format!("    Found {} entries from {}", added.rows, added.platform));
    };
    let Some(merged) = merge::merge(&sources, &output, begun, done)? else {
        say("No data to merge!".to_owned());
        if json {
            println!(
                "{}",
                serde_json::to_string_pretty(
                    &json!({"output": null, "rows": 0, "left_out": left_out})
                )?
            );
        }
        return Ok(outcome);
    };
    say(format!("\nMerged CSV written to: {}", output.display()));
    say(format!("Total entries: {}", merged.rows));
    say("\nEntries by platform:".to_owned());
    for (platform, rows) in &merged.platforms {
        say(format!("  {platform}: {rows}"));
    }
    warn(&merged);
    if json {
        let platforms: serde_json::Map<_, _> =
            merged.platforms.iter().map(|(name, rows)| (name.clone(), json!(rows))).collect();
        let document = json!({
            "output": output, "rows": merged.rows, "platforms": platforms, "columns": merged.columns,
            "sources": merged.sources, "repeated": merged.repeated,
            "left_out": left_out,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    }
    Ok(outcome)
}

/// Folders one step below the named ones that could be merged, ready to be typed: `collected_results` instead of what is in it is
/// an easy slip.
fn below(dirs: &[PathBuf], table: merge::Table) -> String {
    let inside = |dir: &PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = dirs
        .iter()
        .flat_map(inside)
        .map(|entry| entry.path())
        .filter(|path| Source::find(path, table).is_ok())
        .collect();
    if found.is_empty() {
        return String::new();
    }
    found.sort();
    let words: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    let words = shell::line(words.iter().map(String::as_str));
    format!("; below there are some, try: segtrt merge {words}")
}

/// What the predecessor would not have told.
fn warn(merged: &Merged) {
    for source in &merged.sources {
        if let Some(ragged) = source.ragged {
            log::warn!(
                "{}: {} rows have another number of fields than the header (the first is row {}: {} instead of {}); what is \
                 missing is empty, what is too much is left out: look at that file",
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
            "{} rows repeat an object, model and pass that came before (first: {first}); they are kept, so means count \
             them twice: look for a folder that was named or collected twice",
            merged.repeated
        );
    }
}
