/*!
Findings as sentences: the slowest stage and outliers of a report, and the fastest of several
reports.
*/

use std::collections::HashMap;

use serde::Serialize;

use super::nesting::{ThreadSpan, nest};
use super::projection::project;
use super::trace::{Name, Trace};
use vos::stats;

/// An instance this many scaled deviations above the median is an outlier. The median absolute
/// deviation of a normal sample is the standard deviation over 1.4826.
const ODD: f64 = 10.0 * 1.4826;
/// Least number of instances for finding outliers.
const LEAST_FOR_ODD: usize = 10;

/// Findings on CPU and GPU; none if there is nothing to find.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Findings {
    /// From the ranges' times on the CPU.
    pub cpu: Option<StageFindings>,
    /// From their projections onto the GPU.
    pub gpu: Option<StageFindings>,
}

/// Findings on CPU or GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageFindings {
    /// The range that contains the stages; none if no range contains another.
    pub outer: Option<OuterRange>,
    /// The longest of the stages, or of all ranges without an outer range.
    pub slowest: Stage,
}

/// The range around the stages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OuterRange {
    /// Its name.
    pub name: String,
    /// Number of its instances.
    pub instances: usize,
    /// Mean length, ns.
    pub mean_ns: f64,
    /// Outliers.
    pub odd: usize,
    /// The longest one, ns.
    pub max_ns: i64,
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Total time of its instances, ns.
    pub total_ns: i64,
    /// Mean length, ns.
    pub mean_ns: f64,
    /// Share of the outer range's total time, %; none without an outer range.
    pub percent: Option<f64>,
}

/// One range on CPU or GPU.
struct RangeSpan {
    name: Name,
    length: i64,
    parent: Option<usize>,
}

/// Finds the stages on CPU and GPU.
pub fn find(trace: &Trace) -> Findings {
    let stretch = |range: &super::trace::Range| ThreadSpan {
        thread: range.thread,
        start: range.start,
        end: range.end,
    };
    let places = nest(&trace.ranges.iter().map(stretch).collect::<Vec<_>>());
    let cpu = trace.ranges.iter().zip(places).map(|(range, place)| RangeSpan {
        name: range.name,
        length: range.end - range.start,
        parent: place.parent,
    });
    let gpu = project(trace).into_iter().map(|one| RangeSpan {
        name: trace.ranges[one.range].name,
        length: one.end - one.start,
        parent: one.parent,
    });
    Findings { cpu: side(trace, cpu.collect()), gpu: side(trace, gpu.collect()) }
}

fn side(trace: &Trace, ranges: Vec<RangeSpan>) -> Option<StageFindings> {
    let (outer, stages) = match around_stages(&ranges) {
        Some((outer, stages)) => (outer, stages),
        None => (Vec::new(), (0..ranges.len()).collect()),
    };
    let (name, lengths) = longest(&totals(&ranges, &stages))?;
    let total_ns: i64 = lengths.iter().sum();
    let outer = outer.first().and_then(|first| {
        let lengths: Vec<i64> = outer.iter().map(|&at| ranges[at].length).collect();
        describe(trace, ranges[*first].name, &lengths)
    });
    let whole = outer.as_ref().map(|outer| outer.mean_ns * outer.instances as f64);
    let whole = whole.filter(|whole| *whole > 0.0);
    Some(StageFindings {
        slowest: Stage {
            name: trace.text(name).to_owned(),
            total_ns,
            mean_ns: total_ns as f64 / lengths.len() as f64,
            percent: whole.map(|whole| 100.0 * total_ns as f64 / whole),
        },
        outer,
    })
}

/// The instances of the range that contains the stages, and the stages. It is the outermost range
/// with the largest total time that contains anything. If all ranges in it have one name and
/// contain ranges themselves (a run around its frames), it is those.
fn around_stages(ranges: &[RangeSpan]) -> Option<(Vec<usize>, Vec<usize>)> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); ranges.len()];
    for (at, one) in ranges.iter().enumerate() {
        if let Some(parent) = one.parent {
            children[parent].push(at);
        }
    }
    let inside = |outer: &[usize]| -> Vec<usize> {
        outer.iter().flat_map(|&at| children[at].iter().copied()).collect()
    };
    let outermost = || ranges.iter().enumerate().filter(|(_, one)| one.parent.is_none());
    let holders: Vec<usize> =
        outermost().filter(|(at, _)| !children[*at].is_empty()).map(|(at, _)| at).collect();
    let (name, _) = longest(&totals(ranges, &holders))?;
    let mut outer: Vec<usize> =
        outermost().filter(|(_, one)| one.name == name).map(|(at, _)| at).collect();
    loop {
        let stages = inside(&outer);
        let first = ranges[*stages.first()?].name;
        if stages.iter().any(|&at| ranges[at].name != first) || inside(&stages).is_empty() {
            return Some((outer, stages));
        }
        outer = stages;
    }
}

fn describe(trace: &Trace, name: Name, lengths: &[i64]) -> Option<OuterRange> {
    let reals: Vec<f64> = lengths.iter().map(|length| *length as f64).collect();
    let (median, deviation) = (stats::median(&reals)?, stats::median_absolute_deviation(&reals)?);
    let is_odd =
        |length: &&f64| lengths.len() >= LEAST_FOR_ODD && **length > median + ODD * deviation;
    Some(OuterRange {
        name: trace.text(name).to_owned(),
        instances: lengths.len(),
        mean_ns: stats::mean(&reals)?,
        odd: if deviation > 0.0 { reals.iter().filter(is_odd).count() } else { 0 },
        max_ns: *lengths.iter().max()?,
    })
}

/// The lengths of some of the ranges, by name.
fn totals(ranges: &[RangeSpan], some: &[usize]) -> HashMap<Name, Vec<i64>> {
    let mut totals: HashMap<Name, Vec<i64>> = HashMap::new();
    for &at in some {
        totals.entry(ranges[at].name).or_default().push(ranges[at].length);
    }
    totals
}

/// The name with the largest total; of equal ones the first.
fn longest(totals: &HashMap<Name, Vec<i64>>) -> Option<(Name, Vec<i64>)> {
    let found = totals
        .iter()
        .max_by_key(|(name, lengths)| (lengths.iter().sum::<i64>(), std::cmp::Reverse(**name)))?;
    Some((*found.0, found.1.clone()))
}

/// The fastest of several reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// `gpu` if every report has projections, else `cpu`.
    pub by: &'static str,
    /// The range whose mean length is compared.
    pub range: String,
    /// Label and mean length (ns) of every report, the fastest first.
    pub order: Vec<(String, f64)>,
}

/// Compares reports by the mean length of their outer range.
///
/// # Errors
/// The reason why they cannot be compared, as a sentence.
pub fn compare(reports: &[(String, Findings)]) -> Result<Ranking, String> {
    let on_gpu = reports
        .iter()
        .all(|(_, found)| found.gpu.as_ref().is_some_and(|side| side.outer.is_some()));
    let mut order = Vec::new();
    let mut range: Option<String> = None;
    for (label, found) in reports {
        let side = if on_gpu { &found.gpu } else { &found.cpu };
        let Some(outer) = side.as_ref().and_then(|side| side.outer.as_ref()) else {
            return Err(format!(
                "cannot name a fastest configuration: {label} has no range with stages in it"
            ));
        };
        if let Some(range) = range.as_ref().filter(|range| **range != outer.name) {
            return Err(format!(
                "cannot name a fastest configuration: the stages are in {range} in one report and \
                 in {} in {label}",
                outer.name
            ));
        }
        range = Some(outer.name.clone());
        order.push((label.clone(), outer.mean_ns));
    }
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let range = range.ok_or_else(|| {
        "cannot name a fastest configuration: there is no \
                                     report"
            .to_owned()
    })?;
    Ok(Ranking { by: if on_gpu { "gpu" } else { "cpu" }, range, order })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nsys::trace::{Range, RangeKind};

    fn trace(ranges: &[(&str, i64, i64)]) -> Trace {
        let mut trace = Trace::default();
        for &(name, start, end) in ranges {
            let name = trace.names.place(name);
            let (style, thread, same_thread) = (RangeKind::PushPop, 1, true);
            trace.ranges.push(Range { name, style, start, end, thread, same_thread });
        }
        trace
    }

    #[test]
    fn stages_are_what_is_in_a_frame_whatever_is_around_the_frames() {
        let frames = [
            ("frame", 0, 100),
            ("a", 0, 30),
            ("b", 30, 90),
            ("inner", 31, 89),
            ("frame", 100, 200),
            ("a", 100, 120),
        ];
        let alone = find(&trace(&frames)).cpu.unwrap();
        assert_eq!((alone.slowest.name.as_str(), alone.slowest.percent), ("b", Some(30.0)));
        let outer = alone.outer.clone().unwrap();
        assert_eq!(
            (outer.name.as_str(), outer.instances, outer.mean_ns, outer.odd),
            ("frame", 2, 100.0, 0)
        );
        let wrapped = [[("run", 0, 500)].as_slice(), &frames].concat();
        assert_eq!(find(&trace(&wrapped)).cpu.unwrap(), alone);
        assert_eq!(find(&trace(&frames)).gpu, None);
    }

    #[test]
    fn without_nesting_the_longest_range_is_named() {
        let found = find(&trace(&[("a", 0, 10), ("b", 20, 29), ("b", 30, 39)])).cpu.unwrap();
        assert_eq!((found.outer, found.slowest.name.as_str()), (None, "b"));
    }

    #[test]
    fn a_frame_that_sticks_out_is_counted() {
        let frame = |at: i64| {
            let length = if at == 7 { 900 } else { 50 + at % 3 };
            [("frame", at * 1000, at * 1000 + length), ("a", at * 1000, at * 1000 + 10)]
        };
        let ranges: Vec<_> = (0..20).flat_map(frame).collect();
        let outer = find(&trace(&ranges)).cpu.unwrap().outer.unwrap();
        assert_eq!((outer.odd, outer.max_ns), (1, 900));
    }

    #[test]
    fn reports_are_compared_by_the_same_range_or_not_at_all() {
        let of = |name: &str, length: i64| find(&trace(&[(name, 0, length), ("a", 0, 10)]));
        let report = |label: &str, found: Findings| (label.to_owned(), found);
        let two = [report("bs01", of("frame", 200)), report("bs02", of("frame", 100))];
        let found = compare(&two).unwrap();
        assert_eq!((found.by, found.order[0].0.as_str(), found.order[1].1), ("cpu", "bs02", 200.0));
        let mixed = [report("bs01", of("frame", 200)), report("bs02", of("other", 100))];
        assert!(
            compare(&mixed).unwrap_err().contains("in frame in one report and in other in bs02")
        );
        let bare = [report("x", find(&trace(&[("a", 0, 1)])))];
        assert!(compare(&bare).unwrap_err().contains("x has no range with stages in it"));
    }
}
