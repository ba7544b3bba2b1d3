/*!
A step of an experiment: a subcommand of this program as a child process.
*/

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::spec::Ran;
use host::{child, program};

/// A step: a subcommand of this program in a process of its own; all that it prints goes to
/// standard error.
#[derive(Clone, Debug)]
pub struct Step {
    /// `bench`, `profile`, …
    pub name: &'static str,
    /// Its words after the name.
    pub words: Vec<String>,
    /// Where relative paths among them begin; here, where none is named.
    pub directory: Option<PathBuf>,
    /// Variables that it is to see.
    pub variables: Vec<(&'static str, PathBuf)>,
}

/// Exit code of a step that the user stopped, whether it caught SIGINT or SIGTERM or was ended by
/// it.
pub const STOPPED: i32 = 130;

/// Runs a step to its end.
///
/// # Errors
/// It cannot be started. How it ended, well or not, is in the result.
pub fn run_step(step: &Step) -> Result<Ran> {
    let begun = Instant::now();
    let mut command = program::again()?;
    command.arg(step.name).args(&step.words);
    // Standard output belongs to this command; a step prints to standard error.
    command.stdout(std::io::stderr());
    // The words carry its value: a changed variable must not change a resumed experiment.
    command.env_remove("SEGTRT_ONNX_DIR");
    for (name, value) in &step.variables {
        command.env(name, AsRef::<OsStr>::as_ref(value));
    }
    if let Some(directory) = &step.directory {
        command.current_dir(existing(directory)?);
    }
    // Ends with this process: a leftover bench would disturb the next measurement.
    let status = child::run_step(&mut command)
        .with_context(|| format!("cannot start segtrt {}", step.name))?;
    let ended = child::ending(status);
    // The system ends a bench on Ctrl-C, so it has no exit code then.
    let stopped = child::signal(status).filter(|signal| matches!(signal, 2 | 15)).map(|_| STOPPED);
    let (code, seconds) = (status.code().or(stopped), begun.elapsed().as_secs_f64());
    Ok(Ran { step: step.name.to_owned(), ended, code, seconds })
}

fn existing(directory: &Path) -> Result<&Path> {
    if directory.is_dir() {
        return Ok(directory);
    }
    anyhow::bail!(
        "the working folder of the experiment, {}, does not exist; relative paths need it: create \
         it, or start a new experiment",
        directory.display()
    )
}
