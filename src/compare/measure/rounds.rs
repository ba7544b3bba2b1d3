/*!
The sides in turn: model by model, round by round, side by side.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::bench_child;
use super::ending::{Finished, bare, lacks};
use super::plan::{ModelWork, Plan, ReferencePlan, SideKind, SidePlan};
use super::runner::Runner;
use host::child::Held;
use report::compare::runs::{MEASURED_FILE, Measured, MeasuredRun, Missing, RunFolder};
use report::compare::utc_date;

/// Measures what is not there yet; the state with everything that is there now, and the models that
/// ended early. `say` hears of each step.
///
/// # Errors
/// The output folder belongs to another comparison or cannot be written. A side that fails is noted
/// and costs only itself.
pub fn run(plan: &Plan, say: &mut dyn FnMut(&str)) -> Result<Finished> {
    std::fs::create_dir_all(&plan.out_dir).with_context(|| {
        format!("cannot create {}; choose a writable --out-dir", plan.out_dir.display())
    })?;
    let measured = open(plan)?;
    let mut measuring = Measuring { plan, measured, say, held: None, ended: Vec::new() };
    measuring.measured.write(&plan.out_dir)?;
    for model in &plan.models {
        measuring.model(model)?;
    }
    Ok(Finished { measured: measuring.measured, ended: measuring.ended })
}

/// The state of an earlier call, which must have had the same settings, or a new one.
fn open(plan: &Plan) -> Result<Measured> {
    let sides: Vec<String> = plan.sides.iter().map(|side| side.name.clone()).collect();
    let reference = match &plan.reference {
        ReferencePlan::Side(name) => name.clone(),
        ReferencePlan::Run(side) => side.name.clone(),
        ReferencePlan::Folder(path) => {
            std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string()
        }
    };
    let (configuration, settings) = (plan.configuration(), plan.side_settings());
    let Some(mut found) = Measured::read(&plan.out_dir)? else {
        return Ok(Measured::new(configuration, settings, sides, reference));
    };
    let mut differs = found.configuration.differences(&configuration);
    for (name, now) in &settings {
        if let Some(before) = found.side_settings.get(name) {
            differs.extend(before.differences(now).iter().map(|what| format!("{name}: {what}")));
        }
    }
    if !differs.is_empty() {
        bail!(
            "{} holds a comparison with other settings: {}; choose another --out-dir, or repeat \
             the old settings to continue",
            plan.out_dir.join(MEASURED_FILE).display(),
            differs.join(", ")
        );
    }
    found.side_settings.extend(settings);
    if found.reference != reference {
        // Another teacher's.
        found.teacher_forced.clear();
    }
    (found.sides, found.reference) = (sides, reference);
    // What could not be measured before is tried again.
    found.missing.clear();
    found.untaught.clear();
    // A folder that was taken away is measured again.
    for runs in [&mut found.runs, &mut found.teachers, &mut found.teacher_forced] {
        runs.retain(|run| plan.out_dir.join(&run.folder).join("sidecar.json").is_file());
    }
    Ok(found)
}

/// The comparison at work.
pub(super) struct Measuring<'a> {
    pub(super) plan: &'a Plan,
    pub(super) measured: Measured,
    pub(super) say: &'a mut dyn FnMut(&str),
    /// Why nothing more can be measured: a process that cannot be ended may have the GPU.
    held: Option<String>,
    /// A sentence for each model that ended early.
    pub(super) ended: Vec<String>,
}

/// A side on one model, with its process where it has one.
pub(super) struct Turn<'a> {
    pub(super) side: &'a SidePlan,
    pub(super) runner: Option<Runner>,
    lost: bool,
}

impl Measuring<'_> {
    fn model(&mut self, model: &ModelWork) -> Result<()> {
        let plan = self.plan;
        if let ReferencePlan::Run(side) = &plan.reference
            && !self.measured.has(&model.tag, &side.name, 1)
        {
            // Alone: its folder has a speed, which reports show.
            let mut turn = Turn { side, runner: None, lost: false };
            self.prepare(model, &mut turn, 1)?;
            self.turn(model, &mut turn, 1, 0)?;
            if self.ends(model)? {
                return Ok(());
            }
        }
        let mut turns: Vec<Turn<'_>> =
            plan.sides.iter().map(|side| Turn { side, runner: None, lost: false }).collect();
        if !plan.restart {
            // Before the first round, so that nothing is compiled while a side is measured; in
            // turn, so that the GPU has nothing else to do while a compiler times its kernels on
            // it.
            turns.iter_mut().try_for_each(|turn| self.prepare(model, turn, plan.rounds))?;
        }
        if self.ends(model)? {
            return Ok(());
        }
        for round in 1..=plan.rounds {
            for at in 0..turns.len() {
                if turns[at].lost || self.measured.has(&model.tag, &turns[at].side.name, round) {
                    continue;
                }
                if plan.restart {
                    self.prepare(model, &mut turns[at], round)?;
                }
                let others = turns.iter().enumerate().filter(|(other, _)| *other != at);
                let waiting = others.filter(|(_, turn)| turn.runner.is_some()).count();
                self.turn(model, &mut turns[at], round, waiting)?;
                if turns[at].lost && self.ends(model)? {
                    return Ok(());
                }
            }
        }
        drop(turns);
        if plan.teacher_forced { self.teach(model) } else { Ok(()) }
    }

    /// Measures one round of a side.
    fn turn(
        &mut self,
        model: &ModelWork,
        turn: &mut Turn<'_>,
        round: usize,
        waiting: usize,
    ) -> Result<()> {
        if turn.lost {
            return Ok(());
        }
        let plan = self.plan;
        let started_unix_s = utc_date::now_unix_s();
        let folder = self.check_free().and_then(|()| one_round(plan, model, turn, round, waiting));
        if let Some(why) = turn.runner.as_ref().and_then(Runner::held) {
            self.held = Some(format!("{} {}: {why}", model.tag, turn.side.name));
        }
        let done = turn.runner.as_ref().is_some_and(|runner| runner.left() == 0);
        if done || plan.restart {
            turn.runner = None;
        }
        let folder = match folder.and_then(whole) {
            Ok(folder) => folder,
            Err(error) => return self.lose(model, turn, &error),
        };
        let ended_unix_s = utc_date::now_unix_s();
        self.measured.runs.push(MeasuredRun {
            model: model.tag.clone(),
            side: turn.side.name.clone(),
            round,
            folder: below(&plan.out_dir, &folder),
            started_unix_s,
            ended_unix_s,
            waiting,
        });
        self.measured.write(&plan.out_dir)?;
        (self.say)(&format!(
            "{} {}: round {round} of {} took {} s",
            model.tag,
            turn.side.name,
            plan.rounds,
            ended_unix_s.saturating_sub(started_unix_s)
        ));
        Ok(())
    }

    /// Whether no process is left that could not be ended.
    ///
    /// # Errors
    /// One is.
    pub(super) fn check_free(&self) -> Result<()> {
        match &self.held {
            None => Ok(()),
            Some(why) => bail!("not measured, because a process could not be ended: {why}"),
        }
    }

    /// Notes why a side has no further rounds on this model; the others go on.
    pub(super) fn lose(
        &mut self,
        model: &ModelWork,
        turn: &mut Turn<'_>,
        error: &anyhow::Error,
    ) -> Result<()> {
        turn.lost = true;
        turn.runner = None;
        let why = format!("{error:#}");
        if error.downcast_ref::<Held>().is_some() {
            self.held = Some(format!("{} {}: {why}", model.tag, turn.side.name));
        }
        let known = self.measured.missing.iter().find(|missing| bare(&missing.why) == bare(&why));
        let cause = known.map(|known| format!("the cause of {} {}", known.model, known.side));
        let cause = cause.unwrap_or_else(|| why.clone());
        let (tag, side) = (model.tag.clone(), turn.side.name.clone());
        let rounds = Some(self.plan.rounds);
        self.measured.missing.push(Missing { model: tag, side, why, rounds });
        // What ends the model is told with that.
        let told = match lacks(self.plan, &self.measured, &model.tag) {
            Some(_) => "not available".to_owned(),
            None => format!("not available: {cause}"),
        };
        (self.say)(&format!("{} {}: {told}", model.tag, turn.side.name));
        self.measured.write(&self.plan.out_dir)
    }
}

/// Runs a side once; the folder that it left.
fn one_round(
    plan: &Plan,
    model: &ModelWork,
    turn: &mut Turn<'_>,
    round: usize,
    waiting: usize,
) -> Result<PathBuf> {
    let SideKind::Bench(args) = &turn.side.kind else {
        return turn.runner.as_mut().context("the PyTorch runner is gone")?.round(waiting);
    };
    let folder = side_dir(plan, model, turn.side).join(format!("round_{round}"));
    let mut args = bench_words(plan, model, turn.side, args);
    if waiting > 0 {
        args.extend(["--idle-processes".to_owned(), waiting.to_string()]);
    }
    bench_child::run(&args, &folder).map(|()| folder)
}

/// The folder, if no row of it failed: a speed over some of the objects is another speed.
pub(super) fn whole(folder: PathBuf) -> Result<PathBuf> {
    let run = RunFolder::read(&folder)?;
    match run.rows.iter().find(|row| row.status == "failed") {
        Some(row) => bail!("{} object {}: {}", row.video, row.object, row.reason),
        None => Ok(folder),
    }
}

/// Where a side's runs of a model lie.
pub(super) fn side_dir(plan: &Plan, model: &ModelWork, side: &SidePlan) -> PathBuf {
    plan.out_dir.join("runs").join(&model.tag).join(&side.name)
}

/// The arguments of `segtrt bench` for a round of a side, `more` being its own; without the folder.
pub fn bench_words(
    plan: &Plan,
    model: &ModelWork,
    side: &SidePlan,
    more: &[String],
) -> Vec<String> {
    bench_args(plan, model, side, more, plan.clips.warmup_runs)
}

/// The same with so many warm-up passes.
pub(super) fn bench_args(
    plan: &Plan,
    model: &ModelWork,
    side: &SidePlan,
    more: &[String],
    warmup_runs: usize,
) -> Vec<String> {
    let mut args = plan.clips.flags();
    // ONNX Runtime's TensorRT provider builds engines inside a pass, in silence.
    let builds = more.windows(2).any(|words| words == ["--ort-provider", "tensorrt"]);
    let stall_limit = plan.stall_limit_s.map(|seconds| if builds { 0 } else { seconds });
    let pairs = [
        ("--models", Some(model.tag.clone())),
        ("--precision", Some(side.precision.clone())),
        ("--imgsz", side.imgsz.or(model.imgsz).map(|side| side.to_string())),
        ("--warmup-runs", Some(warmup_runs.to_string())),
        ("--metrics", Some("official".to_owned())),
        ("--stall-limit", stall_limit.map(|seconds| seconds.to_string())),
    ];
    for (flag, value) in pairs {
        args.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
    }
    args.push("--save-masks".to_owned());
    args.extend(more.iter().cloned());
    args
}

/// `folder` from `root` on, so that the whole can be carried elsewhere; as it is where it lies
/// outside.
pub(super) fn below(root: &Path, folder: &Path) -> PathBuf {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (root, folder) = (absolute(root), absolute(folder));
    folder.strip_prefix(&root).map(Path::to_owned).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::plan::Clips;

    fn side(name: &str) -> SidePlan {
        // Were it started, it would say that it knows no such thing.
        let kind = SideKind::Bench(vec!["--no-such-thing".to_owned()]);
        SidePlan { name: name.to_owned(), precision: "fp32".to_owned(), imgsz: None, kind }
    }

    #[test]
    fn beside_a_process_that_cannot_be_ended_nothing_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let model = |tag: &str| ModelWork {
            tag: tag.to_owned(),
            imgsz: None,
            bundle: Err("none".to_owned()),
        };
        let clips = Clips {
            split_dir: dir.path().to_owned(),
            split_name: "none".to_owned(),
            limit_videos: 0,
            limit_objects: 0,
            max_clip_frames: 0,
            warmup_runs: 0,
        };
        let plan = Plan {
            out_dir: dir.path().join("out"),
            models: vec![model("first"), model("second")],
            sides: vec![side("hangs"), side("other")],
            reference: ReferencePlan::Side("other".to_owned()),
            clips,
            rounds: 2,
            teacher_forced: false,
            restart: false,
            stall_limit_s: None,
            ready_limit_s: None,
        };
        std::fs::create_dir(&plan.out_dir).unwrap();
        let measured = open(&plan).unwrap();
        let mut measuring =
            Measuring { plan: &plan, measured, say: &mut |_| {}, held: None, ended: vec![] };
        let turn = |at: usize| Turn { side: &plan.sides[at], runner: None, lost: false };
        // A side that is merely lost has nothing to do with the others.
        let (mut hangs, mut other) = (turn(0), turn(1));
        measuring.lose(&plan.models[0], &mut hangs, &anyhow::anyhow!("it died")).unwrap();
        measuring.check_free().unwrap();
        let held = anyhow::Error::new(Held("process 7 is still there".to_owned()));
        measuring.lose(&plan.models[0], &mut hangs, &held.context("it hangs")).unwrap();
        measuring.turn(&plan.models[0], &mut other, 1, 0).unwrap();
        measuring.turn(&plan.models[1], &mut turn(0), 1, 0).unwrap();
        assert!(!plan.out_dir.join("runs").exists(), "nothing was started");
        let told = "not measured, because a process could not be ended: first hangs: it hangs: \
                    process 7 is still there";
        let missing = &measuring.measured.missing;
        let of = |at: usize| {
            (missing[at].model.as_str(), missing[at].side.as_str(), missing[at].why.as_str())
        };
        assert_eq!(of(2), ("first", "other", told));
        assert_eq!(of(3), ("second", "hangs", told));
        assert_eq!(missing.len(), 4);
    }
}
