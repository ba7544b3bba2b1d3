/*!
Teacher-forced runs, after the timed rounds of a model: the reference once more with its logits
saved, then each other side once with its memories written from them. None of them is timed.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::bench_child;
use super::plan::{ModelWork, ReferencePlan, SideKind, SidePlan};
use super::rounds::{Measuring, below, bench_args, side_dir, whole};
use super::runner::Runner;
use report::compare::runs::{FORCED_FOLDER, MeasuredRun, Missing, RunFolder, TEACHER_FOLDER};
use report::compare::utc_date;

impl Measuring<'_> {
    /// What is not there yet of `model`. A side that cannot be taught is noted and costs only its
    /// second drift curve.
    ///
    /// # Errors
    /// The state cannot be written.
    pub(super) fn teach(&mut self, model: &ModelWork) -> Result<()> {
        let plan = self.plan;
        let reference = match &plan.reference {
            ReferencePlan::Side(name) => name.as_str(),
            ReferencePlan::Run(side) => side.name.as_str(),
            ReferencePlan::Folder(_) => "",
        };
        let lost: Vec<String> = self
            .measured
            .missing
            .iter()
            .filter(|m| m.model == model.tag)
            .map(|m| m.side.clone())
            .collect();
        // A side that could not be measured has no curve to put another beside.
        let sides = || {
            plan.sides.iter().filter(|side| side.name != reference && !lost.contains(&side.name))
        };
        let there = |measured: &[MeasuredRun], name: &str| {
            measured.iter().any(|run| run.model == model.tag && run.side == name)
        };
        if sides().all(|side| there(&self.measured.teacher_forced, &side.name)) {
            return Ok(());
        }
        let teacher = match self.teacher(model) {
            Ok(teacher) => teacher,
            Err(error) => {
                let why = format!("there is no teacher: {error:#}");
                return sides().try_for_each(|side| self.untaught(model, side, why.clone()));
            }
        };
        for side in sides() {
            if there(&self.measured.teacher_forced, &side.name) {
                continue;
            }
            let flags = ["--teacher".to_owned(), teacher.display().to_string()];
            match self.once(model, side, FORCED_FOLDER, &flags) {
                Ok(run) => {
                    self.measured.teacher_forced.push(run);
                    self.measured.write(&plan.out_dir)?;
                }
                Err(error) => self.untaught(model, side, format!("{error:#}"))?,
            }
        }
        Ok(())
    }

    /// The folder with the reference's logits; measured where it is not there.
    fn teacher(&mut self, model: &ModelWork) -> Result<PathBuf> {
        let plan = self.plan;
        let side = match &plan.reference {
            ReferencePlan::Run(side) => side,
            ReferencePlan::Side(name) => {
                plan.sides.iter().find(|side| side.name == *name).context("no such side")?
            }
            ReferencePlan::Folder(path) => {
                return match RunFolder::read(path)?.has_logits() {
                    true => Ok(path.clone()),
                    false => bail!(
                        "{} has no logits; make that run again with --save-logits",
                        path.display()
                    ),
                };
            }
        };
        let is_it = |run: &&MeasuredRun| run.model == model.tag && run.side == side.name;
        if let Some(run) = self.measured.teachers.iter().find(is_it) {
            return Ok(plan.out_dir.join(&run.folder));
        }
        let run = self.once(model, side, TEACHER_FOLDER, &["--save-logits".to_owned()])?;
        let folder = plan.out_dir.join(&run.folder);
        self.measured.teachers.push(run);
        // What an earlier teacher taught, whose folder is gone.
        self.measured.teacher_forced.retain(|run| run.model != model.tag);
        self.measured.write(&plan.out_dir)?;
        Ok(folder)
    }

    /// One run of a side, outside its rounds and without a warm-up, into a folder of this name.
    fn once(
        &mut self,
        model: &ModelWork,
        side: &SidePlan,
        name: &str,
        flags: &[String],
    ) -> Result<MeasuredRun> {
        let plan = self.plan;
        self.check_free()?;
        (self.say)(&format!("{} {}: {}", model.tag, side.name, name.replace('_', "-")));
        let started_unix_s = utc_date::now_unix_s();
        let folder = side_dir(plan, model, side).join(name);
        let folder = match &side.kind {
            SideKind::Bench(more) => {
                let mut args = bench_args(plan, model, side, more, 0);
                args.extend(flags.iter().cloned());
                bench_child::run(&args, &folder)?;
                folder
            }
            SideKind::Runner { .. } => {
                let mut command = self.runner_command(model, side, &folder, 1, 0)?;
                command.args.extend(flags.iter().cloned());
                Runner::start(&command)?.round(0)?
            }
        };
        let folder: &Path = &whole(folder)?;
        Ok(MeasuredRun {
            model: model.tag.clone(),
            side: side.name.clone(),
            round: 1,
            folder: below(&plan.out_dir, folder),
            started_unix_s,
            ended_unix_s: utc_date::now_unix_s(),
            waiting: 0,
        })
    }

    fn untaught(&mut self, model: &ModelWork, side: &SidePlan, why: String) -> Result<()> {
        (self.say)(&format!("{} {}: not teacher-forced: {why}", model.tag, side.name));
        let (model, side) = (model.tag.clone(), side.name.clone());
        self.measured.untaught.push(Missing { model, side, why, rounds: None });
        self.measured.write(&self.plan.out_dir)
    }
}
