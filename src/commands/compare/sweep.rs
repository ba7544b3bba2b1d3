/*!
`segtrt compare --sweep`: segtrt's own side in every combination of settings.
*/

use std::io::Write;

use anyhow::Result;

use super::args::{CompareArgs, OwnSide};
use super::plan::{clips, models, own_side, own_sides, precision_of};
use crate::commands::Outcome;
use crate::commands::shared::command_line;
use crate::commands::started_sweep::{self, SweepWork, flags};
use crate::compare::measure::{Plan, ReferencePlan, SideKind, SidePlan};
use host::{UsageError, ctrl_c};
use report::compare::sweep::{Axis, Combination, Setting, combinations};
use report::nsys::Nsys;

/// Runs the sweep.
pub fn run(args: &CompareArgs) -> Result<Outcome> {
    let chosen = own_sides(&args.measure);
    let [one] = chosen.as_slice() else {
        return Err(UsageError("a sweep is of one side".to_owned()).into());
    };
    let own = one.side;
    let usual = precision_of(&args.measure, &chosen);
    let precision = one.precision.clone().unwrap_or(usual);
    let axes = &args.measure.sweep;
    let all = combinations(axes, &precision).map_err(UsageError)?;
    flags::check(axes, own == OwnSide::Tensorrt, &args.measure.bench_arg)?;
    let contradicts = [
        (Setting::Precision, args.measure.precision.is_some() || one.precision.is_some()),
        (Setting::Imgsz, args.measure.imgsz.is_some()),
    ];
    let swept = |setting| axes.iter().any(|axis| axis.setting == setting);
    if let Some((setting, _)) =
        contradicts.iter().find(|(setting, given)| *given && swept(*setting))
    {
        let name = setting.name();
        let text = format!("--{name} and --sweep {name} contradict; leave --{name} out");
        return Err(UsageError(text).into());
    }
    let nsys = if args.measure.nsys { Some(Nsys::find()?) } else { None };
    let work = SweepWork {
        plan: Plan {
            out_dir: args.out_dir.clone(),
            models: models(&args.measure)?,
            sides: all.iter().map(|one| side(args, own, axes, one)).collect(),
            reference: ReferencePlan::Side(all[0].name()),
            clips: clips(args),
            rounds: args.measure.rounds as usize,
            teacher_forced: false,
            restart: false,
            stall_limit_s: args.measure.stall_limit,
            ready_limit_s: None,
        },
        axes: axes.clone(),
        combinations: all,
        nsys,
        command: command_line(),
    };
    let kept = format!("Finished rounds are kept in {}.", args.out_dir.display());
    ctrl_c::end_with_repeat(&kept, &[]);
    let swept = started_sweep::run(&work, &mut |line| eprintln!("{line}"))?;
    if args.json {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &swept.result)?;
        writeln!(out)?;
    } else {
        swept.show()?;
    }
    Ok(swept.finish())
}

fn side(args: &CompareArgs, own: OwnSide, axes: &[Axis], one: &Combination) -> SidePlan {
    let mut side = own_side(&args.measure, own, &one.precision);
    if let SideKind::Bench(words) = &mut side.kind {
        words.extend(flags::words(axes, one));
    }
    SidePlan { name: one.name(), imgsz: one.number(Setting::Imgsz), ..side }
}
