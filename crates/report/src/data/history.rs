/*!
Runs over time, from the file of `segtrt history`.
*/

use serde::Serialize;

use crate::regression::{History, Limits, Series, series};

/// A history with its changes by the default limits.
#[derive(Debug, Serialize)]
pub struct RunsOverTime {
    /// The file's name without extension.
    pub name: String,
    /// The GPU, board or processor.
    pub machine: String,
    /// The runs, oldest first.
    pub runs: Vec<RunOverTime>,
    /// The numbers.
    pub series: Vec<Series>,
}

/// One run.
#[derive(Debug, Serialize)]
pub struct RunOverTime {
    /// Time of adding, RFC 3339.
    pub added: String,
    /// Commit or version of the program.
    pub build: String,
    /// Allowed differences from the run before.
    pub differences: Vec<String>,
}

/// What the page shows of a history.
pub fn over_time(history: &History) -> RunsOverTime {
    let stem = history.path.file_stem().unwrap_or_default();
    let machine = history.entries.last().and_then(|last| {
        let machine = &last.run.machine;
        ["gpu", "board", "processor"].into_iter().find_map(|name| machine.get(name))
    });
    let runs = history.entries.iter().map(|entry| RunOverTime {
        added: entry.added.clone(),
        build: entry.build().to_owned(),
        differences: entry.differences.clone(),
    });
    RunsOverTime {
        name: stem.to_string_lossy().into_owned(),
        machine: machine.cloned().unwrap_or_else(|| "unknown machine".to_owned()),
        runs: runs.collect(),
        series: series(history, &Limits::default()),
    }
}
