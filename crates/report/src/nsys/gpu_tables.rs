/*!
GPU work: kernels by time, memory operations by time and by size.
*/

use std::collections::HashMap;

use super::range_tables::{summary, weightiest_first};
use super::spread::Spread;
use super::table::{Column, Table, Unit, column};
use super::trace::{GpuOp, Name, OpKind, Trace};

const KERNELS: [Column; 9] = timed("Instances", "Name");
const MEMORY_TIME: [Column; 9] = timed("Count", "Operation");
const MEMORY_SIZE: [Column; 8] = [
    column("Total", Unit::Bytes),
    column("Count", Unit::Count),
    column("Avg", Unit::Bytes),
    column("Med", Unit::Bytes),
    column("Min", Unit::Bytes),
    column("Max", Unit::Bytes),
    column("StdDev", Unit::Bytes),
    column("Operation", Unit::Text),
];

/// nsys's columns of a summary of times.
pub const fn timed(count: &'static str, what: &'static str) -> [Column; 9] {
    [
        column("Time", Unit::Percent),
        column("Total Time", Unit::Time),
        column(count, Unit::Count),
        column("Avg", Unit::Time),
        column("Med", Unit::Time),
        column("Min", Unit::Time),
        column("Max", Unit::Time),
        column("StdDev", Unit::Time),
        column(what, Unit::Text),
    ]
}

/// `cuda_gpu_kern_sum`. A CUDA graph that was traced as a whole is a row among the kernels: the
/// report does not have its kernels, and most of the work would be missing without it.
pub fn kernels(trace: &Trace) -> Table {
    let of = |op: &&GpuOp| matches!(op.kind, OpKind::Kernel | OpKind::Graph);
    Table {
        name: "cuda_gpu_kern_sum",
        title: "Kernels".into(),
        columns: KERNELS.to_vec(),
        keys: &[8],
        measure: 1,
        count: Some(2),
        rows: rows_by_time(trace, trace.ops().iter().filter(of)),
    }
}

/// `cuda_gpu_mem_time_sum`.
pub fn memory_time(trace: &Trace) -> Table {
    Table {
        name: "cuda_gpu_mem_time_sum",
        title: "Memory operations by time".into(),
        columns: MEMORY_TIME.to_vec(),
        keys: &[8],
        measure: 1,
        count: Some(2),
        rows: rows_by_time(trace, trace.ops().iter().filter(|op| op.kind.is_memory())),
    }
}

/// `cuda_gpu_mem_size_sum`, in bytes.
pub fn memory_size(trace: &Trace) -> Table {
    let memory = trace.ops().iter().filter(|op| op.kind.is_memory());
    let rows = groups(memory, |op| op.bytes).into_iter().filter_map(|(name, bytes)| {
        let spread = Spread::of(&bytes)?;
        let mut row = summary(&spread, 0);
        // nsys has no column for the share of a sum of sizes.
        row.remove(0);
        row.push(trace.text(name).into());
        Some((spread.total, row))
    });
    Table {
        name: "cuda_gpu_mem_size_sum",
        title: "Memory operations by size".into(),
        columns: MEMORY_SIZE.to_vec(),
        keys: &[7],
        measure: 0,
        count: Some(1),
        rows: weightiest_first(rows),
    }
}

fn rows_by_time<'a>(
    trace: &Trace,
    ops: impl Iterator<Item = &'a GpuOp>,
) -> Vec<Vec<super::table::Cell>> {
    rows_of_times(trace, groups(ops, |op| op.end - op.start))
}

/// The rows of a summary of times.
pub fn rows_of_times(
    trace: &Trace,
    groups: HashMap<Name, Vec<i64>>,
) -> Vec<Vec<super::table::Cell>> {
    let all: i64 = groups.values().flatten().sum();
    let rows = groups.into_iter().filter_map(|(name, times)| {
        let spread = Spread::of(&times)?;
        let mut row = summary(&spread, all);
        row.push(trace.text(name).into());
        Some((spread.total, row))
    });
    weightiest_first(rows)
}

fn groups<'a>(
    ops: impl Iterator<Item = &'a GpuOp>,
    value: impl Fn(&GpuOp) -> i64,
) -> HashMap<Name, Vec<i64>> {
    let mut groups: HashMap<Name, Vec<i64>> = HashMap::new();
    for op in ops {
        groups.entry(op.name).or_default().push(value(op));
    }
    groups
}
