/*!
`segtrt submit`.
*/

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::Outcome;
use crate::commands::headings::OUTPUT;
use crate::submit;

/// Flags of `segtrt submit`.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt submit results.tar\n\nresults.tar is what run.sh of a \
                        pack leaves (segtrt pack). The checks: every file has the sum that the \
                        board computed; the packed files were whole; build-engines, selftest and \
                        bench succeeded; all rows are VALID; fidelity is that of the whole \
                        pipeline. Nothing is sent anywhere. Exit code 1: a check failed, and the \
                        rows are no result yet.")]
pub struct SubmitArgs {
    /// results.tar, results.tar.gz, or the folder results.
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,
    /// Print checks and rows as JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Checks the results and prints the rows for a table of boards.
///
/// # Errors
/// The results cannot be read.
pub fn run(args: SubmitArgs) -> Result<Outcome> {
    let results = submit::open(&args.results)?;
    let summary = submit::summary(&results);
    let checks = submit::checks(&results, &summary);
    let rows = submit::rows(&results.folder, summary.as_deref().unwrap_or_default());
    let passed = checks.iter().all(|check| check.passed);
    if args.json {
        println!("{:#}", json!({"checks": checks, "rows": rows, "passed": passed}));
    } else {
        for check in &checks {
            let word = if check.passed { "ok" } else { "FAILED" };
            println!("{word:<8} {:<9} {}", check.name, check.found);
        }
        if !rows.is_empty() {
            println!("\n{}", submit::markdown(&rows).trim_end());
        }
        match passed {
            true => {
                println!("\nAttach the archive to an issue with the form \"My board's numbers\".")
            }
            false => {
                println!("\nThe rows are no result yet: repair what failed, and run run.sh again.")
            }
        }
    }
    Ok(if passed { Outcome::Done } else { Outcome::PartlyFailed })
}
