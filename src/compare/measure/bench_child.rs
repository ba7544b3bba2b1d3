/*!
segtrt's own side: one round is one `segtrt bench` in a process of its own, with its words in a log.
*/

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::runner::last_line;
use crate::bench::supervise::DEVICE_HELD;
use crate::child::{self, Held};
use crate::compare::runs::RunFolder;

/// Runs `bench` with `args` into `folder`. A folder in which anything failed is an error: its speed is not that of all objects.
///
/// # Errors
/// The bench did not end well; the message is its own.
pub fn run(args: &[String], folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}; choose another --out-dir", folder.display()))?;
    let log = folder.join("bench.log");
    let written = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut bench = Command::new(program);
    bench.arg("bench").args(args).arg("--out-dir").arg(folder);
    bench.stdout(written.try_clone()?).stderr(written);
    // Were this process killed, a bench that goes on would take the GPU from whatever is measured next.
    let status = child::run_step(&mut bench).context("cannot start segtrt bench")?;
    if status.success() {
        return Ok(());
    }
    let why = format!("{}; see {}", reason(folder, &log, status), log.display());
    Err(if is_device_held(folder) { Held(why).into() } else { anyhow!("{why}") })
}

/// Whether the bench left a worker behind that could not be ended.
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
    let text = String::from_utf8_lossy(&std::fs::read(log).ok()?).into_owned();
    text.lines().rev().find_map(|line| line.strip_prefix("Error: ")).map(str::to_owned)
}
