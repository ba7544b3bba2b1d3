/*!
Reads an export into a [`Trace`]. Tables and columns differ between releases; these files handle the
differences.
*/

mod counters;
mod events;
mod ops;

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;

use super::database::Database;
use super::trace::{Machine, Trace, process};

/// Reads everything.
///
/// # Errors
/// The file is damaged, or a table lacks a needed column.
pub fn load(database: &Database) -> Result<Trace> {
    // If the export does not name the process of GPU work, all of it belongs to one process.
    let owners =
        ops::TABLES.iter().any(|(_, table)| database.column(table, &["globalPid"]) != "NULL");
    let strings = strings(database)?;
    let loader = Loader { database, strings, owners };
    let mut trace = Trace::default();
    loader.ranges(&mut trace)?;
    loader.calls(&mut trace)?;
    loader.ops(&mut trace)?;
    loader.counters(&mut trace)?;
    trace.overheads = overheads(database)?;
    trace.gpus = gpus(database)?;
    trace.machine = machine(database)?;
    trace.stderr = stderr(database, &loader.strings)?;
    trace.exporter = database.exporter();
    trace.cuda_was_traced =
        database.captured("PROCESS_0:COLLECT_CUDA_TRACE").map(|value| value == "true");
    Ok(trace)
}

/// The database with lookups for reading its tables.
struct Loader<'a> {
    database: &'a Database,
    strings: HashMap<i64, String>,
    /// GPU work has a process.
    owners: bool,
}

impl Loader<'_> {
    fn string(&self, id: Option<i64>) -> Option<&str> {
        self.strings.get(&id?).map(String::as_str)
    }

    /// The process of a thread or process id.
    fn owner(&self, id: Option<i64>) -> i64 {
        id.filter(|_| self.owners).map_or(0, process)
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

/// The recorded machine, as far as the export describes it.
fn machine(database: &Database) -> Result<Machine> {
    const TABLE: &str = "TARGET_INFO_SYSTEM_ENV";
    if ["name", "value"].iter().any(|column| database.column(TABLE, &[column]) == "NULL") {
        return Ok(Machine::default());
    }
    let sql =
        format!("SELECT name, value FROM {TABLE} WHERE name IN ('CpuDescription', 'Hostname')");
    let rows = database.rows(&sql, |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?))
    })?;
    let of = |name: &str| {
        let found = rows.iter().find(|(own, _)| own.as_deref() == Some(name));
        found.and_then(|(_, value)| value.clone()).unwrap_or_default()
    };
    Ok(Machine { processor: of("CpuDescription"), host: of("Hostname") })
}

/// The program's standard error, if the report has it.
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
