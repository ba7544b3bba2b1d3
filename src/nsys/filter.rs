/*!
A part of a report: what lies within a stretch of time, and what happened inside ranges of one name.
*/

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Result, bail};

use super::trace::{Correlation, Trace};

/// A stretch of time, ns since the session began; an end that is open is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First moment.
    pub start: Option<i64>,
    /// Last moment.
    pub end: Option<i64>,
}

/// What of a report is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only what lies wholly inside: a part of a range would have a false duration.
    pub window: Option<Window>,
    /// Only ranges of this name, what is inside them on their threads, and the GPU work that was launched there.
    pub range: Option<String>,
}

impl Window {
    fn holds(&self, start: i64, end: i64) -> bool {
        self.start.is_none_or(|first| start >= first) && self.end.is_none_or(|last| end <= last)
    }
}

impl Filter {
    /// Takes everything else out of `trace`.
    ///
    /// # Errors
    /// A name that no range has, with the names that there are.
    pub fn apply(&self, trace: &mut Trace) -> Result<()> {
        if let Some(window) = &self.window {
            trace.ranges.retain(|range| window.holds(range.start, range.end));
            if let Some(calls) = &mut trace.calls {
                calls.retain(|call| window.holds(call.start, call.end));
            }
            if let Some(ops) = &mut trace.ops {
                ops.retain(|op| window.holds(op.start, op.end));
            }
        }
        match &self.range {
            Some(name) => inside(trace, name),
            None => Ok(()),
        }
    }
}

/// Whether a range called `text` (`domain:name`) is meant by `name`, with or without its domain.
fn is_meant(text: &str, name: &str) -> bool {
    text == name || text.split_once(':').is_some_and(|(_, own)| own == name)
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
            if names.is_empty() { "none at all".to_owned() } else { names.join(", ") }
        );
    }
    let spans: HashMap<i64, Vec<(i64, i64)>> =
        spans.into_iter().map(|(thread, spans)| (thread, merged(spans))).collect();
    let holds = |thread: i64, start: i64, end: i64| {
        let Some(spans) = spans.get(&thread) else { return false };
        let after = spans.partition_point(|span| span.0 <= start);
        after.checked_sub(1).is_some_and(|at| end <= spans[at].1)
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

/// Spans in order, those that overlap made one.
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
    use crate::nsys::trace::{Call, Kind, Op, Range, Style};

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

    /// Two ranges on two threads, a call and its kernel in each.
    fn trace() -> Trace {
        let mut trace = Trace::default();
        let (a, b) = (trace.names.place(":a"), trace.names.place(":b"));
        let range = |name, thread, start, end| Range {
            name,
            style: Style::PushPop,
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
        let op = |number, start| Op {
            kind: Kind::Kernel,
            name: a,
            start,
            end: start + 10,
            device: 0,
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
        assert_eq!(trace.calls().len(), 1, "a call that reaches beyond the range is not in it");
        assert_eq!(trace.ops().iter().map(|op| op.start).collect::<Vec<_>>(), [50]);
        let missing = Filter { range: Some("c".into()), window: None };
        let error = missing.apply(&mut trace).unwrap_err().to_string();
        assert_eq!(error, "no range is called c; there are :a, :b");
    }

    #[test]
    fn only_what_lies_wholly_in_the_window_is_kept() {
        let mut trace = trace();
        let window = Window { start: Some(5), end: Some(100) };
        Filter { range: None, window: Some(window) }.apply(&mut trace).unwrap();
        assert_eq!((trace.ranges.len(), trace.calls().len(), trace.ops().len()), (1, 2, 2));
    }
}
