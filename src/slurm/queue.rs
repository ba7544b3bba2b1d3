/*!
sbatch and squeue: what is typed, and what they answer.
*/

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use host::on_path;
use host::timed_command::{self, Printed};

/// A controller that is busy may take its time.
const PATIENCE: Duration = Duration::from_secs(120);

/// squeue's words for a job that ended so long ago that the controller forgot it.
const FORGOTTEN: &str = "Invalid job id";

/// A task that is waiting or running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Slurm's word: `PENDING`, `RUNNING`, …
    pub state: String,
    /// Why it waits, in Slurm's words.
    pub reason: String,
}

/// Slurm's two commands.
#[derive(Clone, Copy, Debug)]
pub struct Commands;

impl Commands {
    /// Both are there.
    pub fn are_there() -> bool {
        ["sbatch", "squeue"].iter().all(|name| !on_path::find(name).is_empty())
    }

    /// Submits; the job's number.
    ///
    /// # Errors
    /// sbatch refuses; its own words are in the message.
    pub fn submit(words: &[String]) -> Result<String> {
        let printed = answer("sbatch", words)?;
        if !printed.status.success() {
            bail!("sbatch refused the job: {}", said(&printed));
        }
        // Libraries and site scripts may print before it; with several clusters its name follows.
        let line = printed.out.lines().rev().find(|line| !line.trim().is_empty());
        let job = line.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if job.is_empty() || !job.chars().all(|c| c.is_ascii_digit()) {
            bail!(
                "sbatch printed {:?}, expected a job number; check squeue for the job",
                printed.out
            );
        }
        Ok(job.to_owned())
    }

    /// The tasks of a job that wait or run.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn live(job: &str) -> Result<BTreeMap<usize, Live>> {
        let words = ["--noheader", "--array", "--format=%i|%T|%r"].map(str::to_owned);
        let words: Vec<String> = words.into_iter().chain([format!("--jobs={job}")]).collect();
        let printed = answer("squeue", &words)?;
        if !printed.status.success() {
            if printed.err.contains(FORGOTTEN) {
                return Ok(BTreeMap::new());
            }
            bail!("{}", said(&printed));
        }
        Ok(parse(&printed.out))
    }
}

fn parse(text: &str) -> BTreeMap<usize, Live> {
    let task = |line: &str| {
        let mut fields = line.trim().splitn(3, '|');
        let (_, task) = fields.next()?.rsplit_once('_')?;
        let (state, reason) = (fields.next()?.to_owned(), fields.next().unwrap_or_default());
        Some((task.parse().ok()?, Live { state, reason: reason.to_owned() }))
    };
    text.lines().filter_map(task).collect()
}

fn answer(program: &str, words: &[String]) -> Result<Printed> {
    timed_command::run(Command::new(program).args(words), PATIENCE)
        .with_context(|| format!("cannot run {program}"))
}

fn said(printed: &Printed) -> String {
    let all = format!("{} {}", printed.err.trim(), printed.out.trim());
    match all.trim() {
        "" => format!("it ended with {} and said nothing", printed.status),
        said => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_an_array_are_told_apart() {
        let live =
            parse("12_1|RUNNING|None\n 12_3|PENDING|Resources\n12_[5-6]|PENDING|x\n\nnonsense\n");
        let told: Vec<_> =
            live.iter().map(|(task, live)| (*task, &*live.state, &*live.reason)).collect();
        assert_eq!(told, [(1, "RUNNING", "None"), (3, "PENDING", "Resources")]);
    }
}
