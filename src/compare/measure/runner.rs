/*!
The PyTorch runner as a child process: it says `ready`, measures a round on `go`, and says where it
lies.

`pytorch/run.py` writes JSON lines to its standard output. All other output of it and its libraries
goes into a log next to its runs.
*/

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use host::child::{self, Heard, Held, Listener};

/// Time from the request to quit until the runner is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a limit is one of.
#[derive(Clone, Copy)]
enum Limit {
    /// The time without a word.
    OfSilence,
    /// Time from start to ready, with or without progress reports.
    OfAll,
}

/// The runner's messages.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum RunnerEvent {
    /// Built and warm; waits for `go`.
    Ready {
        /// It will tell of its progress.
        #[serde(default)]
        tells: bool,
    },
    /// Frames are being made.
    Progress {},
    /// A round is measured.
    Done {
        /// Its run folder.
        folder: PathBuf,
    },
    /// It cannot go on.
    Error {
        /// What happened.
        what: String,
        /// What to do.
        #[serde(default)]
        advice: String,
    },
}

/// How to start one.
#[derive(Clone, Debug)]
pub struct RunnerCommand {
    /// The interpreter.
    pub python: PathBuf,
    /// Interpreter's arguments: the script and its flags.
    pub args: Vec<String>,
    /// Where standard error goes.
    pub log: PathBuf,
    /// Rounds that it will be asked for.
    pub rounds: usize,
    /// How long it may tell of no frame in a round; none: for ever.
    pub stall_limit: Option<Duration>,
    /// How long it may build, compile and warm up; none: for ever.
    pub ready_limit: Option<Duration>,
}

/// A running runner, waiting for `go` unless all its rounds are done.
pub struct Runner {
    child: Child,
    input: Option<ChildStdin>,
    events: Listener<RunnerEvent>,
    log: PathBuf,
    left: usize,
    /// Why it cannot measure the remaining rounds, if it ended after a round.
    lost: Option<anyhow::Error>,
    stall_limit: Option<Duration>,
    /// It reports progress. A runner that does not may be working silently.
    tells: bool,
}

impl Runner {
    /// Starts it and waits until it is ready: built, compiled, warm.
    ///
    /// # Errors
    /// It does not start, says why it cannot go on, dies, or takes longer than it may.
    pub fn start(command: &RunnerCommand) -> Result<Self> {
        let RunnerCommand { python, args, log, rounds, stall_limit, ready_limit } = command;
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let errors = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = Command::new(python)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .with_context(|| {
                format!("cannot start {}; name a Python with PyTorch (--python)", python.display())
            })?;
        let input = child.stdin.take();
        let events = Listener::of(&mut child)?;
        let (log, left, stall_limit) = (log.clone(), *rounds, *stall_limit);
        let mut runner =
            Self { child, input, events, log, left, lost: None, stall_limit, tells: false };
        match runner.wait_until_ready(*ready_limit, Limit::OfAll)? {
            true => Ok(runner),
            false => Err(runner.kill_tree(&format!(
                "the PyTorch runner was not ready after {} s and was ended (a longer \
                 --ready-limit lets it compile longer)",
                ready_limit.unwrap_or_default().as_secs()
            ))),
        }
    }

    /// Measures a round while `waiting` other runners have the GPU open; its run folder. Afterwards
    /// the runner is ready for the next one: nothing of it runs on while another side is measured.
    ///
    /// # Errors
    /// It says why it cannot go on, dies, or hangs.
    pub fn round(&mut self, waiting: usize) -> Result<PathBuf> {
        if let Some(lost) = self.lost.take() {
            return Err(lost);
        }
        let input = self.input.as_mut().context("the PyTorch runner has no input")?;
        let told = writeln!(input, "go {waiting}").and_then(|()| input.flush());
        if told.is_err() {
            return Err(self.ended());
        }
        let folder = match self.at_work()? {
            RunnerEvent::Done { folder } => folder,
            RunnerEvent::Ready { .. } | RunnerEvent::Progress {} => {
                bail!("the PyTorch runner said ready where done was expected")
            }
            RunnerEvent::Error { what, advice } => return Err(refusal(&what, &advice)),
        };
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            // The round is there, whatever becomes of the next one.
            self.lost = self.ready_again().err();
        }
        Ok(folder)
    }

    /// Why nothing more can be measured, if it ended after a round and is still
    /// there.
    pub fn held(&self) -> Option<String> {
        let lost = self.lost.as_ref()?;
        lost.downcast_ref::<Held>().map(|_| format!("{lost:#}"))
    }

    /// Rounds that it can still measure.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Whether it got ready within `limit`.
    fn wait_until_ready(&mut self, limit: Option<Duration>, of: Limit) -> Result<bool> {
        match self.next(limit, of)? {
            None => Ok(false),
            Some(RunnerEvent::Ready { tells }) => {
                self.tells = tells;
                Ok(true)
            }
            Some(RunnerEvent::Done { .. } | RunnerEvent::Progress {}) => {
                bail!("the PyTorch runner said done where ready was expected")
            }
            Some(RunnerEvent::Error { what, advice }) => Err(refusal(&what, &advice)),
        }
    }

    /// Behind a round, for the next one.
    fn ready_again(&mut self) -> Result<()> {
        let limit = self.stall_limit.filter(|_| self.tells);
        if self.wait_until_ready(limit, Limit::OfSilence)? { Ok(()) } else { Err(self.stalled()) }
    }

    /// What ends a round.
    fn at_work(&mut self) -> Result<RunnerEvent> {
        let limit = self.stall_limit.filter(|_| self.tells);
        self.next(limit, Limit::OfSilence)?.map_or_else(|| Err(self.stalled()), Ok)
    }

    /// The next event that is no progress; none where the limit was reached.
    fn next(&mut self, limit: Option<Duration>, of: Limit) -> Result<Option<RunnerEvent>> {
        let begun = Instant::now();
        loop {
            let left = match of {
                Limit::OfSilence => limit,
                Limit::OfAll => limit.map(|limit| limit.saturating_sub(begun.elapsed())),
            };
            match self.events.next(left)? {
                Heard::Event(RunnerEvent::Progress {}) => {}
                Heard::Event(event) => return Ok(Some(event)),
                Heard::End => return Err(self.ended()),
                Heard::Silence => return Ok(None),
            }
        }
    }

    /// It hangs.
    fn stalled(&mut self) -> anyhow::Error {
        let seconds = self.stall_limit.unwrap_or_default().as_secs();
        self.kill_tree(&format!(
            "the PyTorch runner hangs: it finished no frame for {seconds} s and was ended (a \
             longer --stall-limit lets it take its time)"
        ))
    }

    /// Ends it, and whoever waits for it goes on without it.
    fn kill_tree(&mut self, why: &str) -> anyhow::Error {
        self.input = None;
        let last = last_line(&self.log)
            .map_or_else(String::new, |line| format!("; the last that it wrote: {line}"));
        let why = format!("{why}{last}; see {}", self.log.display());
        match child::kill_tree(&mut self.child) {
            Ok(()) => anyhow!("{why}"),
            Err(error) => error.context(why),
        }
    }

    /// It ended without a word: how, and the last that it wrote.
    fn ended(&mut self) -> anyhow::Error {
        self.input = None;
        let how = match self.child.wait() {
            Ok(status) => child::describe(status),
            Err(error) => format!("its end is unknown: {error}"),
        };
        let last = last_line(&self.log).map_or_else(String::new, |line| format!(": {line}"));
        anyhow!("{how}{last}; see {}", self.log.display())
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Some(mut input) = self.input.take() {
            // One that is gone already needs no word.
            let _ = input.write_all(b"quit\n");
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        log::warn!("the PyTorch runner did not quit; it is killed");
        if let Err(error) = child::kill_tree(&mut self.child) {
            log::warn!("the PyTorch runner: {error:#}");
        }
    }
}

fn refusal(what: &str, advice: &str) -> anyhow::Error {
    match advice {
        "" => anyhow!("{what}"),
        advice => anyhow!("{what}; {advice}"),
    }
}

/// The last line of a log that is not blank.
pub(super) fn last_line(log: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&std::fs::read(log).ok()?).into_owned();
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
}
