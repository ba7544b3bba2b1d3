/*!
A shard on each GPU of this host, all at the same time: which GPUs, and one child of this program
for each.

A child sees one GPU only (`CUDA_VISIBLE_DEVICES`), as its device 0. What it prints goes to a file
in its folder; this shows how far each is and how it ended.
*/

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Shard;
use cuda::{Facts, Gpu};
use host::child;
use host::ctrl_c;
use host::program;
use vos::files::JOURNAL;

/// File name of a shard's output.
pub const LOG: &str = "log.txt";

/// The variable by which the driver hides GPUs.
pub const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

const LOOK: Duration = Duration::from_millis(100);
const TELL: Duration = Duration::from_secs(10);

/// Number of lines shown from the log of a failed shard.
const SHOWN: usize = 8;

/// Asks the driver for the GPUs of these ordinals.
///
/// # Errors
/// A sentence for the user: a repeated or missing GPU, GPUs of different kinds, no driver.
pub fn find(ordinals: &[usize]) -> Result<Vec<Facts>, String> {
    let list: Vec<String> = ordinals.iter().map(usize::to_string).collect();
    let flag = format!("--devices {}", list.join(","));
    for (at, ordinal) in ordinals.iter().enumerate() {
        if ordinals[..at].contains(ordinal) {
            return Err(format!("{flag} names GPU {ordinal} twice; name each GPU once"));
        }
    }
    let count = Gpu::how_many().map_err(|error| format!("{flag}: {error}"))?;
    if let Some(ordinal) = ordinals.iter().find(|ordinal| **ordinal >= count) {
        return Err(format!(
            "{flag}: there is no GPU {ordinal}: the CUDA driver shows {count}, counted from 0; \
             check nvidia-smi and {VISIBLE}"
        ));
    }
    let mut found: Vec<Facts> = Vec::new();
    for ordinal in ordinals {
        let gpu = Gpu::open(*ordinal).map_err(|error| format!("{flag}: {error}"))?;
        let facts = gpu.facts().clone();
        if let Some(first) =
            found.first().filter(|first| (&first.name, first.sm) != (&facts.name, facts.sm))
        {
            return Err(format!(
                "{flag}: GPU {} is {}, GPU {ordinal} is {}; one table needs GPUs of one kind: \
                 start one experiment per kind",
                first.ordinal, first.name, facts.name
            ));
        }
        found.push(facts);
    }
    Ok(found)
}

/// Value of [`VISIBLE`] for a child that uses GPU `ordinal` of this process, whose own value is
/// `now`.
pub fn visible(ordinal: usize, now: Option<&str>) -> String {
    // The driver stops at the first invalid entry, so the entries before it count as listed.
    let entries = now.filter(|now| !now.trim().is_empty()).map(|now| now.split(','));
    let entry = entries.and_then(|mut entries| entries.nth(ordinal));
    entry.map_or_else(|| ordinal.to_string(), |entry| entry.trim().to_owned())
}

/// A bench of one shard.
#[derive(Clone, Debug)]
pub struct Task {
    /// Which.
    pub shard: Shard,
    /// The GPU as it is called on the screen.
    pub place: String,
    /// What the child sees as [`VISIBLE`].
    pub visible: String,
    /// The bench's words.
    pub words: Vec<String>,
    /// Where it writes.
    pub folder: PathBuf,
    /// Where relative paths among the words begin.
    pub directory: PathBuf,
}

/// How a task ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Which shard.
    pub shard: Shard,
    /// In words.
    pub how: String,
    /// Exit code; none where a signal ended it or it could not begin.
    pub code: Option<i32>,
    /// How long it took, s.
    pub seconds: f64,
}

/// A child that runs.
struct Running<'a> {
    task: &'a Task,
    child: Child,
    begun: Instant,
    rows: usize,
}

/// Runs all tasks at the same time, each to its own end. Ctrl-C ends all of them; the flag says
/// that it came.
///
/// # Errors
/// Ctrl-C cannot be taken over. A task that fails, or cannot begin, costs itself only.
pub fn run(tasks: &[Task], say: &mut dyn FnMut(&str)) -> Result<(Vec<Ended>, bool)> {
    let stopped = ctrl_c::flag()?;
    let (mut running, mut ended) = (Vec::new(), Vec::new());
    for task in tasks {
        if stopped.load(Ordering::Relaxed) {
            let how = "stopped before it began".to_owned();
            ended.push(Ended { shard: task.shard, how, code: None, seconds: 0.0 });
            continue;
        }
        match start(task) {
            Ok(child) => {
                say(&format!(
                    "shard {} on {}: begun, its messages go to {}",
                    task.shard,
                    task.place,
                    task.folder.join(LOG).display()
                ));
                running.push(Running { task, child, begun: Instant::now(), rows: 0 });
            }
            Err(error) => {
                let how = format!("{error:#}");
                say(&format!("shard {} on {}: {how}", task.shard, task.place));
                ended.push(Ended { shard: task.shard, how, code: None, seconds: 0.0 });
            }
        }
    }
    let (mut told, mut asked) = (Instant::now(), false);
    while !running.is_empty() {
        std::thread::sleep(LOOK);
        if stopped.load(Ordering::Relaxed) && !asked {
            asked = true;
            say("stopping all shards; finished rows are kept");
            // A bench's worker ends when its reader is gone.
            running.iter_mut().for_each(|one| child::terminate(&mut one.child));
        }
        let tell = told.elapsed() >= TELL;
        if tell {
            told = Instant::now();
        }
        let mut left = Vec::new();
        for mut one in running {
            match one.child.try_wait() {
                Ok(None) => {
                    if tell {
                        one.tell(say);
                    }
                    left.push(one);
                }
                Ok(Some(status)) => {
                    let how = child::ending(status);
                    ended.push(one.end(how, status.code(), !asked, say));
                }
                Err(error) => ended.push(one.end(error.to_string(), None, true, say)),
            }
        }
        running = left;
    }
    ended.sort_by_key(|ended| ended.shard.part);
    // Ctrl-C may have come with the end of the last shard.
    Ok((ended, stopped.load(Ordering::Relaxed)))
}

impl Running<'_> {
    fn tell(&mut self, say: &mut dyn FnMut(&str)) {
        let rows = rows_in(&self.task.folder);
        if rows != self.rows {
            self.rows = rows;
            say(&format!("shard {} on {}: {rows} rows", self.task.shard, self.task.place));
        }
    }

    fn end(
        self,
        how: String,
        code: Option<i32>,
        explain: bool,
        say: &mut dyn FnMut(&str),
    ) -> Ended {
        let Task { shard, place, folder, .. } = self.task;
        let seconds = self.begun.elapsed().as_secs_f64();
        say(&format!(
            "shard {shard} on {place}: ended {how} after {seconds:.1} s, {} rows",
            rows_in(folder)
        ));
        if code != Some(0) && explain {
            let log = folder.join(LOG);
            last_lines(&log).iter().for_each(|line| say(&format!("    {line}")));
            say(&format!("    (the end of {})", log.display()));
        }
        Ended { shard: *shard, how, code, seconds }
    }
}

fn start(task: &Task) -> Result<Child> {
    std::fs::create_dir_all(&task.folder).with_context(|| {
        format!("cannot create {}; choose a writable --out-dir", task.folder.display())
    })?;
    let path = task.folder.join(LOG);
    let log = OpenOptions::new().create(true).append(true).open(&path);
    let log = log.with_context(|| format!("cannot write {}", path.display()))?;
    // If this process is killed, its shards end too: they would disturb the next measurement.
    child::as_step(&mut program::again()?)
        .arg("bench")
        .args(&task.words)
        .stdout(log.try_clone().context("cannot hand on the log")?)
        .stderr(log)
        .current_dir(&task.directory)
        .env(VISIBLE, &task.visible)
        // The words carry its value.
        .env_remove("SEGTRT_ONNX_DIR")
        .spawn()
        .context("cannot start segtrt bench")
}

/// Rows in a run folder's journal, its first line left out.
pub fn rows_in(folder: &Path) -> usize {
    let Ok(file) = File::open(folder.join(JOURNAL)) else { return 0 };
    BufReader::new(file).split(b'\n').count().saturating_sub(1)
}

/// The last lines that were printed into a log.
pub fn last_lines(log: &Path) -> Vec<String> {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(SHOWN)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_sees_the_gpu_that_was_meant_here() {
        assert_eq!(visible(1, None), "1");
        assert_eq!(visible(1, Some("")), "1");
        assert_eq!(visible(1, Some("2,3")), "3");
        assert_eq!(visible(0, Some(" GPU-8932f937 ,GPU-1")), "GPU-8932f937");
    }

    #[test]
    fn one_gpu_is_not_two() {
        let error = find(&[0, 1, 0]).unwrap_err();
        assert!(error.starts_with("--devices 0,1,0 names GPU 0 twice"), "{error}");
    }
}
