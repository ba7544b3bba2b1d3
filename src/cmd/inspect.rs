/*!
`segtrt inspect`.
*/

use std::io::Write;

use anyhow::Result;

use super::Outcome;
use crate::cli::InspectArgs;
use crate::inspect::{self, Options, Report, text};
use host::printable::printable;

/// Reports on each file; one that cannot be inspected does not keep the others from it.
pub fn run(args: InspectArgs) -> Result<Outcome> {
    let InspectArgs { files, json, layers, tensorrt_lib } = args;
    let options = Options { tensorrt_lib };
    let mut reports: Vec<Report> = Vec::new();
    let mut failed = 0;
    for file in &files {
        match inspect::inspect(file, &options) {
            Ok(found) => reports.extend(found),
            Err(error) if files.len() == 1 => return Err(error),
            Err(error) => {
                eprintln!("Error: {error:#}");
                failed += 1;
            }
        }
    }
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &reports)?;
        writeln!(out)?;
    } else {
        for report in &reports {
            writeln!(out, "{}", printable(&text::render(report, layers)))?;
        }
    }
    let sound = failed == 0 && reports.iter().all(Report::is_sound);
    Ok(if sound { Outcome::Done } else { Outcome::PartlyFailed })
}
