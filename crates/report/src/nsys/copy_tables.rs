/*!
Copies and fills by kind of memory and by function: which of them the host waits for.
*/

use std::collections::HashMap;

use super::api_tables::{is_waiting_copy, is_waiting_fill};
use super::range_tables::{share, weightiest_first};
use super::table::{Cell, Column, Table, Unit, column};
use super::trace::{Call, Correlation, GpuOp, MemoryKind, Name, OpKind, Trace};

const COPIES: [Column; 10] = [
    column("Time", Unit::Percent),
    column("Total Time", Unit::Time),
    column("Count", Unit::Count),
    column("Total", Unit::Bytes),
    column("GB/s", Unit::Number),
    column("Host Time", Unit::Time),
    column("Operation", Unit::Text),
    column("Src Kind", Unit::Text),
    column("Dst Kind", Unit::Text),
    column("API Name", Unit::Text),
];

const FILLS: [Column; 8] = [
    column("Time", Unit::Percent),
    column("Total Time", Unit::Time),
    column("Count", Unit::Count),
    column("Total", Unit::Bytes),
    column("GB/s", Unit::Number),
    column("Host Time", Unit::Time),
    column("Memory Kind", Unit::Text),
    column("API Name", Unit::Text),
];

/// nsys's limit in bytes: the function returns before a copy to the device of at most this size is
/// complete.
const STAGED: i64 = 64_000;

/// Index of the operation in [`GpuOp::name`]'s text of copies within one device.
const WITHIN_DEVICE: &str = "[CUDA memcpy Device-to-Device]";

/// `cuda_memcpy_async`: copies that the host need not wait for, by direction, kinds of memory and
/// function. Pageable host memory makes them block nevertheless.
pub fn asynchronous(trace: &Trace) -> Table {
    let calls = calls(trace);
    copies(trace, &calls, "cuda_memcpy_async", "Asynchronous copies by kind of memory", |op| {
        !waits(trace, &calls, op)
    })
}

/// `cuda_memcpy_sync`: copies that the host waits for.
pub fn synchronous(trace: &Trace) -> Table {
    let calls = calls(trace);
    copies(trace, &calls, "cuda_memcpy_sync", "Copies that the host waits for", |op| {
        waits(trace, &calls, op)
    })
}

/// `cuda_memset_sync`: fills of pinned and managed memory by functions that wait for them.
pub fn fills(trace: &Trace) -> Table {
    let calls = calls(trace);
    let takes = |op: &&GpuOp| {
        let kind = op.memory[1];
        op.kind == OpKind::Set
            && (kind == Some(MemoryKind::PINNED) || kind == Some(MemoryKind::MANAGED))
            && function(trace, &calls, op).is_some_and(is_waiting_fill)
    };
    let sums = sums(&calls, trace.ops().iter().filter(takes));
    let all = sums.values().map(|sum| sum.time).sum();
    let rows = sums.into_iter().map(|(key, sum)| {
        let texts = [kind(key.memory[1]), api(trace, key.function)];
        (sum.time, sum.row(all).into_iter().chain(texts).collect())
    });
    Table {
        name: "cuda_memset_sync",
        title: "Fills that the host waits for".into(),
        columns: FILLS.to_vec(),
        keys: &[6, 7],
        measure: 1,
        count: Some(2),
        rows: weightiest_first(rows),
    }
}

/// A sentence on asynchronous copies from or to pageable memory; none without one.
pub fn pageable(trace: &Trace) -> Option<String> {
    let calls = calls(trace);
    let blocks = |op: &&GpuOp| {
        op.kind == OpKind::Copy
            && op.memory.contains(&Some(MemoryKind::PAGEABLE))
            && function(trace, &calls, op).is_some_and(|name| name.contains("Async"))
    };
    let found: Vec<&GpuOp> = trace.ops().iter().filter(blocks).collect();
    let time: i64 = found.iter().map(|op| op.end - op.start).sum();
    (!found.is_empty()).then(|| {
        format!(
            "asynchronous copies of pageable memory: {}, {} on the GPU; they block the host, pinned \
             memory does not",
            found.len(),
            super::render::time(time as f64)
        )
    })
}

fn calls(trace: &Trace) -> HashMap<Correlation, &Call> {
    trace.calls().iter().map(|call| (call.correlation, call)).collect()
}

fn function<'a>(
    trace: &'a Trace,
    calls: &HashMap<Correlation, &Call>,
    op: &GpuOp,
) -> Option<&'a str> {
    let call = calls.get(&op.correlation?)?;
    Some(trace.text(call.name))
}

/// Whether the host waits for a copy, by the rule of nsys's recipe.
fn waits(trace: &Trace, calls: &HashMap<Correlation, &Call>, op: &GpuOp) -> bool {
    let is_staged = trace.text(op.name) == "[CUDA memcpy Host-to-Device]" && op.bytes <= STAGED;
    let is_within = trace.text(op.name) == WITHIN_DEVICE;
    !is_staged && !is_within && function(trace, calls, op).is_some_and(is_waiting_copy)
}

/// What the operations of a row have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    operation: Name,
    memory: [Option<MemoryKind>; 2],
    function: Option<Name>,
}

#[derive(Default)]
struct Sum {
    time: i64,
    bytes: i64,
    count: usize,
    host: i64,
}

impl Sum {
    /// The first six cells of a row.
    fn row(&self, all: i64) -> Vec<Cell> {
        // Bytes per nanosecond are gigabytes per second.
        let rate = (self.time > 0).then(|| self.bytes as f64 / self.time as f64);
        vec![
            share(self.time, all),
            self.time.into(),
            self.count.into(),
            self.bytes.into(),
            rate.map_or(Cell::Missing, Cell::Real),
            self.host.into(),
        ]
    }
}

fn sums<'a>(
    calls: &HashMap<Correlation, &Call>,
    ops: impl Iterator<Item = &'a GpuOp>,
) -> HashMap<Key, Sum> {
    let mut sums: HashMap<Key, Sum> = HashMap::new();
    for op in ops {
        let call = op.correlation.and_then(|own| calls.get(&own));
        let key =
            Key { operation: op.name, memory: op.memory, function: call.map(|call| call.name) };
        let sum = sums.entry(key).or_default();
        sum.time += op.end - op.start;
        sum.bytes += op.bytes;
        sum.count += 1;
        sum.host += call.map_or(0, |call| call.end - call.start);
    }
    sums
}

fn copies(
    trace: &Trace,
    calls: &HashMap<Correlation, &Call>,
    name: &'static str,
    title: &'static str,
    takes: impl Fn(&GpuOp) -> bool,
) -> Table {
    let chosen = trace.ops().iter().filter(|op| op.kind == OpKind::Copy && takes(op));
    let sums = sums(calls, chosen);
    let all = sums.values().map(|sum| sum.time).sum();
    let rows = sums.into_iter().map(|(key, sum)| {
        let texts = [
            trace.text(key.operation).into(),
            kind(key.memory[0]),
            kind(key.memory[1]),
            api(trace, key.function),
        ];
        (sum.time, sum.row(all).into_iter().chain(texts).collect())
    });
    Table {
        name,
        title: title.into(),
        columns: COPIES.to_vec(),
        keys: &[6, 7, 8, 9],
        measure: 1,
        count: Some(2),
        rows: weightiest_first(rows),
    }
}

fn kind(kind: Option<MemoryKind>) -> Cell {
    kind.map_or(Cell::Missing, |kind| kind.word().into())
}

fn api(trace: &Trace, function: Option<Name>) -> Cell {
    function.map_or(Cell::Missing, |name| trace.text(name).into())
}
