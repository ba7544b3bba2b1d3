/*!
The end of a child that hangs, and of all its descendants.

A wrapper script starts the interpreter as its child: killing the script alone would leave the
process that holds the GPU. The descendants are looked up when they are to be ended. A process
group, made when it is started, would be ended as easily, but a terminal's Ctrl-C and Ctrl-Z, and
whoever ends this program's whole group, would no longer reach it.
*/

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::process_tree;

/// Killed processes are gone within this time, unless a driver holds them.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// The kernel's list of processes.
const PROC: &str = "/proc";

/// The system does not let go of a process that was killed: what is measured beside it is measured
/// on a GPU that is not free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Held(pub String);

impl Held {
    fn new(process: u32) -> Self {
        let seconds = LAST_WORDS.as_secs();
        Self(format!(
            "process {process} was killed and is still there {seconds} s later: a driver holds \
             it, and perhaps the GPU with it; a restart of the machine frees both"
        ))
    }
}

/// Kills a child that hangs with all its descendants, and waits for their end.
///
/// # Errors
/// [`Held`]: the system does not let go of one of them, because a driver that hangs holds it, and
/// whatever it has of a GPU.
pub fn kill_tree(child: &mut Child) -> Result<()> {
    if child.try_wait().context("cannot wait for the worker")?.is_some() {
        // Its number may be another process's by now.
        return Ok(());
    }
    let family = kill_family(child);
    let deadline = Instant::now() + LAST_WORDS;
    loop {
        let gone = child.try_wait().context("cannot wait for the worker")?.is_some();
        let left = if gone { None } else { Some(child.id()) };
        let is_left = |id: &&u32| !process_tree::is_over(Path::new(PROC), **id);
        let Some(process) = left.or_else(|| family.iter().find(is_left).copied()) else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            return Err(Held::new(process).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills `child` and all that descend from it; their numbers, without its own.
#[cfg(unix)]
fn kill_family(child: &mut Child) -> Vec<u32> {
    use nix::sys::signal::Signal;
    let mut family = Vec::new();
    // Stopped first, from the top: one that is killed orphans its children, and one that runs may
    // start others meanwhile.
    signal(child.id(), Signal::SIGSTOP);
    loop {
        let listed = process_tree::of(Path::new(PROC), child.id());
        let found = listed.iter().skip(1).filter(|process| !process.is_over).map(|one| one.id);
        let new: Vec<u32> = found.filter(|id| !family.contains(id)).collect();
        if new.is_empty() {
            break;
        }
        new.iter().for_each(|id| signal(*id, Signal::SIGSTOP));
        family.extend(new);
    }
    family.iter().for_each(|id| signal(*id, Signal::SIGKILL));
    // It may be gone already.
    let _ = child.kill();
    family
}

#[cfg(unix)]
fn signal(process: u32, signal: nix::sys::signal::Signal) {
    if let Ok(id) = i32::try_from(process) {
        // It may be gone already.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), signal);
    }
}

#[cfg(not(unix))]
fn kill_family(child: &mut Child) -> Vec<u32> {
    let _ = child.kill();
    Vec::new()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// What a wrapper started, and what that started in a session of its own, go with it; who is no
    /// child of its does not.
    #[test]
    fn a_wrapper_takes_its_family_along() {
        let mut stranger = Command::new("sleep").arg("60").spawn().unwrap();
        let script = "sh -c 'setsid sleep 60 & echo $$ $!; wait'; echo behind";
        let mut wrapper =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(wrapper.stdout.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        let family: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(family.len(), 2, "{line}");
        let over = |id: u32| process_tree::is_over(Path::new(PROC), id);
        assert!(family.iter().all(|id| !over(*id)), "they run");
        kill_tree(&mut wrapper).unwrap();
        assert!(family.iter().all(|id| over(*id)), "{family:?}");
        assert!(wrapper.try_wait().unwrap().is_some());
        assert!(stranger.try_wait().unwrap().is_none());
        // Once more is no error, and nobody else's end.
        kill_tree(&mut wrapper).unwrap();
        kill_tree(&mut stranger).unwrap();
    }
}
