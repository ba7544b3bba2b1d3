/*!
Filters a report: by time, by range name, and without warm-up passes.
*/

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Result, bail};

use super::trace::{Call, Correlation, Trace, process};

/// A time interval, ns since the session began; an open end is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Start.
    pub start: Option<i64>,
    /// End.
    pub end: Option<i64>,
}

/// The selected part of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only events wholly inside: a part of a range would have a false duration.
    pub window: Option<Window>,
    /// Only ranges of this name, events inside them on their threads, and the GPU work launched
    /// there.
    pub range: Option<String>,
}

impl Window {
    fn holds(&self, start: i64, end: i64) -> bool {
        self.start.is_none_or(|first| start >= first) && self.end.is_none_or(|last| end <= last)
    }
}

impl Filter {
    /// Removes everything else from `trace`.
    ///
    /// # Errors
    /// No range has the name; the message has the names of all ranges.
    pub fn apply(&self, trace: &mut Trace) -> Result<()> {
        if let Some(window) = &self.window {
            trace.ranges.retain(|range| window.holds(range.start, range.end));
            if let Some(calls) = &mut trace.calls {
                calls.retain(|call| window.holds(call.start, call.end));
            }
            if let Some(ops) = &mut trace.ops {
                ops.retain(|op| window.holds(op.start, op.end));
            }
            if let Some(samples) = &mut trace.samples {
                samples.retain(|sample| window.holds(sample.time, sample.time));
            }
        }
        match &self.range {
            Some(name) => inside(trace, name),
            None => Ok(()),
        }
    }
}

/// Whether `name` means a range called `text` (`domain:name`), with or without its domain.
fn is_meant(text: &str, name: &str) -> bool {
    text == name || text.split_once(':').is_some_and(|(_, own)| own == name)
}

/// The range around segtrt's warm-up passes.
const WARMUP: &str = "segtrt:warmup";

impl Filter {
    /// Whether the warm-up passes themselves were requested.
    pub fn wants_warmup(&self) -> bool {
        self.range.as_ref().is_some_and(|name| is_meant(WARMUP, name))
    }
}

/// Removes warm-up passes: their ranges, calls and GPU work, on all threads of their process.
/// Returns their number.
pub fn without_warmup(trace: &mut Trace) -> usize {
    let mut spans: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    let mut count = 0;
    for range in trace.ranges.iter().filter(|range| trace.text(range.name) == WARMUP) {
        spans.entry(process(range.thread)).or_default().push((range.start, range.end));
        count += 1;
    }
    if count == 0 {
        return 0;
    }
    let spans: HashMap<i64, Vec<(i64, i64)>> =
        spans.into_iter().map(|(process, spans)| (process, merged(spans))).collect();
    let all = merged(spans.values().flatten().copied().collect());
    let of = |thread: i64| spans.get(&process(thread)).map_or(&[][..], Vec::as_slice);
    trace.ranges.retain(|range| !lies_in(of(range.thread), range.start, range.end));
    let calls = trace.calls.take();
    let (warm, rest): (Vec<Call>, Vec<Call>) = calls
        .iter()
        .flatten()
        .copied()
        .partition(|call| lies_in(of(call.thread), call.start, call.end));
    let launched = |calls: &[Call]| -> HashSet<Correlation> {
        calls.iter().map(|call| call.correlation).collect()
    };
    let (warm, known) = (launched(&warm), launched(&rest));
    trace.calls = calls.is_some().then_some(rest);
    if let Some(samples) = &mut trace.samples {
        samples.retain(|sample| !lies_in(&all, sample.time, sample.time));
    }
    if let Some(ops) = &mut trace.ops {
        ops.retain(|op| match op.correlation {
            Some(set_off) if warm.contains(&set_off) => false,
            Some(set_off) if known.contains(&set_off) => true,
            // Its launch is unknown, so its time decides.
            _ => !lies_in(&all, op.start, op.end),
        });
    }
    count
}

/// Whether one of the spans, which are sorted and disjoint, contains an interval.
fn lies_in(spans: &[(i64, i64)], start: i64, end: i64) -> bool {
    let after = spans.partition_point(|span| span.0 <= start);
    after.checked_sub(1).is_some_and(|at| end <= spans[at].1)
}

fn inside(trace: &mut Trace, name: &str) -> Result<()> {
    let mut spans: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    for range in trace.ranges.iter().filter(|range| range.same_thread) {
        if is_meant(trace.text(range.name), name) {
            spans.entry(range.thread).or_default().push((range.start, range.end));
        }
    }
    if spans.is_empty() {
        let names: BTreeSet<&str> = trace.ranges.iter().map(|r| trace.text(r.name)).collect();
        let names: Vec<&str> = names.into_iter().take(20).collect();
        bail!(
            "no range is called {name}; there are {}",
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        );
    }
    let spans: HashMap<i64, Vec<(i64, i64)>> =
        spans.into_iter().map(|(thread, spans)| (thread, merged(spans))).collect();
    if let Some(samples) = &mut trace.samples {
        // Counters cover the whole device, not a thread.
        let all = merged(spans.values().flatten().copied().collect());
        samples.retain(|sample| lies_in(&all, sample.time, sample.time));
    }
    let holds = |thread: i64, start: i64, end: i64| {
        spans.get(&thread).is_some_and(|spans| lies_in(spans, start, end))
    };
    trace.ranges.retain(|range| range.same_thread && holds(range.thread, range.start, range.end));
    let Some(calls) = &mut trace.calls else {
        trace.ops = trace.ops.take().map(|_| Vec::new());
        return Ok(());
    };
    calls.retain(|call| holds(call.thread, call.start, call.end));
    let kept: HashSet<Correlation> = calls.iter().map(|call| call.correlation).collect();
    if let Some(ops) = &mut trace.ops {
        ops.retain(|op| op.correlation.is_some_and(|set_off| kept.contains(&set_off)));
    }
    Ok(())
}

/// Sorts spans and merges overlapping ones.
pub fn merged(mut spans: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    spans.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nsys::trace::{Call, GpuOp, OpKind, Range, RangeKind};

    #[test]
    fn spans_that_touch_become_one() {
        assert_eq!(merged(vec![(5, 9), (0, 2), (2, 3), (6, 7)]), [(0, 3), (5, 9)]);
        assert!(merged(Vec::new()).is_empty());
    }

    #[test]
    fn a_name_is_meant_with_and_without_its_domain() {
        assert!(is_meant("segtrt:track", "track") && is_meant("segtrt:track", "segtrt:track"));
        assert!(is_meant(":track", "track") && is_meant(":track", ":track"));
        assert!(!is_meant("segtrt:track", "rack") && !is_meant("segtrt:track", "segtrt"));
    }

    /// Two ranges on two threads, each with a call and its kernel.
    fn trace() -> Trace {
        let mut trace = Trace::default();
        let (a, b) = (trace.names.place(":a"), trace.names.place(":b"));
        let range = |name, thread, start, end| Range {
            name,
            style: RangeKind::PushPop,
            start,
            end,
            thread,
            same_thread: true,
        };
        trace.ranges = vec![range(a, 1, 0, 100), range(b, 2, 0, 100), range(b, 1, 10, 20)];
        let call = |thread, start, number| Call {
            name: a,
            start,
            end: start + 5,
            thread,
            correlation: (0, number),
        };
        trace.calls = Some(vec![call(1, 10, 1), call(2, 10, 2), call(1, 98, 3)]);
        let op = |number, start| GpuOp {
            kind: OpKind::Kernel,
            name: a,
            start,
            end: start + 10,
            device: 0,
            stream: 0,
            memory: [None; 2],
            correlation: Some((0, number)),
            bytes: 0,
        };
        trace.ops = Some(vec![op(1, 50), op(2, 60), op(3, 200)]);
        trace
    }

    #[test]
    fn only_what_is_inside_a_range_on_its_thread_is_kept() {
        let mut trace = trace();
        let filter = Filter { range: Some("a".into()), window: None };
        filter.apply(&mut trace).unwrap();
        assert_eq!(trace.ranges.len(), 2);
        assert_eq!(trace.calls().len(), 1, "a call that ends after the range is not in it");
        assert_eq!(trace.ops().iter().map(|op| op.start).collect::<Vec<_>>(), [50]);
        let missing = Filter { range: Some("c".into()), window: None };
        let error = missing.apply(&mut trace).unwrap_err().to_string();
        assert_eq!(error, "no range is called c; there are :a, :b");
    }

    #[test]
    fn warm_up_passes_are_taken_out_with_what_they_launched() {
        let mut trace = trace();
        let warmup = trace.names.place(WARMUP);
        assert_eq!(without_warmup(&mut trace.clone()), 0);
        trace.ranges.push(Range { name: warmup, start: 0, end: 50, ..trace.ranges[0] });
        let ops = trace.ops.as_mut().unwrap();
        // The launches of these kernels are not in the report: one ran in the warm-up, one after
        // it.
        ops.extend([
            GpuOp { correlation: None, start: 10, end: 20, ..ops[0] },
            GpuOp { correlation: None, start: 70, end: 80, ..ops[0] },
        ]);
        assert_eq!(without_warmup(&mut trace), 1);
        assert_eq!(trace.ranges.len(), 2, "ranges that exceed it stay");
        assert_eq!(trace.calls().len(), 1);
        assert_eq!(trace.ops().iter().map(|op| op.start).collect::<Vec<_>>(), [200, 70]);
    }

    #[test]
    fn only_what_lies_wholly_in_the_window_is_kept() {
        let mut trace = trace();
        let window = Window { start: Some(5), end: Some(100) };
        Filter { range: None, window: Some(window) }.apply(&mut trace).unwrap();
        assert_eq!((trace.ranges.len(), trace.calls().len(), trace.ops().len()), (1, 2, 2));
    }
}
