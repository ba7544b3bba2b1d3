/*!
segtrt's side: a round is one `segtrt bench` as a child process, with its messages in a log.
*/

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::runner::last_line;
use crate::bench::supervise::DEVICE_HELD;
use host::child::{self, Held};
use host::program;
use report::compare::runs::RunFolder;

/// Runs `bench` with `args` into `folder`. A folder in which anything failed is an error: its speed
/// is not that of all objects.
///
/// # Errors
/// The bench did not end well; the message is its own.
pub fn run(args: &[String], folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}; choose another --out-dir", folder.display()))?;
    let log = folder.join("bench.log");
    let written = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut bench = program::again()?;
    bench.arg("bench").args(args).arg("--out-dir").arg(folder);
    bench.stdout(written.try_clone()?).stderr(written);
    // Were this process killed, a bench that goes on would take the GPU from whatever is measured
    // next.
    let status = child::run_step(&mut bench).context("cannot start segtrt bench")?;
    if status.success() {
        return Ok(());
    }
    let why = format!("{}; see {}", reason(folder, &log, status), log.display());
    Err(if is_device_held(folder) { Held(why).into() } else { anyhow!("{why}") })
}

/// Whether a worker of the bench could not be ended.
fn is_device_held(folder: &Path) -> bool {
    let is_so =
        |reason: &str| reason.strip_prefix(DEVICE_HELD).is_some_and(|rest| rest.starts_with(':'));
    RunFolder::read(folder).is_ok_and(|run| run.rows.iter().any(|row| is_so(&row.reason)))
}

/// Why it failed: the first row that says so, else the error that it printed.
fn reason(folder: &Path, log: &Path, status: std::process::ExitStatus) -> String {
    let failed = RunFolder::read(folder).ok().and_then(|run| {
        let row = run.rows.into_iter().find(|row| row.status == "failed")?;
        Some(format!("{} object {}: {}", row.video, row.object, row.reason))
    });
    failed
        .or_else(|| error_line(log))
        .or_else(|| last_line(log))
        .unwrap_or_else(|| child::describe(status))
}

fn error_line(log: &Path) -> Option<String> {
    last_error(&String::from_utf8_lossy(&std::fs::read(log).ok()?))
}

/// The last error in a bench's log, with the indented lines after it.
fn last_error(log: &str) -> Option<String> {
    // "error: " begins clap's message about a wrong command line.
    let error = |line: &&str| line.starts_with("Error: ") || line.starts_with("error: ");
    let lines: Vec<&str> = log.lines().collect();
    let at = lines.iter().rposition(error)?;
    let more = lines[at + 1..].iter().take_while(|line| line.starts_with("  "));
    let words: Vec<&str> = more.map(|line| line.trim()).collect();
    let first = &lines[at]["Error: ".len()..];
    Some([&[first], &words[..]].concat().join(" "))
}

#[cfg(test)]
mod tests {
    use super::last_error;

    #[test]
    fn a_wrong_command_line_is_told_and_not_where_there_is_help() {
        let log =
            "error: invalid value 'fp8' for '--precision'\n\nFor more information, try '--help'.\n";
        assert_eq!(last_error(log).unwrap(), "invalid value 'fp8' for '--precision'");
    }

    #[test]
    fn reasons_below_the_error_come_with_it() {
        let log = "[WARN] odd\nError: no model can run:\n  no bundle of m at imgsz 512\nx\n";
        let expected = "no model can run: no bundle of m at imgsz 512";
        assert_eq!(last_error(log).unwrap(), expected);
        assert_eq!(last_error("[WARN] odd\nError: it broke\n").unwrap(), "it broke");
        assert_eq!(last_error("a line\n"), None);
    }
}
