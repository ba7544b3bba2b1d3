/*!
One Nsight Systems report for each point of a sweep, after all rounds: a profiler beside them would
be in their times. The file has the point's name.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::SweepWork;
use crate::commands::bench::plan::resolve;
use crate::commands::started_bench::parse_bench;
use crate::compare::measure::{ModelWork, SideKind, SidePlan, bench_words};
use crate::profile::{NoReports, Recorder, ReportName, Settings, Target};
use report::compare::judge::SweepRow;
use report::compare::runs::RunFolder;
use report::nsys::Nsys;

/// Where the reports lie in the sweep's folder.
pub(super) const FOLDER: &str = "nsight_reports";

/// Names the reports that are there.
pub(super) fn find(work: &SweepWork, rows: &mut [SweepRow]) {
    for row in rows {
        let there =
            name(work, row).find().filter(|_| row.speed.is_some() || row.withheld.is_some());
        row.nsys_report = there.as_deref().map(|path| below(work, path));
    }
}

/// Records the reports that are missing. A point that fails is a row that says so.
pub(super) fn record(
    work: &SweepWork,
    nsys: &Nsys,
    rows: &mut [SweepRow],
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let folder = work.plan.out_dir.join(FOLDER);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let mut given_up: Option<String> = None;
    for row in rows.iter_mut().filter(|row| row.nsys_report.is_none() && !row.folders.is_empty()) {
        let what = format!("{} {}", row.model, row.combination);
        let recorded = match &given_up {
            Some(why) => Err(anyhow::anyhow!("not recorded: {why}")),
            None => one(work, nsys, row),
        };
        match recorded {
            Ok(path) => {
                row.nsys_report = Some(below(work, &path));
                say(&format!("{what}: {}", path.display()));
            }
            Err(error) => {
                let why = format!("{error:#}");
                say(&format!("{what}: no nsys report: {why}"));
                given_up = error.downcast_ref::<NoReports>().map(ToString::to_string).or(given_up);
                row.no_nsys_report = Some(why);
            }
        }
    }
    Ok(())
}

/// The report of a point: of the first measured objects that it tracks together.
fn one(work: &SweepWork, nsys: &Nsys, row: &SweepRow) -> Result<PathBuf> {
    let (model, side) = side_of(work, row).context("the sweep has no such point")?;
    let SideKind::Bench(more) = &side.kind else { bail!("it is no bench") };
    // What a profiled pass writes beside its report, such as encoded frames, is dropped.
    let dropped = tempfile::tempdir().context("there is no temporary folder")?;
    let mut words = bench_words(&work.plan, model, side, more);
    words.extend(["--out-dir".to_owned(), dropped.path().display().to_string()]);
    let plan = resolve(&parse_bench(&words)?)?.plan;
    let at = plan.models.iter().position(|model| model.tag.text == row.model);
    let at = at.context("the model cannot be run")?;
    let first = row.folders.first().context("no round of it was measured")?;
    let rows = RunFolder::read(&work.plan.out_dir.join(first))?.rows;
    let mut of_model = rows.iter().filter(|found| found.model == row.model && found.status == "ok");
    let first = of_model.next().context("no object of it was measured")?;
    let others = of_model.filter(|other| other.video == first.video);
    let others = others.take(row.objects_together.saturating_sub(1));
    let others = others.map(|other| other.object.clone()).collect();
    let target = Target { key: first.key(), others, model: at, run: 0 };
    let recorder = Recorder::new(nsys.clone(), &Settings::from_environment(), &plan)?;
    Ok(recorder.record(&target, &name(work, row))?.path)
}

/// The model and the side that the row was measured as.
fn side_of<'a>(work: &'a SweepWork, row: &SweepRow) -> Option<(&'a ModelWork, &'a SidePlan)> {
    let model = work.plan.models.iter().find(|model| model.tag == row.model)?;
    Some((model, work.plan.sides.iter().find(|side| side.name == row.combination)?))
}

/// The report's name: the point's, with the model where there are several.
fn name(work: &SweepWork, row: &SweepRow) -> ReportName {
    let stem = match work.plan.models.len() {
        1 => row.combination.clone(),
        _ => format!("{}-{}", row.model, row.combination),
    };
    ReportName::plain(&work.plan.out_dir.join(FOLDER), stem)
}

fn below(work: &SweepWork, path: &Path) -> String {
    path.strip_prefix(&work.plan.out_dir).unwrap_or(path).display().to_string()
}
