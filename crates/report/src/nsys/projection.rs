/*!
Projects CPU ranges onto the GPU.

A range's projection reaches from the start of the first to the end of the last GPU operation that
was launched by a CUDA call wholly inside the range, on the range's thread. An operation counts even
if it runs after the range has ended. Ranges without launches, and ranges that end on another
thread, have no projection.
*/

use std::collections::HashMap;

use super::nesting::{ThreadSpan, nest};
use super::trace::{Correlation, Trace};

/// A range's projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projected {
    /// Index of the trace's range.
    pub range: usize,
    /// Start of its first GPU operation, ns.
    pub start: i64,
    /// End of its last, ns.
    pub end: i64,
    /// Number of GPU operations.
    pub ops: usize,
    /// Number of projected ranges around it.
    pub level: usize,
    /// Number of projected ranges directly in it.
    pub children: usize,
    /// Index in this list of the projected range that directly contains it.
    pub parent: Option<usize>,
}

/// The GPU operations of one call together.
#[derive(Clone, Copy)]
struct Launch {
    call_start: i64,
    call_end: i64,
    start: i64,
    end: i64,
    ops: usize,
}

/// The projections of all ranges that have one, in the order of the ranges.
pub fn project(trace: &Trace) -> Vec<Projected> {
    let launches = launches(trace);
    let mut projected: Vec<Projected> = Vec::new();
    for (at, range) in trace.ranges.iter().enumerate().filter(|(_, range)| range.same_thread) {
        let Some(of_thread) = launches.get(&range.thread) else { continue };
        let first = of_thread.partition_point(|launch| launch.call_start < range.start);
        let inside = of_thread[first..]
            .iter()
            .take_while(|launch| launch.call_start <= range.end)
            .filter(|launch| launch.call_end <= range.end);
        let found = inside.fold(None::<(i64, i64, usize)>, |all, launch| {
            let (start, end, ops) = all.unwrap_or((launch.start, launch.end, 0));
            Some((start.min(launch.start), end.max(launch.end), ops + launch.ops))
        });
        if let Some((start, end, ops)) = found {
            let (level, children, parent) = (0, 0, None);
            projected.push(Projected { range: at, start, end, ops, level, children, parent });
        }
    }
    let stretches: Vec<ThreadSpan> = projected
        .iter()
        .map(|projected| {
            let range = &trace.ranges[projected.range];
            ThreadSpan { thread: range.thread, start: range.start, end: range.end }
        })
        .collect();
    for (projected, place) in projected.iter_mut().zip(nest(&stretches)) {
        projected.level = place.level;
        projected.children = place.children;
        projected.parent = place.parent;
    }
    projected
}

/// The launching calls of each thread, in the order of time.
fn launches(trace: &Trace) -> HashMap<i64, Vec<Launch>> {
    let mut work: HashMap<Correlation, (i64, i64, usize)> = HashMap::new();
    for op in trace.ops() {
        let Some(correlation) = op.correlation else { continue };
        let all = work.entry(correlation).or_insert((op.start, op.end, 0));
        *all = (all.0.min(op.start), all.1.max(op.end), all.2 + 1);
    }
    let mut threads: HashMap<i64, Vec<Launch>> = HashMap::new();
    for call in trace.calls() {
        let Some(&(start, end, ops)) = work.get(&call.correlation) else { continue };
        let launch = Launch { call_start: call.start, call_end: call.end, start, end, ops };
        threads.entry(call.thread).or_default().push(launch);
    }
    for launches in threads.values_mut() {
        launches.sort_by_key(|launch| (launch.call_start, launch.call_end));
    }
    threads
}
