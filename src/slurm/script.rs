/*!
The script that every task runs, and the words by which it is submitted.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Array;
use host::shell;
use vos::files::atomic;

/// Where an experiment keeps what Slurm needs and leaves.
#[derive(Clone, Debug)]
pub struct Script {
    /// The experiment.
    pub experiment: PathBuf,
    /// How many shards it has.
    pub shards: usize,
    /// Where it was begun: relative paths of its flags begin there.
    pub directory: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// What the jobs are called in the queue.
    pub name: String,
}

impl Script {
    /// The folder of all of it.
    pub fn folder(&self) -> PathBuf {
        self.experiment.join("slurm")
    }

    /// Where tasks leave their exit codes.
    pub fn ended(&self) -> PathBuf {
        self.folder().join("ended")
    }

    /// The script.
    pub fn path(&self) -> PathBuf {
        self.folder().join("job.sh")
    }

    /// What a task printed.
    pub fn log(&self, job: &str, task: usize) -> PathBuf {
        self.folder().join(format!("{job}_{task}.log"))
    }

    /// Writes the script and makes the folders.
    ///
    /// # Errors
    /// They cannot be written, or a path is not UTF-8.
    pub fn write(&self) -> Result<()> {
        let ended = self.ended();
        std::fs::create_dir_all(&ended)
            .with_context(|| format!("cannot create {}", ended.display()))?;
        let text = self.text()?;
        atomic::write(&self.path(), |out| Ok(out.write_all(text.as_bytes())?))
    }

    /// What a task does.
    fn text(&self) -> Result<String> {
        let [program, experiment, directory, ended] =
            [&self.program, &self.experiment, &self.directory, &self.ended()]
                .map(|path| quoted(path));
        Ok(format!(
            "#!/bin/sh\n# One shard of a segtrt experiment; segtrt experiment --slurm wrote this \
             and submits it as an array.\ncd {directory} || exit 1\n{program} experiment --resume \
             {experiment} --shard \"$SLURM_ARRAY_TASK_ID/{shards}\"\ncode=$?\n# Whoever waits \
             reads this; it appears at once or not at \
             all.\nname=\"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\"\nprintf \
             '%s\\n' \"$code\" > {ended}/\".$name\" && mv -f {ended}/\".$name\" \
             {ended}/\"$name\"\nexit $code\n",
            program = program?,
            experiment = experiment?,
            directory = directory?,
            ended = ended?,
            shards = self.shards,
        ))
    }

    /// The words of sbatch for these tasks; `args` are the user's.
    pub fn words(&self, tasks: &[usize], args: &[String]) -> Vec<String> {
        // Slurm fills in per cent signs; one of the path's own is written twice.
        let folder = self.folder().display().to_string().replace('%', "%%");
        let mut words = vec![
            format!("--job-name={}", self.name),
            format!("--output={folder}/%A_%a.log"),
            // A task that Slurm restarts keeps its earlier output.
            "--open-mode=append".to_owned(),
        ];
        words.extend(args.iter().cloned());
        words.extend(["--parsable".to_owned(), format!("--array={}", Array(tasks))]);
        words.push(self.path().display().to_string());
        words
    }
}

/// A command line as it can be typed.
pub fn command_line(program: &str, words: &[String]) -> String {
    shell::line(std::iter::once(program).chain(words.iter().map(String::as_str)))
}

fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is no UTF-8 path", path.display()))?;
    Ok(shell::word(text))
}
