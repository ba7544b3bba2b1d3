/*!
Reads an export into a [`Trace`]. Releases differ in tables and columns; every difference is met here.
*/

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use rusqlite::Row;

use super::database::Database;
use super::trace::{Call, Correlation, Kind, Name, Op, Range, Style, Trace};

/// `ENUM_NSYS_EVENT_TYPE`: ranges of the program's own and of imported text, and the naming of a domain.
const PUSH_POP: [i64; 2] = [59, 70];
const START_END: [i64; 2] = [60, 71];
const DOMAIN_CREATE: i64 = 75;
/// A global thread id holds the process above its lowest 24 bits.
const THREAD_BITS: u32 = 24;

/// `ENUM_CUDA_MEMCPY_OPER`, in nsys's words.
const COPIES: [&str; 14] = [
    "Unknown",
    "Host-to-Device",
    "Device-to-Host",
    "Host-to-Array",
    "Array-to-Host",
    "Array-to-Array",
    "Array-to-Device",
    "Device-to-Array",
    "Device-to-Device",
    "Host-to-Host",
    "Peer-to-Peer",
    "Unified Host-to-Device",
    "Unified Device-to-Host",
    "Unified Device-to-Device",
];

/// Reads everything.
///
/// # Errors
/// A damaged file, or a table without a column that it cannot do without.
pub fn load(database: &Database) -> Result<Trace> {
    // Where the export does not say whose work it is, all belongs to one process.
    let owners = OPS.iter().any(|(_, table)| database.column(table, &["globalPid"]) != "NULL");
    let strings = strings(database)?;
    let loader = Loader { database, strings, owners };
    let mut trace = Trace::default();
    loader.ranges(&mut trace)?;
    loader.calls(&mut trace)?;
    loader.ops(&mut trace)?;
    trace.overheads = overheads(database)?;
    trace.gpus = gpus(database)?;
    trace.stderr = stderr(database, &loader.strings)?;
    trace.exporter = database.exporter();
    trace.cuda_was_traced =
        database.captured("PROCESS_0:COLLECT_CUDA_TRACE").map(|value| value == "true");
    Ok(trace)
}

struct Loader<'a> {
    database: &'a Database,
    strings: HashMap<i64, String>,
    /// Work of GPUs tells its process.
    owners: bool,
}

impl Loader<'_> {
    fn string(&self, id: Option<i64>) -> Option<&str> {
        self.strings.get(&id?).map(String::as_str)
    }

    fn ranges(&self, trace: &mut Trace) -> Result<()> {
        const TABLE: &str = "NVTX_EVENTS";
        if !self.database.has(TABLE) {
            return Ok(());
        }
        self.database.require(TABLE, &["start", "end", "eventType", "globalTid"])?;
        let column = |names: &[&'static str]| self.database.column(TABLE, names);
        let sql = format!(
            "SELECT start, end, eventType, globalTid, {}, {}, {}, {} FROM {TABLE} ORDER BY start, rowid",
            column(&["endGlobalTid"]),
            column(&["text"]),
            column(&["textId"]),
            column(&["domainId"])
        );
        struct Event {
            start: i64,
            end: Option<i64>,
            kind: i64,
            thread: Option<i64>,
            end_thread: Option<i64>,
            text: Option<String>,
            text_id: Option<i64>,
            domain: Option<i64>,
        }
        let events = self.database.rows(&sql, |row| {
            Ok(Event {
                start: row.get(0)?,
                end: row.get(1)?,
                kind: row.get(2)?,
                thread: row.get(3)?,
                end_thread: row.get(4)?,
                text: row.get(5)?,
                text_id: row.get(6)?,
                domain: row.get(7)?,
            })
        })?;
        // A domain's number is its process's own.
        let key = |event: &Event| (process(event.thread.unwrap_or(0)), event.domain.unwrap_or(0));
        let word = |event: &Event| {
            let own = event.text.as_deref().or_else(|| self.string(event.text_id));
            own.unwrap_or("(unnamed)").to_owned()
        };
        let domains: HashMap<(i64, i64), String> = events
            .iter()
            .filter(|event| event.kind == DOMAIN_CREATE)
            .map(|event| (key(event), word(event)))
            .collect();
        for event in &events {
            let style = match event.kind {
                kind if PUSH_POP.contains(&kind) => Style::PushPop,
                kind if START_END.contains(&kind) => Style::StartEnd,
                _ => continue,
            };
            let domain = domains.get(&key(event)).map_or("", String::as_str);
            let name = trace.names.place(&format!("{domain}:{}", word(event)));
            let Some(end) = event.end else {
                trace.unended.push(name);
                continue;
            };
            let thread = event.thread.unwrap_or(0);
            let same_thread = event.end_thread.is_none_or(|other| other == thread);
            trace.ranges.push(Range { name, style, start: event.start, end, thread, same_thread });
        }
        Ok(())
    }

    fn calls(&self, trace: &mut Trace) -> Result<()> {
        const TABLE: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
        if !self.database.has(TABLE) {
            return Ok(());
        }
        self.database.require(TABLE, &["start", "end", "globalTid", "correlationId", "nameId"])?;
        let sql = format!(
            "SELECT start, end, globalTid, correlationId, nameId FROM {TABLE} ORDER BY start, rowid"
        );
        let rows = self.database.rows(&sql, |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get::<_, Option<i64>>(2)?,
                row.get::<_, Option<i64>>(3)?,
                row.get(4)?,
            ))
        })?;
        let mut calls = Vec::with_capacity(rows.len());
        for (start, end, thread, correlation, name_id) in rows {
            let text = without_version(self.string(name_id).unwrap_or("(unnamed)")).to_owned();
            let name = trace.names.place(&text);
            let thread = thread.unwrap_or(0);
            let correlation = (self.owner(Some(thread)), correlation.unwrap_or(0));
            calls.push(Call { name, start, end, thread, correlation });
        }
        trace.calls = Some(calls);
        Ok(())
    }

    /// The process of a thread's or a process's id.
    fn owner(&self, id: Option<i64>) -> i64 {
        id.filter(|_| self.owners).map_or(0, process)
    }

    fn ops(&self, trace: &mut Trace) -> Result<()> {
        for (kind, table) in OPS {
            if !self.database.has(table) {
                continue;
            }
            let rows = self.op_rows(kind, table)?;
            let mut ops = trace.ops.take().unwrap_or_default();
            ops.reserve(rows.len());
            for row in rows {
                let name = self.op_name(trace, kind, row.name);
                let owner = self.owner(row.process);
                let correlation: Option<Correlation> =
                    row.correlation.map(|number| (owner, number));
                let OpRow { start, end, device, bytes, .. } = row;
                ops.push(Op { kind, name, start, end, device, correlation, bytes });
            }
            trace.ops = Some(ops);
        }
        if let Some(ops) = &mut trace.ops {
            ops.sort_by_key(|op| (op.start, op.end));
        }
        Ok(())
    }

    fn op_rows(&self, kind: Kind, table: &str) -> Result<Vec<OpRow>> {
        self.database.require(table, &["start", "end", "deviceId"])?;
        let column = |names: &[&'static str]| self.database.column(table, names);
        let name = match kind {
            Kind::Kernel => column(&["demangledName", "shortName", "mangledName"]),
            Kind::Graph => column(&["graphId", "graphExecId"]),
            Kind::Copy => column(&["copyKind"]),
            Kind::Set => "NULL",
        };
        let sql = format!(
            "SELECT start, end, deviceId, {}, {}, {}, {name} FROM {table}",
            column(&["correlationId"]),
            column(&["globalPid"]),
            column(&["bytes"])
        );
        let read = |row: &Row<'_>| {
            Ok(OpRow {
                start: row.get(0)?,
                end: row.get(1)?,
                device: row.get(2)?,
                correlation: row.get(3)?,
                process: row.get(4)?,
                bytes: row.get::<_, Option<i64>>(5)?.unwrap_or(0),
                name: row.get(6)?,
            })
        };
        self.database.rows(&sql, read)
    }

    /// Memory operations are called as nsys's tables call them.
    fn op_name(&self, trace: &mut Trace, kind: Kind, id: Option<i64>) -> Name {
        let text = match kind {
            Kind::Kernel => self.string(id).unwrap_or("(unnamed kernel)").to_owned(),
            Kind::Graph => format!("[CUDA graph {}]", id.unwrap_or(0)),
            Kind::Copy => {
                let place = usize::try_from(id.unwrap_or(0)).unwrap_or(0);
                format!("[CUDA memcpy {}]", COPIES.get(place).unwrap_or(&COPIES[0]))
            }
            Kind::Set => "[CUDA memset]".to_owned(),
        };
        trace.names.place(&text)
    }
}

/// Tables with work of GPUs.
const OPS: [(Kind, &str); 4] = [
    (Kind::Kernel, "CUPTI_ACTIVITY_KIND_KERNEL"),
    (Kind::Graph, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"),
    (Kind::Copy, "CUPTI_ACTIVITY_KIND_MEMCPY"),
    (Kind::Set, "CUPTI_ACTIVITY_KIND_MEMSET"),
];

struct OpRow {
    start: i64,
    end: i64,
    device: i64,
    correlation: Option<i64>,
    process: Option<i64>,
    bytes: i64,
    name: Option<i64>,
}

/// The process part of a global thread or process id.
fn process(id: i64) -> i64 {
    id >> THREAD_BITS
}

/// `cudaLaunchKernel` of `cudaLaunchKernel_v7000`.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((function, version))
            if version.len() >= 4 && version.bytes().all(|b| b.is_ascii_digit()) =>
        {
            function
        }
        _ => name,
    }
}

fn strings(database: &Database) -> Result<HashMap<i64, String>> {
    if !database.has("StringIds") {
        return Ok(HashMap::new());
    }
    database.require("StringIds", &["id", "value"])?;
    let rows =
        database.rows("SELECT id, value FROM StringIds", |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.into_iter().collect())
}

fn overheads(database: &Database) -> Result<Vec<(i64, i64)>> {
    if database.column("PROFILER_OVERHEAD", &["end"]) == "NULL" {
        return Ok(Vec::new());
    }
    database.rows("SELECT start, end FROM PROFILER_OVERHEAD", |row| Ok((row.get(0)?, row.get(1)?)))
}

/// CUDA's number of each GPU and its name, as far as the export has them.
fn gpus(database: &Database) -> Result<BTreeMap<i64, String>> {
    for table in ["TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU"] {
        let name = database.column(table, &["name"]);
        let number = database.column(table, &["cuDevice", "cudaId", "id"]);
        if name == "NULL" || number == "NULL" {
            continue;
        }
        let sql = format!("SELECT {number}, {name} FROM {table}");
        let rows = database.rows(&sql, |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<String>>(1)?))
        })?;
        return Ok(rows.into_iter().filter_map(|(number, name)| number.zip(name)).collect());
    }
    Ok(BTreeMap::new())
}

/// What the program wrote to standard error, where the report kept it.
fn stderr(database: &Database, strings: &HashMap<i64, String>) -> Result<String> {
    const TABLE: &str = "ProcessStreams";
    if ["filenameId", "contentId"].iter().any(|column| database.column(TABLE, &[column]) == "NULL")
    {
        return Ok(String::new());
    }
    let sql = format!("SELECT filenameId, contentId FROM {TABLE}");
    let streams = database.rows(&sql, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let is_errors = |file: &i64| strings.get(file).is_some_and(|name| name.contains("stderr"));
    let texts = streams.iter().filter(|(file, _)| is_errors(file));
    Ok(texts.filter_map(|(_, text)| strings.get(text)).map(String::as_str).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_functions_are_no_part_of_their_names() {
        assert_eq!(without_version("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
        assert_eq!(without_version("cuMemAlloc_v2"), "cuMemAlloc_v2");
        assert_eq!(without_version("my_value"), "my_value");
        assert_eq!(without_version("cudaMemcpyAsync_ptsz_v7000"), "cudaMemcpyAsync_ptsz");
    }
}
