/*!
Reads the output of `segtrt nsys --json`: operations on the GPU with time, number and size.

Releases of Nsight Systems name and structure their tables differently. So this reads lists of
objects and tables of columns and rows with a name and a total.
*/

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};

use super::nsys_tables::{self, NsysPlatform, NsysRow, Tables};
use crate::nsys::COUNTERS_TABLE;

/// One row of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NsysOperation {
    /// The table, such as `cuda_gpu_kern_sum`.
    pub table: String,
    /// Kernel, range or kind of copy.
    pub name: String,
    /// Time of all instances, ns.
    pub total_ns: Option<f64>,
    /// Number of instances.
    pub count: Option<f64>,
    /// Bytes of all instances.
    pub bytes: Option<f64>,
}

/// One profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NsysReport {
    /// The report's name, or the file's.
    pub name: String,
    /// The machine, if the file names it.
    pub platform: String,
    /// Every operation of every table.
    pub operations: Vec<NsysOperation>,
    /// Faults of the profiled run, such as a program that failed.
    pub faults: Vec<String>,
    /// Share of time with work on the GPU, %.
    pub gpu_util_percent: Option<f64>,
    /// Share of the peak bandwidth of the GPU's memory, %.
    pub bandwidth_percent: Option<f64>,
    /// Tables that are shown as they are, by name.
    pub tables: Tables,
}

impl NsysReport {
    /// The rows of a table; none without it.
    pub fn rows(&self, table: &str) -> &[NsysRow] {
        self.tables.get(table).map(Vec::as_slice).unwrap_or_default()
    }

    /// Operations that keep the GPU busy, the longest first: kernels and copies, not ranges around
    /// them.
    pub fn by_time(&self) -> Vec<&NsysOperation> {
        let mut found: Vec<_> =
            self.operations.iter().filter(|op| op.is_gpu_work() && op.total_ns.is_some()).collect();
        found.sort_by(|a, b| b.total_ns.unwrap_or(0.0).total_cmp(&a.total_ns.unwrap_or(0.0)));
        found
    }

    /// Operations that move or set memory, the largest first.
    pub fn by_memory(&self) -> Vec<&NsysOperation> {
        let mut found: Vec<_> = self.operations.iter().filter(|op| op.bytes.is_some()).collect();
        found.sort_by(|a, b| b.bytes.unwrap_or(0.0).total_cmp(&a.bytes.unwrap_or(0.0)));
        found
    }
}

impl NsysOperation {
    fn is_gpu_work(&self) -> bool {
        let table = plain(&self.table);
        let other = ["nvtx", "range", "api", "osrt", "gap", "sync", "util"];
        !other.iter().any(|word| table.contains(word))
            && ["kern", "mem"].iter().any(|word| table.contains(word))
    }
}

/// Reads a summary of one or several profiles.
///
/// # Errors
/// The file cannot be read, is not JSON, or has no known table.
pub fn read(path: &Path) -> Result<(Vec<NsysReport>, Vec<NsysPlatform>)> {
    if let Some(document) = nsys_tables::from_reports(path) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return parsed(&document?, path, &stem);
    }
    let text = std::fs::read_to_string(path).with_context(|| {
        format!(
            "{} cannot be read; expected the output of `segtrt nsys REPORT --json`",
            path.display()
        )
    })?;
    let value: Value = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is not JSON; write it with `segtrt nsys REPORT --json > FILE.json`",
            path.display()
        )
    })?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    parsed(&value, path, &stem)
}

/// The profiles of a document, and the platforms.
fn parsed(value: &Value, path: &Path, stem: &str) -> Result<(Vec<NsysReport>, Vec<NsysPlatform>)> {
    let listed = match value {
        Value::Array(items) => Some(items),
        Value::Object(members) => members.get("reports").and_then(Value::as_array),
        _ => None,
    };
    let reports: Vec<NsysReport> = match listed {
        Some(items) if items.iter().all(Value::is_object) => items
            .iter()
            .enumerate()
            .map(|(at, item)| one(item, &format!("{stem} {}", at + 1)))
            .collect(),
        _ => vec![one(value, stem)],
    };
    let reports: Vec<NsysReport> = reports
        .into_iter()
        .filter(|report| {
            let some = !report.operations.is_empty() || !report.tables.is_empty();
            some || report.gpu_util_percent.is_some()
        })
        .collect();
    if reports.is_empty() {
        bail!(
            "{} has no operation with a time or a size; expected the output of `segtrt nsys REPORT \
             --json`",
            path.display()
        );
    }
    Ok((reports, nsys_tables::platforms(value)))
}

fn one(value: &Value, otherwise: &str) -> NsysReport {
    let named =
        ["label", "name", "report", "file"].iter().find_map(|key| value.get(*key)?.as_str());
    let mut report =
        NsysReport { name: named.unwrap_or(otherwise).to_owned(), ..NsysReport::default() };
    let platform = value.get("platform").and_then(Value::as_str);
    report.platform = platform.unwrap_or_default().to_owned();
    let faults = value.get("faults").and_then(Value::as_array).into_iter().flatten();
    report.faults.extend(faults.filter_map(Value::as_str).map(str::to_owned));
    walk(value, "", &mut report);
    report.tables = nsys_tables::tables(value);
    report.bandwidth_percent = report.bandwidth_percent.or_else(|| memory_counters(value));
    report
}

/// Memory bandwidth of the busiest GPU, reads and writes together, from its counters.
fn memory_counters(value: &Value) -> Option<f64> {
    let rows = value.get("tables")?.get(COUNTERS_TABLE)?.as_array()?;
    let mut gpus: BTreeMap<i64, f64> = BTreeMap::new();
    for row in rows {
        let counter = plain(row.get("Counter").and_then(Value::as_str).unwrap_or_default());
        // Named "DRAM Read Bandwidth [Throughput %]" or "DRAM Read Throughput [Throughput %]".
        let of_memory = counter.starts_with("dramread") || counter.starts_with("dramwrite");
        let number = |name: &str| row.get(name).and_then(Value::as_f64);
        let device = row.get("Device ID").and_then(Value::as_i64).unwrap_or(0);
        if let Some(mean) = number("Avg").filter(|_| of_memory && counter.contains("throughput")) {
            *gpus.entry(device).or_default() += mean;
        }
    }
    gpus.into_values().max_by(f64::total_cmp)
}

fn walk(value: &Value, table: &str, report: &mut NsysReport) {
    match value {
        Value::Array(items) => {
            for item in items {
                match item.as_object().and_then(|line| operation(line, table)) {
                    Some(operation) => report.operations.push(operation),
                    None => walk(item, table, report),
                }
            }
        }
        Value::Object(members) => {
            percentages(members, table, report);
            if let Some((columns, rows)) = columns_and_rows(members) {
                let own = ["table", "report", "name", "kind", "title"];
                let own = own.iter().find_map(|key| members.get(*key)?.as_str()).unwrap_or(table);
                for row in rows.iter().filter_map(Value::as_array) {
                    let line: Map<String, Value> =
                        columns.iter().cloned().zip(row.iter().cloned()).collect();
                    report.operations.extend(operation(&line, own));
                }
                return;
            }
            // A list has its key's name unless the enclosing object names a table.
            let own = ["table", "kind"].iter().find_map(|key| members.get(*key)?.as_str());
            let shown = |key: &&String| !nsys_tables::SHOWN.contains(&key.as_str());
            for (key, member) in members.iter().filter(|(key, _)| shown(key)) {
                if member.is_array() || member.is_object() {
                    walk(member, own.unwrap_or(key), report);
                }
            }
        }
        _ => {}
    }
}

fn columns_and_rows(members: &Map<String, Value>) -> Option<(Vec<String>, &Vec<Value>)> {
    let columns = members.get("columns").or_else(|| members.get("header"))?.as_array()?;
    // A column is a word, or an object with a name.
    let name =
        |column: &Value| Some(column.as_str().or_else(|| column.get("name")?.as_str())?.to_owned());
    let columns: Option<Vec<String>> = columns.iter().map(name).collect();
    let rows = members.get("rows")?.as_array()?;
    rows.iter().all(Value::is_array).then_some((columns?, rows))
}

/// A row with a name and a total.
fn operation(line: &Map<String, Value>, table: &str) -> Option<NsysOperation> {
    let text = |words: &[&str]| {
        let found = line
            .iter()
            .find(|(key, value)| words.contains(&plain(key).as_str()) && value.is_string());
        found.and_then(|(_, value)| value.as_str())
    };
    let number = |words: &[&str]| {
        words.iter().find_map(|word| line.iter().find(|(key, _)| plain(key) == **word)?.1.as_f64())
    };
    let name = text(&["name", "range", "operation", "op", "kernel", "label", "style"])?;
    let total_ns = number(&[
        "totaltimens",
        "totalprojtimens",
        "totalns",
        "timens",
        "durationns",
        "totaldurns",
    ])
    .or_else(|| number(&["totaltimems", "totalms", "timems"]).map(|ms| ms * 1e6));
    let bytes = number(&["totalb", "totalbytes", "bytes", "sizebytes"])
        .or_else(|| number(&["totalmb", "sizemb"]).map(|mb| mb * 1e6))
        .or_else(|| number(&["totalmib", "sizemib"]).map(|mib| mib * f64::from(1 << 20)));
    (total_ns.is_some() || bytes.is_some()).then(|| NsysOperation {
        table: table.to_owned(),
        name: name.to_owned(),
        total_ns,
        count: number(&["instances", "count", "calls", "rangeinstances", "numcalls"]),
        bytes,
    })
}

/// Shares that an object has, or that a utilisation table has.
fn percentages(members: &Map<String, Value>, table: &str, report: &mut NsysReport) {
    for (key, value) in members {
        let (key, Some(value)) = (plain(key), value.as_f64()) else { continue };
        let says = |words: &[&str]| words.iter().any(|word| key.contains(word));
        let own_table = table.contains("util") && (key == "utilisation" || key == "utilization");
        let util = own_table
            || says(&["gpuutil", "gputimeutil", "utilisationpercent", "utilizationpercent"]);
        if util && report.gpu_util_percent.is_none() {
            report.gpu_util_percent = Some(value);
        } else if says(&["bandwidthpercent", "dramthroughputpercent"])
            && report.bandwidth_percent.is_none()
        {
            report.bandwidth_percent = Some(value);
        }
    }
}

/// A name without case, spaces and signs.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
