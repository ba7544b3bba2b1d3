/*!
Traces in the Trace Event format, which Perfetto (ui.perfetto.dev) and chrome://tracing show: from
the frames of a run's sidecar, or from a report of Nsight Systems.

An event is a complete one (`X`, with its duration), a counter (`C`), the begin or end of an
asynchronous one (`b`, `e`), or metadata that names a process or thread (`M`). Times are
microseconds.
*/

mod nsys;
mod run;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Suffixes of reports and exports of Nsight Systems.
const REPORTS: [&str; 3] = ["nsys-rep", "qdrep", "sqlite"];
const SIDECAR: &str = "sidecar.json";

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its category; none for metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cat: Option<&'static str>,
    /// Its phase.
    pub ph: &'static str,
    /// Start, µs.
    pub ts: f64,
    /// Duration of a complete event, µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dur: Option<f64>,
    /// The process.
    pub pid: u64,
    /// The thread.
    pub tid: u64,
    /// Number of an asynchronous event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Further values.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Value>,
}

/// A trace of one or several inputs.
#[derive(Debug, Default, Serialize)]
pub struct EventTrace {
    /// All events.
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
    /// Unit in which viewers show times.
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
    /// The inputs and what to know about them.
    #[serde(rename = "otherData")]
    other: Map<String, Value>,
    #[serde(skip)]
    processes: u64,
}

impl EventTrace {
    /// Reads every input: a run's folder or its `sidecar.json`, a report, an export.
    ///
    /// # Errors
    /// One of them cannot be read, or has no time.
    pub fn of(inputs: &[PathBuf]) -> Result<Self> {
        let mut trace = Self { unit: "ms", ..Self::default() };
        let version = env!("CARGO_PKG_VERSION");
        trace.other.insert("segtrt".to_owned(), version.into());
        for input in inputs {
            trace.add(input)?;
        }
        Ok(trace)
    }

    /// Number of events that are no metadata.
    pub fn events(&self) -> usize {
        self.events.iter().filter(|event| event.ph != "M").count()
    }

    /// Number of processes: recorded passes, recorded programs and GPUs.
    pub fn processes(&self) -> u64 {
        self.processes
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let sidecar = if path.is_dir() { path.join(SIDECAR) } else { path.to_owned() };
        let has = |suffixes: &[&str]| {
            path.extension().is_some_and(|own| suffixes.iter().any(|known| own == *known))
        };
        if path.is_file() && has(&REPORTS) {
            return nsys::add(self, path);
        }
        if sidecar.is_file() && (path.is_dir() || has(&["json"])) {
            return run::add(self, &sidecar);
        }
        bail!(
            "{} {}; expected the folder of a run with {SIDECAR} (segtrt bench --out-dir), or a \
             report of Nsight Systems (.nsys-rep, .sqlite)",
            path.display(),
            match (path.exists(), path.is_dir()) {
                (false, _) => "does not exist",
                (_, true) => "has no sidecar.json",
                _ => "is neither a run nor a report",
            }
        )
    }

    /// Adds a process with its name and returns its number.
    fn process(&mut self, name: &str) -> u64 {
        self.processes += 1;
        let pid = self.processes;
        self.metadata("process_name", pid, 0, json!({"name": name}));
        self.metadata("process_sort_index", pid, 0, json!({"sort_index": pid}));
        pid
    }

    /// Names a thread.
    fn thread(&mut self, pid: u64, tid: u64, name: &str) {
        self.metadata("thread_name", pid, tid, json!({"name": name}));
        self.metadata("thread_sort_index", pid, tid, json!({"sort_index": tid}));
    }

    fn metadata(&mut self, name: &str, pid: u64, tid: u64, args: Value) {
        self.events.push(Event {
            name: name.to_owned(),
            cat: None,
            ph: "M",
            ts: 0.0,
            dur: None,
            pid,
            tid,
            id: None,
            args: args.as_object().cloned().unwrap_or_default(),
        });
    }

    /// Adds a complete event; times in µs.
    fn complete(
        &mut self,
        (pid, tid): (u64, u64),
        (name, cat): (&str, &'static str),
        (ts, dur): (f64, f64),
        args: Value,
    ) {
        self.events.push(Event {
            name: name.to_owned(),
            cat: Some(cat),
            ph: "X",
            ts,
            dur: Some(dur),
            pid,
            tid,
            id: None,
            args: args.as_object().cloned().unwrap_or_default(),
        });
    }
}

/// Reads a file.
fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| {
        format!("{} cannot be read; expected the {SIDECAR} of a run", path.display())
    })
}

#[cfg(test)]
mod tests;
