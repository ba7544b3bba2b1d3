/*!
A bench as words: understood by the program's own parser before anything is run, then given to a child of this program.
*/

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;

use super::spec::Ran;
use crate::cli::{self, BenchArgs, Cli, accept_underscores};
use host::UsageError;
use host::child;

/// Flags that a command around a bench sets itself.
pub const OWNED: [&str; 8] = [
    "--split-dir",
    "--split-name",
    "--models",
    "--out-dir",
    "--resume",
    "--backend",
    "--video-list",
    "--test-mode",
];

/// The first of `flags` that is among [`OWNED`] or `more`.
pub fn owned_flag<'a>(flags: &'a [String], more: &[&str]) -> Option<&'a str> {
    let name = |flag: &str| flag.split('=').next().unwrap_or_default().replace('_', "-");
    let owned = |flag: &&String| {
        let name = name(flag);
        OWNED.contains(&name.as_str()) || more.contains(&name.as_str())
    };
    flags.iter().find(owned).map(String::as_str)
}

/// What the words of a bench mean.
///
/// # Errors
/// A [`UsageError`] with the parser's own message.
pub fn parse_bench(words: &[String]) -> Result<BenchArgs> {
    let line = ["segtrt", "bench"].map(OsString::from).into_iter();
    let line = line.chain(words.iter().map(OsString::from));
    let parsed = Cli::try_parse_from(accept_underscores(line));
    let parsed = parsed.map_err(|error| {
        UsageError(format!("the flags of the bench are not understood: {error}"))
    })?;
    match parsed.command {
        cli::Command::Bench(args) => Ok(*args),
        _ => Err(UsageError("the flags of the bench name another command".to_owned()).into()),
    }
}

/// A step: a subcommand of this program in a process of its own; all that it prints goes to standard error.
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

/// Exit code of a step that the user stopped, whether it caught SIGINT or SIGTERM or was ended by it.
pub const STOPPED: i32 = 130;

/// Runs a step to its end.
///
/// # Errors
/// It cannot be started. How it ended, well or not, is in the result.
pub fn run_step(step: &Step) -> Result<Ran> {
    let begun = Instant::now();
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.arg(step.name).args(&step.words);
    // What the step prints is for people; standard output is for what this command itself has to say.
    command.stdout(std::io::stderr());
    // What it would say is among the words; a variable that changed since must not change a resumed experiment.
    command.env_remove("SEGTRT_ONNX_DIR");
    for (name, value) in &step.variables {
        command.env(name, AsRef::<OsStr>::as_ref(value));
    }
    if let Some(directory) = &step.directory {
        command.current_dir(existing(directory)?);
    }
    // Ends with this process: a bench whose experiment was killed would measure beside whatever comes next.
    let status = child::run_step(&mut command)
        .with_context(|| format!("cannot start segtrt {}", step.name))?;
    let ended = child::ending(status);
    // A bench leaves Ctrl-C to the system, and so has no exit code of its own then.
    let stopped = child::signal(status).filter(|signal| matches!(signal, 2 | 15)).map(|_| STOPPED);
    let (code, seconds) = (status.code().or(stopped), begun.elapsed().as_secs_f64());
    Ok(Ran { step: step.name.to_owned(), ended, code, seconds })
}

fn existing(directory: &Path) -> Result<&Path> {
    if directory.is_dir() {
        return Ok(directory);
    }
    anyhow::bail!(
        "the folder {} in which the experiment was begun is gone, and paths of its flags begin there; begin a new experiment",
        directory.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn words_are_understood_as_on_the_command_line() {
        let args = parse_bench(&words("--split_dir /a --limit-videos 2 --autocast fp16")).unwrap();
        assert_eq!((args.limit_videos, args.precision.as_deref()), (2, Some("fp16")));
        let error = parse_bench(&words("--limit-vids 2")).unwrap_err();
        assert!(error.downcast_ref::<UsageError>().is_some() && error.to_string().contains("vids"));
    }

    #[test]
    fn flags_that_are_set_already_are_found_however_they_are_written() {
        assert_eq!(owned_flag(&words("--threads 2 --out_dir=/x"), &[]), Some("--out_dir=/x"));
        assert_eq!(owned_flag(&words("--threads 2"), &[]), None);
        assert_eq!(owned_flag(&words("--threads 2"), &["--threads"]), Some("--threads"));
    }
}
