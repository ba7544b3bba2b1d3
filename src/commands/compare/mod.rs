/*!
`segtrt compare`: measure what is missing, judge what is there, write and show it.
*/

mod args;
mod baselines;
mod plan;
mod sweep;

use std::io::Write;

use anyhow::Result;

use crate::commands::Outcome;
use crate::commands::shared::command_line;
use crate::compare::measure;
pub use args::{ChosenSide, CompareArgs, MeasureArgs, OwnSide};
use host::UsageError;
use host::ctrl_c;
use host::printable::printable;
use report::compare::document;
use report::compare::judge;
use report::compare::runs::{self, RequestedReference, Set};
use vos::dataset;

/// Runs the comparison.
pub fn run(args: CompareArgs) -> Result<Outcome> {
    if !args.measure.sweep.is_empty() {
        return sweep::run(&args);
    }
    let split = dataset::open(&args.split_dir, &args.split_name)?;
    let Some(set) = measured(&args)? else { return Ok(Outcome::Done) };
    let request = judge::Request {
        set: &set,
        split: split.as_ref(),
        out_dir: &args.out_dir,
        command: command_line(),
    };
    let comparison = judge::judge(&request)?;
    let files = document::write(&args.out_dir, &comparison)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &comparison)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", printable(&document::render(&comparison)))?;
        for remark in document::remarks(&comparison) {
            writeln!(out, "{}", printable(&remark))?;
        }
        for path in files {
            writeln!(out, "{}", printable(&path.display().to_string()))?;
        }
    }
    // The last message, as the table has the side's speed as if nothing were missing.
    out.flush()?;
    comparison.stopped_early().iter().for_each(|line| eprintln!("{line}"));
    Ok(if comparison.is_sound() { Outcome::Done } else { Outcome::PartlyFailed })
}

/// What there is to judge, measured now or before; `None` where nothing is to be judged.
fn measured(args: &CompareArgs) -> Result<Option<Set>> {
    if !args.runs.is_empty() {
        let asked =
            RequestedReference { run: args.reference_run.clone(), side: args.reference.clone() };
        return runs::gather(&args.runs, &asked, args.subject.as_deref()).map(Some);
    }
    if args.subject.is_some() {
        let text =
            "--subject belongs to --runs; when measuring, the first of --sides is the subject";
        return Err(UsageError(text.to_owned()).into());
    }
    let plan = plan::resolve(args)?;
    let kept = format!("Finished rounds are kept in {}.", args.out_dir.display());
    ctrl_c::end_with_repeat(&kept, &[]);
    let finished = measure::run(&plan, &mut |line| eprintln!("{line}"))?;
    if let Some(why) = finished.nothing_to_judge(&plan) {
        anyhow::bail!("nothing can be compared: {why}. {kept} Put it right and repeat the command");
    }
    finished.ended.iter().for_each(|why| eprintln!("{why}"));
    let measured = finished.measured;
    if args.measure.measure_only {
        println!("{}", args.out_dir.join(runs::MEASURED_FILE).display());
        return match measured.missing.is_empty() {
            true => Ok(None),
            false => anyhow::bail!("{} sides could not be measured", measured.missing.len()),
        };
    }
    measured.set(&args.out_dir).map(Some)
}
