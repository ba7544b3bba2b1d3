/*!
A child process of this program: it takes a job as one JSON line and writes one JSON line for each
event.

Work that can crash, run out of memory or keep memory runs in such a child; its death loses only the
work in progress.
*/

mod kill_tree;
mod listen;
pub mod utf8;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{program, threads};
pub use kill_tree::{Held, kill_tree};
pub use listen::{Heard, Listener, USUAL_LIMIT_S, limit_of};

/// Set for a child whose parent keeps its input open. One that a profiler starts has its job from a
/// file, which ends at once.
const ATTENDED: &str = "SEGTRT_ATTENDED";

/// Set for a command that is a step of another one ([`run_step`]); workers that it starts have it
/// no longer.
const STEP: &str = "SEGTRT_STEP";

/// Set for each worker, before it opens ONNX Runtime. The wheels of 1.29 and newer send telemetry
/// from Linux unless they find it; to turn telemetry off through the API is too late for what they
/// do at the start. They keep a database in the home folder and a file `.ses` in TMPDIR.
const NO_TELEMETRY: &str = "ORT_DISABLE_TELEMETRY";

/// Exit code of a child whose parent is gone, where there are no signals; nobody reads it.
const ORPHANED: i32 = 3;

/// Starts this program's hidden `subcommand` and hands it its job. The input stays open as long as
/// it is kept.
pub fn start(subcommand: &str, job: &impl Serialize) -> Result<(Child, ChildStdin)> {
    start_with(subcommand, job, &[], Stdio::inherit())
}

/// [`start`] with variables of the environment, which those of this process come before, and a
/// destination for standard error of the child and its libraries.
pub fn start_with(
    subcommand: &str,
    job: &impl Serialize,
    environment: &[(&str, &str)],
    errors: Stdio,
) -> Result<(Child, ChildStdin)> {
    check(job)?;
    let mut command = program::again()?;
    command.envs(environment.iter().filter(|(name, _)| std::env::var_os(name).is_none()).copied());
    let mut child = as_worker(&mut command)
        .arg(subcommand)
        .env(ATTENDED, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .with_context(|| format!("cannot start a worker process by {:?}", command.get_program()))?;
    let mut input = child.stdin.take().context("the worker has no input")?;
    give(&mut input, job)?;
    Ok((child, input))
}

/// Hands a worker that takes one job after another ([`jobs`]) its next. The end of its output shows
/// a child that died before it read.
///
/// # Errors
/// The job cannot be written as JSON. The worker has none then, and would wait for it as long as
/// its input is open.
pub fn give(input: &mut ChildStdin, job: &impl Serialize) -> Result<()> {
    let line = line_of(b"", job)?;
    if let Err(error) = input.write_all(&line).and_then(|()| input.flush()) {
        log::debug!("the worker did not take its job: {error}");
    }
    Ok(())
}

/// Checks that a worker can be handed this job, before anything else is begun.
///
/// # Errors
/// The job cannot be written as JSON.
pub fn check(job: &impl Serialize) -> Result<()> {
    line_of(b"", job).map(|_| ())
}

/// The child's events without a limit of time; ends with its output. [`Listener`] is for children
/// that may hang.
pub fn events<E: DeserializeOwned>(
    child: &mut Child,
) -> Result<impl Iterator<Item = Result<E>> + use<E>> {
    let output = child.stdout.take().context("the worker has no output")?;
    Ok(BufReader::new(output).split(b'\n').filter_map(event))
}

/// The event in a line of a child's output. Libraries write to standard output at times; such lines
/// are no events, and not always UTF-8.
fn event<E: DeserializeOwned>(line: std::io::Result<Vec<u8>>) -> Option<Result<E>> {
    let line = match line.context("cannot read the worker's output") {
        Ok(line) => line,
        Err(error) => return Some(Err(error)),
    };
    let event = serde_json::from_slice(&line);
    if event.is_err() && !line.trim_ascii().is_empty() {
        log::warn!("the worker printed: {}", String::from_utf8_lossy(&line).trim_end());
    }
    event.ok().map(Ok)
}

/// The child's side: its job.
pub fn read_job<J: DeserializeOwned>() -> Result<J> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("no job on standard input")?;
    serde_json::from_str(&line).context("the job on standard input is damaged")
}

/// The child's side, once it has its job: ends it when its input does, which is when the parent is
/// gone. Killed parents (by hand, or where memory ran out) say no goodbye, and a worker that goes
/// on would take the GPU from whatever is measured next.
///
/// # Errors
/// The system gives no thread to wait with.
pub fn end_with_parent() -> Result<()> {
    if std::env::var_os(ATTENDED).is_none() {
        return Ok(());
    }
    threads::spawn("end with parent", || {
        let mut rest = Vec::new();
        let _ = std::io::stdin().lock().read_to_end(&mut rest);
        end_orphan();
    })
    .map(|_| ())
}

/// Ends this process in the middle of whatever it does. By a signal that nothing delays: an
/// ordinary exit runs the destructors of TensorRT and CUDA while other threads work with what they
/// destroy, which may crash, or wait for ever with the GPU in hand.
fn end_orphan() -> ! {
    #[cfg(unix)]
    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
    std::process::exit(ORPHANED)
}

/// Runs a command of this program and waits for it. Its input is open as long as this process
/// lives, and has nothing: [`end_step_with_caller`].
///
/// # Errors
/// It cannot be started or waited for.
pub fn run_step(command: &mut Command) -> std::io::Result<ExitStatus> {
    let mut child = as_step(command).spawn()?;
    let _input = child.stdin.take();
    child.wait()
}

/// A command of this program that is to end with this process. Its input is the sign of life: the
/// [`Child`] keeps it open until it is dropped or waited for.
pub fn as_step(command: &mut Command) -> &mut Command {
    command.env(STEP, "1").stdin(Stdio::piped())
}

/// The environment of a worker, also where another program starts it, with an input that ends at
/// once. Where this process is a step, the worker would else take itself for one whose caller is
/// gone.
pub fn as_worker(command: &mut Command) -> &mut Command {
    command.env_remove(STEP).env(NO_TELEMETRY, "1")
}

/// Whether this process is a step of another command of this program.
pub fn is_step() -> bool {
    std::env::var_os(STEP).is_some()
}

/// The side of any command: where it is a step of another one, asks this process to end when that
/// one is gone. Else a killed `test-run` would leave a bench or a build behind that goes on.
///
/// # Errors
/// The system gives no thread to wait with.
pub fn end_step_with_caller() -> Result<()> {
    if !is_step() {
        return Ok(());
    }
    threads::spawn("end with caller", || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        // Builds take it for a wish to stop, and leave nothing half-written.
        #[cfg(unix)]
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM);
        #[cfg(not(unix))]
        std::process::exit(ORPHANED);
    })
    .map(|_| ())
}

/// The child's side of jobs that come one after another: each is done when the next is asked for.
/// Ends with the input; where that ends in the middle of a job, the parent is gone, and this
/// process ends at once as with [`end_with_parent`].
pub fn jobs<J: DeserializeOwned>() -> impl Iterator<Item = Result<J>> {
    let (sender, lines) = mpsc::channel();
    let undone = Arc::new(AtomicUsize::new(0));
    let counted = undone.clone();
    let reader = threads::spawn("jobs", move || {
        for line in std::io::stdin().lock().lines() {
            // Counted before it is handed over: a job that is not begun yet has a parent that waits
            // for it too.
            counted.fetch_add(1, Ordering::SeqCst);
            let is_last = line.is_err();
            if sender.send(line).is_err() || is_last {
                break;
            }
        }
        if std::env::var_os(ATTENDED).is_some() && counted.load(Ordering::SeqCst) > 0 {
            end_orphan();
        }
    });
    let mut has_job = false;
    let mut no_reader = reader.err();
    std::iter::from_fn(move || {
        if let Some(error) = no_reader.take() {
            return Some(Err(error));
        }
        if std::mem::take(&mut has_job) {
            undone.fetch_sub(1, Ordering::SeqCst);
        }
        let line = lines.recv().ok()?;
        has_job = true;
        Some(line.context("cannot read a job from standard input").and_then(|line| {
            serde_json::from_str(&line).context("the job on standard input is damaged")
        }))
    })
}

/// The child's side: tells the parent, on a line of its own whatever a library printed before.
pub fn send(event: &impl Serialize) -> Result<()> {
    let line = line_of(b"\n", event).context("cannot tell the parent process")?;
    let mut out = std::io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).context("the parent process is gone")
}

/// A value as one line, to be written in one piece: nothing that a library's thread prints
/// meanwhile comes into a line that a pipe takes at once.
fn line_of(before: &[u8], value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = before.to_vec();
    serde_json::to_writer(&mut line, value)?;
    line.push(b'\n');
    Ok(line)
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, without a word.
    Finished,
    /// It reported why it could not continue.
    Told(String),
    /// Otherwise, in words.
    Died(String),
}

/// Waits for a worker whose output has ended, and that `told` why it could not continue, if it did.
///
/// # Errors
/// The system does not say how it ended.
pub fn end(mut worker: Child, told: Option<String>) -> Result<End> {
    let status = worker.wait().context("cannot wait for the worker")?;
    Ok(match (told, status.success()) {
        (Some(reason), _) => End::Told(reason),
        (None, true) => End::Finished,
        (None, false) => End::Died(describe(status)),
    })
}

/// Asks a child to end; at once where there are no signals.
pub fn terminate(child: &mut Child) {
    #[cfg(unix)]
    {
        use nix::sys::signal::{Signal, kill};
        use nix::unistd::Pid;
        let pid = i32::try_from(child.id()).map(Pid::from_raw);
        // It may be gone already.
        let _ = pid.map(|pid| kill(pid, Signal::SIGTERM));
    }
    #[cfg(not(unix))]
    let _ = child.kill();
}

/// The signal that ended a child; none where it ended by itself, or where there are no signals.
pub fn signal(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    return None;
}

/// How a child ended that did not say why, as part of a sentence.
pub fn describe(status: ExitStatus) -> String {
    if let Some(signal) = signal(status) {
        let hint = if signal == 9 { "; 9 usually means that memory ran out" } else { "" };
        return format!("the worker process was killed by signal {signal}{hint}");
    }
    format!("the worker process ended with {status}")
}

/// How a child ended, as what follows the word "ended": `well`, `with exit code 1`, `by signal 9`.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), signal(status)) {
        (Some(0), _) => "well".to_owned(),
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(9)) => "by signal 9, which usually means that memory ran out,".to_owned(),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => format!("with {status}"),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_ending_goes_on_with_the_word_ended() {
        let status =
            |wait: i32| <ExitStatus as std::os::unix::process::ExitStatusExt>::from_raw(wait);
        assert_eq!(ending(status(0)), "well");
        assert_eq!(ending(status(1 << 8)), "with exit code 1");
        assert_eq!(ending(status(15)), "by signal 15");
        assert!(ending(status(9)).starts_with("by signal 9, which usually"));
    }

    #[test]
    fn what_a_library_prints_is_no_event_and_no_end() {
        let mut child = Command::new("printf")
            .arg(r"\nnoise \377\n\n1\nnoise\n2\r\n")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let numbers: Result<Vec<u32>> = events(&mut child).unwrap().collect();
        assert_eq!(numbers.unwrap(), [1, 2]);
        assert_eq!(end(child, None).unwrap(), End::Finished);
    }
}
