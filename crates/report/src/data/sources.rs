/*!
Sources of the rows: files, machine, settings.
*/

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::input::RunSource;
use vos::record::ModelMemory;

/// One run folder or table.
#[derive(Debug, Serialize)]
pub struct SourceInfo {
    /// Its name on the page.
    pub label: String,
    /// The table.
    pub path: String,
    /// Rows in it.
    pub rows: usize,
    /// Recorded passes with frame times.
    pub passes: usize,
    /// Written by the Python predecessor.
    pub predecessor: bool,
    /// The sidecar's `environment`; empty without a sidecar.
    pub environment: Map<String, Value>,
    /// The sidecar's `configuration`.
    pub configuration: Map<String, Value>,
    /// The timed region, from the run.
    pub timed_region: Option<String>,
    /// Memory of the models, where the run tells of it.
    pub memory: BTreeMap<String, ModelMemory>,
    /// Hashes of inputs and graphs.
    pub hashes: Vec<(String, String)>,
    /// `experiment_config.txt`.
    pub experiment: Vec<(String, String)>,
}

/// The facts of a source.
pub fn info(source: &RunSource) -> SourceInfo {
    let object =
        |name: &str| source.facts.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut hashes = Vec::new();
    for kind in ["graphs", "inputs"] {
        for (file, hash) in object(kind) {
            if let Some(sha256) = hash.get("sha256").and_then(Value::as_str) {
                hashes.push((file, sha256.to_owned()));
            }
        }
    }
    SourceInfo {
        label: source.label.clone(),
        path: source.path.display().to_string(),
        rows: source.rows.len(),
        passes: source.passes.len(),
        predecessor: source.is_predecessors(),
        environment: object("environment"),
        configuration: object("configuration"),
        timed_region: source.facts.get("timed_region").and_then(Value::as_str).map(str::to_owned),
        memory: object("memory")
            .into_iter()
            .filter_map(|(model, memory)| Some((model, serde_json::from_value(memory).ok()?)))
            .collect(),
        hashes,
        experiment: source.experiment.clone(),
    }
}
