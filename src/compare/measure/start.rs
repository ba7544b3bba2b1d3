/*!
Starting PyTorch's processes: each is built, compiled and warm before the first round, so that nothing of that runs while a side
is measured. One after the other, or all at once.

Started at once, none waits for another's compiling; how long each took is then no measurement, which they are told, and so is
everybody who reads their runs.
*/

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::plan::{ModelWork, SideKind, SidePlan};
use super::rounds::{Measuring, Turn, side_dir};
use super::runner::{Runner, RunnerCommand, Starting};
use crate::child;
use crate::compare::runs::MeasuredRun;

/// Tells a runner that others start beside it.
const TOGETHER: &str = "--started-together";

impl Measuring<'_> {
    /// Starts the processes of all sides that have rounds left, and waits until they are ready.
    pub(super) fn prepare_all(&mut self, model: &ModelWork, turns: &mut [Turn<'_>]) -> Result<()> {
        let last = self.plan.rounds;
        if !self.plan.start_together {
            return turns.iter_mut().try_for_each(|turn| self.prepare(model, turn, last));
        }
        let starting =
            turns.iter().filter(|turn| self.rounds_left(model, turn.side, last).is_some());
        // A process that starts alone is timed as ever.
        let together = starting.count() > 1;
        let mut begun = Vec::with_capacity(turns.len());
        for turn in turns.iter_mut() {
            begun.push(self.begin(model, turn, last, together)?);
        }
        for (turn, begun) in turns.iter_mut().zip(begun) {
            self.wait(model, turn, begun)?;
        }
        Ok(())
    }

    /// Starts the process of a PyTorch side that has rounds left up to `last`, and waits until it is ready.
    pub(super) fn prepare(
        &mut self,
        model: &ModelWork,
        turn: &mut Turn<'_>,
        last: usize,
    ) -> Result<()> {
        let begun = self.begin(model, turn, last, false)?;
        self.wait(model, turn, begun)
    }

    /// The first round up to `last` that is left to the process of a PyTorch side, and how many are; none where it needs no
    /// process.
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

    /// Starts a side's process where it needs one; one that does not start is lost.
    fn begin(
        &mut self,
        model: &ModelWork,
        turn: &mut Turn<'_>,
        last: usize,
        together: bool,
    ) -> Result<Option<Starting>> {
        let Some((first, rounds)) = self.rounds_left(model, turn.side, last) else {
            return Ok(None);
        };
        (self.say)(&format!("{} {}: building and warming up", model.tag, turn.side.name));
        let dir = self.runner_dir(model, turn.side, first);
        let warmup_runs = self.plan.clips.warmup_runs;
        let command = self
            .check_free()
            .and_then(|()| self.runner_command(model, turn.side, &dir, rounds, warmup_runs));
        let begun = command.and_then(|mut command| {
            command.args.extend(together.then(|| TOGETHER.to_owned()));
            Runner::begin(&command)
        });
        match begun {
            Ok(starting) => Ok(Some(starting)),
            Err(error) => self.lose(model, turn, &error).map(|()| None),
        }
    }

    /// Where a process writes its rounds from `first` on: a folder in which no round that counts lies, for it numbers its own from 0.
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

    /// Waits for what was begun; a side that does not get ready is lost.
    fn wait(
        &mut self,
        model: &ModelWork,
        turn: &mut Turn<'_>,
        begun: Option<Starting>,
    ) -> Result<()> {
        match begun.map(Starting::ready) {
            None => {}
            Some(Ok(runner)) => turn.runner = Some(runner),
            Some(Err(error)) => self.lose(model, turn, &error)?,
        }
        Ok(())
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
