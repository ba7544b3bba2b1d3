/*!
Waits for the tasks of a job, and tells how each ended.
*/

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::queue::Live;

/// Looks without a trace of a task before it is given up: its file may take a while over a network.
const PATIENCE: usize = 3;

/// Polls without an answer of the controller until the next message about it.
const SAY_AGAIN: usize = 30;

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this exit code.
    Code(i32),
    /// It was killed, or its node is gone: it left no exit code and is not in the queue.
    Lost,
}

impl Ending {
    /// It measured its whole shard.
    pub fn is_sound(self) -> bool {
        self == Self::Code(0)
    }
}

/// The exit codes that tasks of a job have left so far.
pub fn endings(ended: &Path, job: &str, tasks: &[usize]) -> BTreeMap<usize, Ending> {
    let of = |task: &usize| {
        let text = std::fs::read_to_string(ended.join(format!("{job}_{task}"))).ok()?;
        // Any other content: the task did not end normally.
        Some((*task, Ending::Code(text.trim().parse().unwrap_or(-1))))
    };
    tasks.iter().filter_map(of).collect()
}

/// A job that is waited for.
pub struct Watch<'a> {
    /// Its number.
    pub job: &'a str,
    /// Its tasks.
    pub tasks: &'a [usize],
    /// Where they leave their exit codes.
    pub ended: &'a Path,
    /// Time between two looks.
    pub period: Duration,
    /// Set when the user does not want to wait any longer.
    pub stopped: &'a AtomicBool,
}

impl Watch<'_> {
    /// Waits until every task has ended; none where the user stopped that. `queue` tells what waits
    /// or runs, `rows` how much is measured.
    pub fn wait(
        &self,
        mut queue: impl FnMut() -> Result<BTreeMap<usize, Live>>,
        rows: impl Fn() -> usize,
        say: &mut dyn FnMut(&str),
    ) -> Option<BTreeMap<usize, Ending>> {
        let mut missed: BTreeMap<usize, usize> = BTreeMap::new();
        let (mut silent, mut told) = (0, String::new());
        loop {
            // In this order: a task that ends in between is in neither, once.
            let live = queue();
            let mut known = endings(self.ended, self.job, self.tasks);
            match &live {
                Ok(live) => {
                    silent = 0;
                    for task in self.tasks.iter().filter(|task| !known.contains_key(task)) {
                        let missed = missed.entry(*task).or_default();
                        *missed = if live.contains_key(task) { 0 } else { *missed + 1 };
                    }
                }
                Err(error) => {
                    if silent % SAY_AGAIN == 0 {
                        say(&format!("the queue does not answer, still waiting: {error:#}"));
                    }
                    silent += 1;
                }
            }
            let lost = missed.iter().filter(|(_, missed)| **missed >= PATIENCE);
            for (task, _) in lost {
                known.entry(*task).or_insert(Ending::Lost);
            }
            if let Ok(live) = &live {
                let line = self.line(&known, live, rows());
                if line != told {
                    say(&line);
                    told = line;
                }
            }
            if known.len() == self.tasks.len() {
                return Some(known);
            }
            let until = Instant::now() + self.period;
            while Instant::now() < until {
                if self.stopped.load(Ordering::Relaxed) {
                    return None;
                }
                std::thread::sleep(Duration::from_millis(20).min(self.period));
            }
        }
    }

    fn line(
        &self,
        known: &BTreeMap<usize, Ending>,
        live: &BTreeMap<usize, Live>,
        rows: usize,
    ) -> String {
        let failed = known.values().filter(|ending| !ending.is_sound()).count();
        let mut line = format!(
            "job {}: {} of {} tasks done",
            self.job,
            known.len() - failed,
            self.tasks.len()
        );
        if failed > 0 {
            line.push_str(&format!(", {failed} failed"));
        }
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        for (_, task) in live.iter().filter(|(task, _)| !known.contains_key(task)) {
            let why = (task.state == "PENDING" && task.reason != "None").then_some(&task.reason);
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            *states.entry(format!("{}{why}", task.state.to_lowercase())).or_default() += 1;
        }
        for (state, count) in states {
            line.push_str(&format!(", {count} {state}"));
        }
        line.push_str(&format!("; {rows} rows"));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(tasks: &[usize]) -> BTreeMap<usize, Live> {
        let task =
            |task: &usize| (*task, Live { state: "PENDING".into(), reason: "Priority".into() });
        tasks.iter().map(task).collect()
    }

    fn wait(
        ended: &Path,
        looks: Vec<Result<BTreeMap<usize, Live>>>,
    ) -> (Option<BTreeMap<usize, Ending>>, Vec<String>) {
        let stopped = AtomicBool::new(false);
        let mut looks = looks.into_iter();
        let watch = Watch {
            job: "7",
            tasks: &[1, 2],
            ended,
            period: Duration::from_millis(1),
            stopped: &stopped,
        };
        let mut said = Vec::new();
        let queue = || {
            looks.next().unwrap_or_else(|| {
                stopped.store(true, Ordering::Relaxed);
                Ok(live(&[1, 2]))
            })
        };
        (watch.wait(queue, || 5, &mut |line| said.push(line.to_owned())), said)
    }

    #[test]
    fn a_task_is_what_it_left() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("7_1"), "0\n").unwrap();
        // Of an earlier job.
        std::fs::write(dir.path().join("6_2"), "0\n").unwrap();
        let queue = || Ok(live(&[2]));
        let (ends, said) = wait(dir.path(), vec![queue(), queue()]);
        assert_eq!(ends, None, "the second task waits");
        assert_eq!(said, ["job 7: 1 of 2 tasks done, 1 pending (Priority); 5 rows"]);
        std::fs::write(dir.path().join("7_2"), "1\n").unwrap();
        let (ends, said) = wait(dir.path(), vec![Ok(BTreeMap::new())]);
        assert_eq!(ends.unwrap(), [(1, Ending::Code(0)), (2, Ending::Code(1))].into());
        assert_eq!(said, ["job 7: 1 of 2 tasks done, 1 failed; 5 rows"]);
    }

    #[test]
    fn who_is_nowhere_is_lost_but_not_at_once_nor_for_a_silent_controller() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("7_1"), "0\n").unwrap();
        let gone = || Ok(BTreeMap::new());
        let silent = || Err(anyhow::anyhow!("Unable to contact slurm controller"));
        let (ends, _) = wait(dir.path(), vec![gone(), gone(), Ok(live(&[2])), gone(), gone()]);
        assert_eq!(ends, None);
        let (ends, said) = wait(dir.path(), vec![silent(), silent(), silent(), silent()]);
        assert_eq!(ends, None);
        assert_eq!(said.iter().filter(|line| line.contains("does not answer")).count(), 1);
        let (ends, _) = wait(dir.path(), vec![gone(), silent(), gone(), gone()]);
        assert_eq!(ends.unwrap()[&2], Ending::Lost);
    }
}
