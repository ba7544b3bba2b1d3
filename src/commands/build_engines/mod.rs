/*!
`segtrt build-engines`: resolves the flags, builds the plans, and prints a table of their costs.
*/

mod args;
mod estimate;
mod jobs;
mod model;
mod planned;
mod progress;
mod refusals;
mod resolve;
mod row;
mod sweep;
mod table;
mod target;
mod trunk;
mod weights;
mod whole;

use anyhow::Result;

use crate::commands::Outcome;
pub use args::BuildEnginesArgs;
use jobs::{build_all, outcome, say_before};
use resolve::resolve;
use runtime::builder::Supervisor;
use table::{dry_run_json, dry_run_table, json, table};

/// Builds engines.
pub fn run(args: BuildEnginesArgs) -> Result<Outcome> {
    if !args.sweep_workspace.is_empty() {
        return sweep::run(&args);
    }
    let resolved = resolve(&args, None)?;
    say_before(&resolved);
    if args.dry_run {
        match args.json {
            true => println!("{}", serde_json::to_string_pretty(&dry_run_json(&resolved))?),
            false => println!("{}", dry_run_table(&resolved)),
        }
        return Ok(Outcome::Done);
    }
    let supervisor = Supervisor::new()?;
    let rows = build_all(&resolved, &args, &supervisor)?;
    match args.json {
        true => println!("{}", json(&rows)?),
        false => println!("{}", table(&rows)),
    }
    Ok(outcome(&rows, &supervisor))
}
