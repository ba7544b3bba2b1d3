/*!
`segtrt compare --sweep`: segtrt's own side in every combination of settings.
*/

use std::io::Write;

use anyhow::Result;

use super::args::{CompareArgs, OwnSide};
use super::command_line::command_line;
use super::plan::{clips, models, own_side, own_sides, precision_of};
use crate::commands::Outcome;
use crate::compare::measure::{self, Plan, ReferencePlan, SideKind, SidePlan};
use host::UsageError;
use host::printable::printable;
use report::compare::judge::SweepRow;
use report::compare::sweep::{Combination, combinations, references};
use report::compare::{document, judge};
use vos::dataset;

/// Runs the sweep.
pub fn run(args: &CompareArgs) -> Result<Outcome> {
    let chosen = own_sides(&args.measure);
    let [one] = chosen.as_slice() else {
        return Err(UsageError("a sweep is of one side".to_owned()).into());
    };
    let own = one.side;
    let usual = precision_of(&args.measure, &chosen);
    let precision = one.precision.clone().unwrap_or(usual);
    let all = combinations(&args.measure.sweep, &precision).map_err(UsageError)?;
    if own != OwnSide::Tensorrt && all.iter().any(|one| one.objects.is_some()) {
        let text =
            "objects are tracked together by TensorRT's backend alone; leave out --sweep objects";
        return Err(UsageError(text.to_owned()).into());
    }
    let split = dataset::open(&args.split_dir, &args.split_name)?;
    let compared_with = references(&all);
    let plan = Plan {
        out_dir: args.out_dir.clone(),
        models: models(&args.measure)?,
        sides: all.iter().map(|one| side(args, own, one)).collect(),
        reference: ReferencePlan::Side(all[compared_with[0]].name()),
        clips: clips(args),
        rounds: args.measure.rounds as usize,
        teacher_forced: false,
        restart: false,
        stall_limit_s: args.measure.stall_limit,
        ready_limit_s: None,
    };
    let measured = measure::run(&plan, &mut |line| eprintln!("{line}"))?;
    let set = measured.set(&args.out_dir)?;
    let rows = judge::sweep(&set, split.as_ref(), &all, &compared_with)?;
    let files = document::sweep::write(&args.out_dir, &rows, &all, &command_line(), &set.dates)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &rows)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", printable(&document::sweep::render(&rows)))?;
        for remark in document::sweep::remarks(&rows) {
            writeln!(out, "{}", printable(&remark))?;
        }
        for path in files {
            writeln!(out, "{}", printable(&path.display().to_string()))?;
        }
    }
    let stopped = rows.iter().filter_map(|row| {
        Some(format!("{} {}: {}", row.model, row.combination, row.stopped_early.as_ref()?))
    });
    out.flush()?;
    stopped.for_each(|line| eprintln!("{line}"));
    let sound = rows.iter().all(SweepRow::is_sound);
    Ok(if sound { Outcome::Done } else { Outcome::PartlyFailed })
}

fn side(args: &CompareArgs, own: OwnSide, one: &Combination) -> SidePlan {
    let mut side = own_side(&args.measure, own, &one.precision);
    if let (Some(objects), SideKind::Bench(flags)) = (one.objects, &mut side.kind) {
        flags.extend(["--objects-together".to_owned(), objects.to_string()]);
    }
    SidePlan { name: one.name(), imgsz: one.imgsz, ..side }
}
