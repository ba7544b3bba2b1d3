/*!
Idle time of GPUs: utilisation, and gaps with the operations before and after them.
*/

use std::collections::{BTreeMap, HashMap};

use super::filter::{Window, merged};
use super::range_tables::share;
use super::table::{Cell, Column, Table, Unit, column};
use super::trace::{Correlation, GpuOp, Range, Trace};

const UTILISATION: [Column; 9] = [
    column("Device ID", Unit::Count),
    column("Name", Unit::Text),
    column("Utilisation", Unit::Percent),
    column("Busy Time", Unit::Time),
    column("Span", Unit::Time),
    column("Kernel Time", Unit::Time),
    column("Memory Time", Unit::Time),
    column("Longest Gap", Unit::Time),
    column("GPU Ops", Unit::Count),
];

const GAPS: [Column; 7] = [
    column("Device ID", Unit::Count),
    column("Duration", Unit::Time),
    column("Start", Unit::Time),
    column("Range on CPU", Unit::Text),
    column("After", Unit::Text),
    column("Before", Unit::Text),
    column("Profiler Overhead", Unit::Time),
];

/// `gpu_time_util`: for each GPU the share of the time in which it was busy, from its first work to
/// its last or over the requested window. Concurrent work counts once.
pub fn utilisation(trace: &Trace, window: Option<Window>) -> Table {
    let rows = devices(trace).into_iter().filter_map(|(device, ops)| {
        let busy = merged(ops.iter().map(|op| (op.start, op.end)).collect());
        let (first, last) = busy.first().zip(busy.last())?;
        let start = window.and_then(|window| window.start).unwrap_or(first.0);
        let end = window.and_then(|window| window.end).unwrap_or(last.1);
        let time = |spans: &[(i64, i64)]| spans.iter().map(|(start, end)| end - start).sum::<i64>();
        let (memory, others): (Vec<&GpuOp>, Vec<&GpuOp>) =
            ops.iter().copied().partition(|op| op.kind.is_memory());
        let of =
            |ops: Vec<&GpuOp>| time(&merged(ops.iter().map(|op| (op.start, op.end)).collect()));
        let longest = busy.windows(2).map(|pair| pair[1].0 - pair[0].1).max();
        Some(vec![
            device.into(),
            trace.gpus.get(&device).map_or(Cell::Missing, |name| name.as_str().into()),
            share(time(&busy), end - start),
            time(&busy).into(),
            (end - start).into(),
            of(others).into(),
            of(memory).into(),
            longest.map_or(Cell::Missing, Cell::Whole),
            ops.len().into(),
        ])
    });
    Table {
        name: "gpu_time_util",
        title: "GPU time utilisation".into(),
        columns: UTILISATION.to_vec(),
        keys: &[0, 1],
        measure: 2,
        count: None,
        rows: rows.collect(),
    }
}

/// `gpu_gaps`: intervals of at least `least` ns between operations in which a GPU was idle, the
/// longest first. Each row has the innermost CPU range at the gap's middle on the thread that
/// launched the next operation, and the profiler's overhead in it.
pub fn gaps(trace: &Trace, least: i64) -> Table {
    let overheads = merged(trace.overheads.clone());
    let threads: HashMap<Correlation, i64> =
        trace.calls().iter().map(|call| (call.correlation, call.thread)).collect();
    let mut found: Vec<(i64, Vec<Cell>)> = Vec::new();
    for (device, ops) in devices(trace) {
        let mut last: Option<&GpuOp> = None;
        let mut ranges = OpenRanges::of(trace);
        for op in ops {
            if let Some(before) = last.filter(|before| op.start - before.end >= least.max(1)) {
                let (start, end) = (before.end, op.start);
                let thread = op.correlation.and_then(|own| threads.get(&own).copied());
                let range = ranges.innermost(start + (end - start) / 2, thread);
                let row = vec![
                    device.into(),
                    (end - start).into(),
                    start.into(),
                    range.map_or(Cell::Missing, |range| trace.text(range.name).into()),
                    trace.text(before.name).into(),
                    trace.text(op.name).into(),
                    covered(&overheads, start, end).into(),
                ];
                found.push((end - start, row));
            }
            if last.is_none_or(|before| op.end > before.end) {
                last = Some(op);
            }
        }
    }
    found.sort_by_key(|(gap, _)| -gap);
    Table {
        name: "gpu_gaps",
        title: "Gaps on the GPU".into(),
        columns: GAPS.to_vec(),
        keys: &[],
        measure: 1,
        count: None,
        rows: found.into_iter().map(|(_, row)| row).collect(),
    }
}

/// The open ranges at times that are requested in order.
struct OpenRanges<'a> {
    coming: std::iter::Peekable<std::vec::IntoIter<&'a Range>>,
    open: Vec<&'a Range>,
}

impl<'a> OpenRanges<'a> {
    fn of(trace: &'a Trace) -> Self {
        let mut ranges: Vec<&Range> = trace.ranges.iter().collect();
        ranges.sort_by_key(|range| range.start);
        Self { coming: ranges.into_iter().peekable(), open: Vec::new() }
    }

    /// The shortest range that is open at `moment`, on `thread` if known.
    fn innermost(&mut self, moment: i64, thread: Option<i64>) -> Option<&'a Range> {
        while let Some(range) = self.coming.next_if(|range| range.start <= moment) {
            self.open.push(range);
        }
        self.open.retain(|range| range.end >= moment);
        let here = self.open.iter().filter(|range| thread.is_none_or(|own| range.thread == own));
        here.min_by_key(|range| range.end - range.start).copied()
    }
}

/// The part of an interval that the spans cover, ns.
fn covered(spans: &[(i64, i64)], start: i64, end: i64) -> i64 {
    let first = spans.partition_point(|span| span.1 <= start);
    let inside = spans[first..].iter().take_while(|span| span.0 < end);
    inside.map(|(from, to)| end.min(*to) - start.max(*from)).sum()
}

/// The operations of each GPU in order of time.
pub fn devices(trace: &Trace) -> BTreeMap<i64, Vec<&GpuOp>> {
    let mut devices: BTreeMap<i64, Vec<&GpuOp>> = BTreeMap::new();
    for op in trace.ops() {
        devices.entry(op.device).or_default().push(op);
    }
    devices
}
