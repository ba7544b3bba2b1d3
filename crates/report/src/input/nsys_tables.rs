/*!
Tables of `segtrt nsys` that the page shows as they are, and reports that it reads itself.
*/

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::nsys::{Filter, Options, analyse, inputs, render};

/// The tables.
pub const SHOWN: [&str; 8] = [
    "nvtx_box",
    "nvtx_outliers",
    "cuda_gpu_kern_hist",
    "cuda_gpu_kern_pace",
    "cuda_gpu_time_util_map",
    "cuda_memcpy_async",
    "cuda_memcpy_sync",
    "cuda_memset_sync",
];

/// Tables by name.
pub type Tables = BTreeMap<String, Vec<NsysRow>>;

/// One row: its values by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct NsysRow(pub Map<String, Value>);

impl NsysRow {
    /// A number.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.0.get(column)?.as_f64()
    }

    /// A text.
    pub fn text(&self, column: &str) -> Option<&str> {
        self.0.get(column)?.as_str()
    }

    /// The numbers of all intervals.
    pub fn numbers(&self, column: &str) -> Option<Vec<f64>> {
        self.0.get(column)?.as_array()?.iter().map(Value::as_f64).collect()
    }
}

/// The ranges of all profiles of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NsysPlatform {
    /// Its name.
    pub name: String,
    /// Labels of its reports.
    pub reports: Vec<String>,
    /// Boxes and outliers.
    pub tables: Tables,
}

/// The shown tables of one report's or platform's object that have rows.
pub fn tables(value: &Value) -> Tables {
    let mut found = Tables::new();
    for name in SHOWN {
        let rows = value.get("tables").and_then(|tables| tables.get(name)?.as_array());
        let rows: Vec<NsysRow> = rows
            .into_iter()
            .flatten()
            .filter_map(|row| row.as_object().cloned().map(NsysRow))
            .collect();
        if !rows.is_empty() {
            found.insert(name.to_owned(), rows);
        }
    }
    found
}

/// The platforms of a document.
pub fn platforms(value: &Value) -> Vec<NsysPlatform> {
    let all = value.get("platforms").and_then(Value::as_array).into_iter().flatten();
    let platform = |one: &Value| {
        let reports = one.get("reports").and_then(Value::as_array).into_iter().flatten();
        Some(NsysPlatform {
            name: one.get("platform")?.as_str()?.to_owned(),
            reports: reports.filter_map(Value::as_str).map(str::to_owned).collect(),
            tables: tables(one),
        })
    };
    all.filter_map(platform).collect()
}

/// The document of `segtrt nsys --json` for reports, exports, folders of them, and those with a
/// platform's name before the path; none for any other file.
pub fn from_reports(path: &Path) -> Option<Result<Value>> {
    let shown = path.to_string_lossy();
    let own = match shown.split_once('=') {
        Some((_, own)) if !path.exists() => Path::new(own),
        _ => path,
    };
    let is_report = own
        .extension()
        .is_some_and(|suffix| ["nsys-rep", "qdrep", "sqlite"].iter().any(|known| suffix == *known));
    (is_report || own.is_dir()).then(|| document(path))
}

fn document(path: &Path) -> Result<Value> {
    let options = Options {
        asked: Vec::new(),
        filter: Filter::default(),
        with_warmup: false,
        least_gap: LEAST_GAP,
    };
    let (mut reports, mut failed) = (Vec::new(), Vec::new());
    for input in inputs(&[path.to_owned()])? {
        match analyse(&input, &options) {
            Ok(analysis) => reports.push(analysis),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(render::json(&reports, &[], None, &[], None))
}

/// Shortest gap of `segtrt nsys` by default, ns.
const LEAST_GAP: i64 = 100_000;
