/*!
Ranges as boxes: quartiles, whiskers and outliers of the instances of each range, in one report or
in all reports of a platform. An outlier is named by its frame and its report.
*/

use std::collections::HashMap;

use super::nesting::{ThreadSpan, nest};
use super::projection::project;
use super::table::{Cell, Column, Table, Unit, column};
use super::trace::Trace;
use vos::stats;

const BOXES: [Column; 10] = [
    column("Range", Unit::Text),
    column("On", Unit::Text),
    column("Instances", Unit::Count),
    column("Low", Unit::Time),
    column("Q1", Unit::Time),
    column("Med", Unit::Time),
    column("Q3", Unit::Time),
    column("High", Unit::Time),
    column("Max", Unit::Time),
    column("Outliers", Unit::Count),
];

const OUTLIERS: [Column; 7] = [
    column("Range", Unit::Text),
    column("On", Unit::Text),
    column("Frame", Unit::Count),
    column("Duration", Unit::Time),
    column("Times Med", Unit::Number),
    column("Start", Unit::Time),
    column("In", Unit::Text),
];

/// A whisker reaches to the last instance within this many heights of the box.
const WHISKER: f64 = 1.5;

/// All instances of one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTimes {
    /// Its name.
    pub range: String,
    /// `GPU` for projections, `CPU` for the ranges themselves.
    pub on: &'static str,
    /// Its instances.
    pub instances: Vec<Instance>,
}

/// One instance of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Duration, ns.
    pub time: i64,
    /// Start, ns since the session began.
    pub start: i64,
    /// The frame, counted from 0 in the report.
    pub frame: usize,
}

/// The instances of every range, on the GPU and on the CPU. `outer` is the range around the stages
/// of a frame: its instances are counted as frames. A range outside it, such as one of a decoding
/// thread, is counted by its own instances.
pub fn range_times(trace: &Trace, outer: Option<&str>) -> Vec<RangeTimes> {
    let frames = frames(trace, outer);
    let mut found: Vec<RangeTimes> = Vec::new();
    let mut places: HashMap<(u32, &str), usize> = HashMap::new();
    let mut add = |at: usize, on: &'static str, start: i64, end: i64| {
        let name = trace.ranges[at].name;
        let place = *places.entry((name, on)).or_insert_with(|| {
            let range = trace.text(name).to_owned();
            found.push(RangeTimes { range, on, instances: Vec::new() });
            found.len() - 1
        });
        found[place].instances.push(Instance { time: end - start, start, frame: frames[at] });
    };
    for one in project(trace) {
        add(one.range, "GPU", one.start, one.end);
    }
    for (at, range) in trace.ranges.iter().enumerate() {
        add(at, "CPU", range.start, range.end);
    }
    found
}

/// The frame of each range.
fn frames(trace: &Trace, outer: Option<&str>) -> Vec<usize> {
    let ranges = &trace.ranges;
    let span = |range: &super::trace::Range| ThreadSpan {
        thread: range.thread,
        start: range.start,
        end: range.end,
    };
    let places = nest(&ranges.iter().map(span).collect::<Vec<_>>());
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|&at| ranges[at].start);
    let mut counts: HashMap<u32, usize> = HashMap::new();
    let mut own = vec![0; ranges.len()];
    for at in order {
        let count = counts.entry(ranges[at].name).or_default();
        own[at] = *count;
        *count += 1;
    }
    let is_outer = |at: &usize| outer.is_some_and(|name| trace.text(ranges[*at].name) == name);
    let around = |at: usize| {
        std::iter::successors(Some(at), |&at| places[at].parent).find(|at| is_outer(at))
    };
    (0..ranges.len()).map(|at| own[around(at).unwrap_or(at)]).collect()
}

/// `nvtx_box` and `nvtx_outliers` of the reports, which are given by name: the instances of all of
/// them together.
pub fn tables(reports: &[(&str, &[RangeTimes])]) -> [Table; 2] {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for range in reports.iter().flat_map(|(_, ranges)| ranges.iter()) {
        let key = (range.range.as_str(), range.on);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut boxes: Vec<(f64, Vec<Cell>)> = Vec::new();
    let mut outliers: Vec<(f64, Vec<Cell>)> = Vec::new();
    for (range, on) in keys {
        let all: Vec<(&str, Instance)> = reports
            .iter()
            .flat_map(|(label, ranges)| ranges.iter().map(move |own| (*label, own)))
            .filter(|(_, own)| own.range == range && own.on == on)
            .flat_map(|(label, own)| own.instances.iter().map(move |one| (label, *one)))
            .collect();
        let times: Vec<f64> = all.iter().map(|(_, one)| one.time as f64).collect();
        let Some(five) = FiveNumbers::of(&times) else { continue };
        let is_outlier = |time: f64| time < five.low || time > five.high;
        let out = all.iter().filter(|(_, one)| is_outlier(one.time as f64));
        let mut count = 0_usize;
        for (label, one) in out {
            count += 1;
            let times_median = one.time as f64 / five.median;
            let row = vec![
                range.into(),
                on.into(),
                one.frame.into(),
                one.time.into(),
                if five.median > 0.0 { times_median.into() } else { Cell::Missing },
                one.start.into(),
                (*label).into(),
            ];
            outliers.push((if times_median.is_finite() { times_median } else { 0.0 }, row));
        }
        let real = |value: f64| Cell::Real(value);
        let row = vec![
            range.into(),
            on.into(),
            times.len().into(),
            real(five.low),
            real(five.q1),
            real(five.median),
            real(five.q3),
            real(five.high),
            times.iter().copied().fold(0.0, f64::max).into(),
            count.into(),
        ];
        boxes.push((five.median, row));
    }
    boxes.sort_by(|a, b| b.0.total_cmp(&a.0));
    outliers.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rows = |rows: Vec<(f64, Vec<Cell>)>| rows.into_iter().map(|(_, row)| row).collect();
    [
        Table {
            name: "nvtx_box",
            title: "Ranges as boxes".into(),
            columns: BOXES.to_vec(),
            keys: &[0, 1],
            measure: 5,
            count: Some(2),
            rows: rows(boxes),
        },
        Table {
            name: "nvtx_outliers",
            title: "Outliers of ranges".into(),
            columns: OUTLIERS.to_vec(),
            keys: &[],
            measure: 3,
            count: None,
            rows: rows(outliers),
        },
    ]
}

/// A box with its whiskers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FiveNumbers {
    low: f64,
    q1: f64,
    median: f64,
    q3: f64,
    high: f64,
}

impl FiveNumbers {
    /// Of at least one value: quartiles as numpy computes them, and the outermost values within 1.5
    /// heights of the box.
    fn of(values: &[f64]) -> Option<Self> {
        let sorted = stats::sorted(values);
        let at = |percent| stats::percentile_of_sorted(&sorted, percent);
        let (q1, median, q3) = (at(25.0)?, at(50.0)?, at(75.0)?);
        let reach = WHISKER * (q3 - q1);
        let low = sorted.iter().find(|value| **value >= q1 - reach)?;
        let high = sorted.iter().rfind(|value| **value <= q3 + reach)?;
        Some(Self { low: low.min(q1), q1, median, q3, high: high.max(q3) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nsys::trace::{Range, RangeKind};

    /// Frames of 100 ns, except for the sixth; a decoding thread beside them.
    fn trace() -> Trace {
        let mut trace = Trace::default();
        for frame in 0..12 {
            let start = 10_000 * frame;
            let track = if frame == 6 { 900 } else { 100 + frame };
            for (name, thread, length) in [
                ("segtrt:pipeline", 1, track + 50),
                ("segtrt:track", 1, track),
                ("segtrt:decode", 2, 40),
            ] {
                let name = trace.names.place(name);
                let (style, end) = (RangeKind::PushPop, start + length);
                trace.ranges.push(Range { name, style, start, end, thread, same_thread: true });
            }
        }
        trace
    }

    #[test]
    fn an_outlier_is_named_by_its_frame_and_report() {
        let times = range_times(&trace(), Some("segtrt:pipeline"));
        let [boxes, outliers] = tables(&[("clip_a", &times), ("clip_b", &times)]);
        let track = boxes.rows.iter().find(|row| row[0] == "segtrt:track".into()).unwrap();
        assert_eq!(track[2], Cell::Whole(24));
        assert_eq!((&track[3], &track[7]), (&Cell::Real(100.0), &Cell::Real(111.0)));
        assert_eq!(track[9], Cell::Whole(2));
        let of = |at: usize| -> Vec<String> {
            outliers.rows[at].iter().map(|cell| cell.plain(Unit::Text)).collect()
        };
        assert_eq!(of(0)[..4], ["segtrt:track", "CPU", "6", "900"]);
        assert_eq!((of(0)[5].as_str(), of(0)[6].as_str()), ("60000", "clip_a"));
        assert_eq!(of(1)[6], "clip_b");
        assert_eq!(outliers.rows.len(), 4, "two of track and two of pipeline");
    }

    #[test]
    fn a_range_beside_the_frames_counts_its_own_instances() {
        let times = range_times(&trace(), Some("segtrt:pipeline"));
        let decode = times.iter().find(|one| one.range == "segtrt:decode").unwrap();
        assert_eq!(decode.instances[11].frame, 11);
    }

    #[test]
    fn whiskers_end_at_values_and_a_single_value_is_a_box() {
        let one = FiveNumbers::of(&[7.0]).unwrap();
        assert_eq!((one.low, one.median, one.high), (7.0, 7.0, 7.0));
        let five = FiveNumbers::of(&[0.0, 10.0, 11.0, 12.0, 13.0, 14.0, 40.0]).unwrap();
        assert_eq!((five.low, five.q1, five.q3, five.high), (10.0, 10.5, 13.5, 14.0));
        assert_eq!(FiveNumbers::of(&[]), None);
    }
}
