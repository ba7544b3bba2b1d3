/*!
Ranges: on the CPU, and projected onto the GPU.
*/

use std::collections::HashMap;

use super::projection::{Projected, project};
use super::spread::Spread;
use super::table::{Cell, Column, Table, Unit, column};
use super::trace::{Name, RangeKind, Trace};

/// nsys's columns of the projection.
const PROJECTED: [Column; 14] = [
    column("Range", Unit::Text),
    column("Style", Unit::Text),
    column("Total Proj Time", Unit::Time),
    column("Total Range Time", Unit::Time),
    column("Range Instances", Unit::Count),
    column("Proj Avg", Unit::Time),
    column("Proj Med", Unit::Time),
    column("Proj Min", Unit::Time),
    column("Proj Max", Unit::Time),
    column("Proj StdDev", Unit::Time),
    column("Total GPU Ops", Unit::Count),
    column("Avg GPU Ops", Unit::Number),
    column("Avg Range Lvl", Unit::Number),
    column("Avg Num Child", Unit::Number),
];

/// nsys's columns of ranges on the CPU.
const ON_CPU: [Column; 10] = [
    column("Time", Unit::Percent),
    column("Total Time", Unit::Time),
    column("Instances", Unit::Count),
    column("Avg", Unit::Time),
    column("Med", Unit::Time),
    column("Min", Unit::Time),
    column("Max", Unit::Time),
    column("StdDev", Unit::Time),
    column("Style", Unit::Text),
    column("Range", Unit::Text),
];

/// `nvtx_gpu_proj_sum`.
pub fn projected(trace: &Trace) -> Table {
    let mut groups: HashMap<(Name, RangeKind), Vec<Projected>> = HashMap::new();
    for one in project(trace) {
        let range = &trace.ranges[one.range];
        groups.entry((range.name, range.style)).or_default().push(one);
    }
    let rows = groups.into_iter().filter_map(|((name, style), group)| {
        let times: Vec<i64> = group.iter().map(|one| one.end - one.start).collect();
        let spread = Spread::of(&times)?;
        let lengths = group.iter().map(|one| &trace.ranges[one.range]);
        let range_time: i64 = lengths.map(|range| range.end - range.start).sum();
        let sum = |pick: &dyn Fn(&Projected) -> usize| group.iter().map(pick).sum::<usize>();
        let mean = |total: usize| Cell::Real(total as f64 / group.len() as f64);
        let ops = sum(&|one| one.ops);
        let row = vec![
            trace.text(name).into(),
            style.word().into(),
            spread.total.into(),
            range_time.into(),
            spread.count.into(),
            spread.mean.into(),
            spread.median.into(),
            spread.min.into(),
            spread.max.into(),
            spread.deviation.into(),
            ops.into(),
            mean(ops),
            mean(sum(&|one| one.level)),
            mean(sum(&|one| one.children)),
        ];
        Some((spread.total, row))
    });
    Table {
        name: "nvtx_gpu_proj_sum",
        title: "Ranges projected onto the GPU".into(),
        columns: PROJECTED.to_vec(),
        keys: &[0, 1],
        measure: 5,
        count: Some(4),
        rows: weightiest_first(rows),
    }
}

/// `nvtx_sum`. Ranges that never ended have no duration and are omitted.
pub fn on_cpu(trace: &Trace) -> Table {
    let mut groups: HashMap<(Name, RangeKind), Vec<i64>> = HashMap::new();
    for range in &trace.ranges {
        groups.entry((range.name, range.style)).or_default().push(range.end - range.start);
    }
    let all: i64 = groups.values().flatten().sum();
    let rows = groups.into_iter().filter_map(|((name, style), times)| {
        let spread = Spread::of(&times)?;
        let mut row = summary(&spread, all);
        row.extend([style.word().into(), trace.text(name).into()]);
        Some((spread.total, row))
    });
    Table {
        name: "nvtx_sum",
        title: "Ranges on the CPU".into(),
        columns: ON_CPU.to_vec(),
        keys: &[9, 8],
        measure: 3,
        count: Some(2),
        rows: weightiest_first(rows),
    }
}

/// The first eight columns of nsys's summaries: share of `all`, total, count, mean, median,
/// minimum, maximum, standard deviation.
pub fn summary(spread: &Spread, all: i64) -> Vec<Cell> {
    vec![
        share(spread.total, all),
        spread.total.into(),
        spread.count.into(),
        spread.mean.into(),
        spread.median.into(),
        spread.min.into(),
        spread.max.into(),
        spread.deviation.into(),
    ]
}

/// Percent of a whole; empty for a whole of zero.
pub fn share(part: i64, whole: i64) -> Cell {
    match whole {
        0 => Cell::Missing,
        whole => Cell::Real(100.0 * part as f64 / whole as f64),
    }
}

/// Rows by weight, the largest first; of equal weight by text, so that the order is deterministic.
pub fn weightiest_first(rows: impl Iterator<Item = (i64, Vec<Cell>)>) -> Vec<Vec<Cell>> {
    let words = |row: &Vec<Cell>| {
        let texts = row.iter().filter(|cell| matches!(cell, Cell::Text(_)));
        texts.map(|cell| cell.plain(Unit::Text)).collect::<Vec<_>>()
    };
    let mut rows: Vec<(i64, Vec<Cell>)> = rows.collect();
    rows.sort_by_cached_key(|(weight, row)| (std::cmp::Reverse(*weight), words(row)));
    rows.into_iter().map(|(_, row)| row).collect()
}
