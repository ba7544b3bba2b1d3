/*!
The events of a child that may fall silent, and the limit of its silence.

Only a child that tells of its progress can be told from one that hangs, so whoever listens says
when a limit holds: for a bench worker once its model is loaded, for the PyTorch runner in a round
once it has told of frames. Builds say nothing for as long as TensorRT tries kernels, so they have
none.
*/

use std::io::{BufRead, BufReader};
use std::marker::PhantomData;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use super::event;
use crate::threads;

/// Seconds for which a child may be silent, unless `--stall-limit` sets them.
pub const USUAL_LIMIT_S: u64 = 600;

/// Silence is counted in steps of at most this: a machine that slept, or a whole process group that
/// was stopped for a while, costs one of them.
const STEP: Duration = Duration::from_secs(1);

/// The limit of `--stall-limit`: none for 0.
pub fn limit_of(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// The result of waiting for an event.
#[derive(Debug)]
pub enum Heard<E> {
    /// The child sent an event.
    Event(E),
    /// Its output has ended.
    End,
    /// It was silent until the limit.
    Silence,
}

/// A child's output, read on a thread of its own, so that a caller can limit its wait.
pub struct Listener<E> {
    lines: Receiver<std::io::Result<Vec<u8>>>,
    kind: PhantomData<fn() -> E>,
}

impl<E: DeserializeOwned> Listener<E> {
    /// Reads the output of `child` from now on.
    ///
    /// # Errors
    /// It has none or another reader, or the system has no thread.
    pub fn of(child: &mut Child) -> Result<Self> {
        let output = child.stdout.take().context("the worker has no output")?;
        let (sender, lines) = mpsc::channel();
        // Ends with the output, or with the receiver.
        threads::spawn("listener", move || {
            BufReader::new(output).split(b'\n').try_for_each(|line| sender.send(line).ok())
        })?;
        Ok(Self { lines, kind: PhantomData })
    }

    /// The child's next event. Lines that libraries print do not count.
    ///
    /// # Errors
    /// Its output cannot be read.
    pub fn next(&self, limit: Option<Duration>) -> Result<Heard<E>> {
        let mut silent = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let line = match limit {
                None => self.lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(limit) => self.lines.recv_timeout(STEP.min(limit.saturating_sub(silent))),
            };
            match line {
                Ok(line) => {
                    if let Some(event) = event(line) {
                        return event.map(Heard::Event);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(Heard::End),
                Err(RecvTimeoutError::Timeout) => {}
            }
            silent += begun.elapsed().min(STEP);
            if limit.is_some_and(|limit| silent >= limit) {
                return Ok(Heard::Silence);
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::child::kill_tree;
    use std::process::{Command, Stdio};

    fn shell(script: &str) -> std::io::Result<Child> {
        Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn()
    }

    #[test]
    fn silence_is_told_from_progress_and_from_the_end() {
        let limit = Some(Duration::from_millis(1500));
        // Each event comes within the limit, all together do not; other lines are no progress.
        let mut child = shell(
            "for n in 1 2 3; do sleep 0.7; echo $n; done; exec sh -c 'while :; do echo noise; \
             sleep 0.1; done'",
        )
        .unwrap();
        let listener = Listener::<u32>::of(&mut child).unwrap();
        for expected in [1, 2, 3] {
            let heard = listener.next(limit).unwrap();
            assert!(matches!(heard, Heard::Event(n) if n == expected), "{heard:?}");
        }
        assert!(matches!(listener.next(limit).unwrap(), Heard::Silence));
        kill_tree(&mut child).unwrap();
        assert!(child.try_wait().unwrap().is_some());

        let mut child = shell("echo 7; sleep 0.5").unwrap();
        let listener = Listener::<u32>::of(&mut child).unwrap();
        assert!(matches!(listener.next(None).unwrap(), Heard::Event(7)));
        assert!(matches!(listener.next(limit).unwrap(), Heard::End));
        kill_tree(&mut child).unwrap();
    }

    #[test]
    fn nothing_is_no_limit() {
        assert_eq!(limit_of(0), None);
        assert_eq!(limit_of(USUAL_LIMIT_S), Some(Duration::from_secs(600)));
    }
}
