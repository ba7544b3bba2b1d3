/*!
Starting PyTorch's processes, one after the other: each is built, compiled and warm before the next
begins, and all are before the first round, so that nothing else runs on the GPU while one compiles
and nothing compiles while a side is measured.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::plan::{ModelWork, SideKind, SidePlan};
use super::rounds::{Measuring, Turn, side_dir};
use super::runner::{Runner, RunnerCommand};
use host::child;
use report::compare::runs::MeasuredRun;

impl Measuring<'_> {
    /// Starts the process of a PyTorch side that has rounds left up to `last`, and waits until it
    /// is ready; one that does not get ready is lost.
    pub(super) fn prepare(
        &mut self,
        model: &ModelWork,
        turn: &mut Turn<'_>,
        last: usize,
    ) -> Result<()> {
        let Some((first, rounds)) = self.rounds_left(model, turn.side, last) else {
            return Ok(());
        };
        (self.say)(&format!("{} {}: building and warming up", model.tag, turn.side.name));
        let dir = self.runner_dir(model, turn.side, first);
        let warmup_runs = self.plan.clips.warmup_runs;
        let command = self
            .check_free()
            .and_then(|()| self.runner_command(model, turn.side, &dir, rounds, warmup_runs));
        match command.and_then(|command| Runner::start(&command)) {
            Ok(runner) => turn.runner = Some(runner),
            Err(error) => self.lose(model, turn, &error)?,
        }
        Ok(())
    }

    /// The first round up to `last` that is left to the process of a PyTorch side, and how many
    /// are; none where it needs no process.
    fn rounds_left(
        &self,
        model: &ModelWork,
        side: &SidePlan,
        last: usize,
    ) -> Option<(usize, usize)> {
        let SideKind::Runner { .. } = side.kind else { return None };
        if self.plan.restart {
            return Some((last, 1));
        }
        let mut left =
            (1..=last).filter(|round| !self.measured.has(&model.tag, &side.name, *round));
        left.next().map(|first| (first, 1 + left.count()))
    }

    /// Where a process writes its rounds from `first` on: a folder in which no round that counts
    /// lies, for it numbers its own from 0.
    fn runner_dir(&self, model: &ModelWork, side: &SidePlan, first: usize) -> PathBuf {
        let place = side_dir(self.plan, model, side);
        let is_taken = |dir: &Path| {
            let lies_there =
                |run: &MeasuredRun| self.plan.out_dir.join(&run.folder).starts_with(dir);
            self.measured.runs.iter().any(lies_there)
        };
        let (mut dir, mut time) = (place.join(format!("from_round_{first}")), 1);
        while is_taken(&dir) {
            time += 1;
            dir = place.join(format!("from_round_{first}_{time}"));
        }
        dir
    }

    /// How a PyTorch side is started that measures so many rounds into `out_dir`.
    pub(super) fn runner_command(
        &self,
        model: &ModelWork,
        side: &SidePlan,
        out_dir: &Path,
        rounds: usize,
        warmup_runs: usize,
    ) -> Result<RunnerCommand> {
        let SideKind::Runner { python, script, mode, device, args } = &side.kind else {
            bail!("{} is no PyTorch side", side.name);
        };
        if !script.is_file() {
            bail!("there is no {}; name the PyTorch runner with --runner", script.display());
        }
        let bundle = model.bundle.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        let dir = side_dir(self.plan, model, side);
        let text = |path: &Path| path.display().to_string();
        let mut all = vec![text(script)];
        all.extend(self.plan.clips.flags());
        let imgsz = side.imgsz.or(model.imgsz).map(|side| side.to_string());
        let flags = [
            ("--models", Some(model.tag.clone())),
            ("--mode", Some(mode.clone())),
            ("--precision", Some(side.precision.clone())),
            ("--imgsz", imgsz),
            ("--device", Some(device.clone())),
            ("--bundle", Some(text(bundle))),
            ("--warmup-runs", Some(warmup_runs.to_string())),
            ("--rounds", Some(rounds.to_string())),
            ("--out-dir", Some(text(out_dir))),
        ];
        for (flag, value) in flags {
            all.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
        }
        all.extend(["--interactive".to_owned(), "--save-masks".to_owned()]);
        all.extend(args.iter().cloned());
        let stall_limit = child::limit_of(self.plan.stall_limit_s.unwrap_or(child::USUAL_LIMIT_S));
        let ready_limit = self.plan.ready_limit_s.and_then(child::limit_of);
        let (python, log) = (python.clone(), dir.join("runner.log"));
        Ok(RunnerCommand { python, args: all, log, rounds, stall_limit, ready_limit })
    }
}
