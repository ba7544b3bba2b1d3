/*!
The timed bench of an experiment as an array of Slurm's jobs: submit, wait, submit failed tasks
again, merge.

Everything that matters is in the experiment's folder: the jobs' numbers in `experiment.json`, the
exit codes in `slurm/ended`. Whoever waits may be stopped at any time, and another goes on.
*/

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::args::ExperimentArgs;
use super::devices::join;
use super::timed::Timed;
use crate::experiment::{By, Folder, Ran, SlurmJobs, Submission};
use crate::shard::Shard;
use crate::shard::devices::{last_lines, rows_in};
use crate::slurm::{self, Array, Commands, Ending, Script, Watch, command_line, endings};
use host::ctrl_c;
use host::shell;

/// Runs what is missing of all shards as jobs, and merges.
pub(super) fn measure(
    folder: &mut Folder,
    jobs: SlurmJobs,
    args: &ExperimentArgs,
    say: &mut dyn FnMut(&str),
) -> Result<Timed> {
    let (args, json) = (&args.spread, args.json);
    let shards = folder.spec.sharding.as_ref().map_or(1, |sharding| sharding.shards);
    let script = Script {
        experiment: folder.path.clone(),
        shards,
        directory: folder.spec.working_directory.clone(),
        program: std::env::current_exe().context("cannot find this program's own file")?,
        name: format!("segtrt_{}", folder.spec.timestamp),
    };
    let mut run = Run { folder, jobs, script, shards };
    run.script.write()?;
    if args.dry_run {
        let tasks = run.to_do();
        say("nothing is submitted; this would be:");
        match json {
            true => println!("{:#}", run.told(None, &tasks)),
            false => println!("{}", run.command_line(&tasks)),
        }
        say(&format!(
            "submit it with: segtrt experiment --resume {}",
            shell::path(&run.folder.path)
        ));
        return Ok(Timed::Later);
    }
    let stopped = ctrl_c::flag()?;
    // A job of an earlier attempt may still be at work: it is waited for, and not submitted twice.
    let mut submitted = usize::from(run.is_at_work()?);
    if submitted > 0 {
        say(&format!("going on with job {}, which was submitted before", run.job()));
    }
    loop {
        if submitted > 0 {
            if args.no_wait {
                say(&format!(
                    "not waiting for job {}; wait and merge with: segtrt experiment --resume {}",
                    run.job(),
                    shell::path(&run.folder.path)
                ));
                if let (Some(newest), true) = (run.jobs.submissions.last(), json) {
                    println!("{:#}", run.told(Some(&newest.job), &newest.tasks));
                }
                return Ok(Timed::Later);
            }
            if !run.wait(Duration::from_millis(args.poll_ms), &stopped, say)? {
                return Ok(Timed::Stopped);
            }
        }
        let tasks = run.to_do();
        if tasks.is_empty() || submitted > args.retries as usize {
            // First: a shard that cannot be merged must not hide how to go on.
            run.tell_failed(&tasks, say);
            let merged = join(run.folder, shards, say)?;
            return Ok(if tasks.is_empty() && merged { Timed::Sound } else { Timed::PartlyFailed });
        }
        if stopped.load(Ordering::Relaxed) {
            // It came while the queue was asked.
            return Ok(Timed::Stopped);
        }
        run.submit(tasks, say)?;
        submitted += 1;
    }
}

struct Run<'a> {
    folder: &'a mut Folder,
    jobs: SlurmJobs,
    script: Script,
    shards: usize,
}

impl Run<'_> {
    /// The newest job's number.
    fn job(&self) -> &str {
        self.jobs.submissions.last().map_or("", |newest| &newest.job)
    }

    /// The words of sbatch for these tasks, to be typed.
    fn command_line(&self, tasks: &[usize]) -> String {
        command_line("sbatch", &self.script.words(tasks, &self.jobs.args))
    }

    /// What was submitted as `job`, or would be, for programs.
    fn told(&self, job: Option<&str>, tasks: &[usize]) -> Value {
        json!({
            "folder": self.folder.path,
            "submitted": job.is_some(),
            "job": job,
            "shards": self.shards,
            "array": Array(tasks).to_string(),
            "array_size": tasks.len(),
            "script": self.script.path(),
            "command": self.command_line(tasks),
            "go_on": shell::line(["segtrt", "experiment", "--resume", &self.folder.path.display().to_string()]),
            "experiment": self.folder.spec,
        })
    }

    /// How each shard's newest task ended, of those that left a word.
    fn ended(&self) -> BTreeMap<usize, Ending> {
        let mut all = BTreeMap::new();
        for Submission { job, tasks } in &self.jobs.submissions {
            all.retain(|task, _| !tasks.contains(task));
            all.extend(endings(&self.script.ended(), job, tasks));
        }
        all
    }

    /// Shards that are not measured as a whole, or whose folder was removed since.
    fn to_do(&self) -> Vec<usize> {
        let ended = self.ended();
        let sound = |part: &usize| ended.get(part).is_some_and(|ending| ending.is_sound());
        let there = |part| self.folder.shard(Shard { part, of: self.shards }).is_dir();
        (1..=self.shards).filter(|part| !sound(part) || !there(*part)).collect()
    }

    /// Whether tasks of the newest job wait or run.
    fn is_at_work(&self) -> Result<bool> {
        let Some(Submission { job, tasks }) = self.jobs.submissions.last() else {
            return Ok(false);
        };
        if endings(&self.script.ended(), job, tasks).len() == tasks.len() {
            return Ok(false);
        }
        if !Commands::are_there() {
            bail!("job {job} may be at work, and the queue cannot be asked: {}", slurm::INSTALL);
        }
        let live = Commands::live(job).with_context(|| {
            format!("job {job} may be at work, and the queue does not answer; try again later")
        })?;
        Ok(!live.is_empty())
    }

    fn submit(&mut self, tasks: Vec<usize>, say: &mut dyn FnMut(&str)) -> Result<()> {
        if !Commands::are_there() {
            bail!("--slurm: {}", slurm::INSTALL);
        }
        let words = self.script.words(&tasks, &self.jobs.args);
        let job = Commands::submit(&words)?;
        let again = if self.jobs.submissions.is_empty() { "" } else { " again" };
        say(&format!(
            "submitted{again}: job {job}, shards {} of {}, logs in {}",
            Array(&tasks),
            self.shards,
            self.script.folder().display()
        ));
        self.jobs.submissions.push(Submission { job, tasks });
        // At once: whoever goes on must not submit it a second time.
        if let Some(sharding) = &mut self.folder.spec.sharding {
            sharding.by = By::Slurm(self.jobs.clone());
        }
        self.folder.write_spec()
    }

    /// Waits for the newest job; not to its end where the user stops that.
    fn wait(
        &mut self,
        period: Duration,
        stopped: &AtomicBool,
        say: &mut dyn FnMut(&str),
    ) -> Result<bool> {
        let Some(Submission { job, tasks }) = self.jobs.submissions.last().cloned() else {
            return Ok(true);
        };
        let begun = Instant::now();
        let ended = self.script.ended();
        let watch = Watch { job: &job, tasks: &tasks, ended: &ended, period, stopped };
        let rows = || Shard::all(self.shards).map(|shard| rows_in(&self.folder.shard(shard))).sum();
        let Some(ended) = watch.wait(|| Commands::live(&job), rows, say) else {
            say(&format!(
                "no longer waiting; job {job} goes on. Cancel it: scancel {job}. Wait again and \
                 merge: segtrt experiment --resume {}",
                shell::path(&self.folder.path)
            ));
            return Ok(false);
        };
        let seconds = begun.elapsed().as_secs_f64();
        for (task, ending) in ended {
            let (how, code) = match ending {
                Ending::Code(0) => ("well".to_owned(), Some(0)),
                Ending::Code(code) => (format!("with exit code {code}"), Some(code)),
                Ending::Lost => ("without a word: killed, or its node is gone".to_owned(), None),
            };
            if code != Some(0) {
                say(&format!("shard {task}: task {job}_{task} ended {how}"));
            }
            let step = format!("slurm {job}_{task}: bench --shard {task}/{}", self.shards);
            self.folder.note(Ran { step, ended: how, code, seconds })?;
        }
        Ok(true)
    }

    /// What the shards printed last that are given up.
    fn tell_failed(&self, tasks: &[usize], say: &mut dyn FnMut(&str)) {
        for task in tasks {
            let newest = self.jobs.submissions.iter().rev().find(|job| job.tasks.contains(task));
            let Some(Submission { job, .. }) = newest else { continue };
            let log = self.script.log(job, *task);
            say(&format!("shard {task} is given up; the end of {}:", log.display()));
            last_lines(&log).iter().for_each(|line| say(&format!("    {line}")));
        }
        if !tasks.is_empty() {
            say(&format!(
                "fix the cause, then continue with: segtrt experiment --resume {}",
                shell::path(&self.folder.path)
            ));
        }
    }
}
