/*!
Plots of frame times: distribution and time series.
*/

use super::{CURVES, by_size, label, listed, part_name, part_title};
use crate::chart::{Guide, Line, Lines, Plot, Style, lines, thousands};
use crate::content::Report;
use crate::data::{Frames, Group};

/// Largest ratio of medians on one axis; beyond it the faster curve would be a line at the edge.
const SPREAD: f64 = 10.0;
/// Largest ratio of pass lengths on one axis.
const LENGTHS: f64 = 5.0;

/// Distribution and time series of latencies, then of the intervals of overlapping frames.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (kind, suffix, what) in [
        ("latency", "", "Latency"),
        ("interval", "_overlapping", "Interval between masks, frames overlapping"),
    ] {
        for size in by_size(report, &report.groups) {
            let shown: Vec<(&Group, &Frames)> = size
                .groups
                .iter()
                .filter_map(|group| {
                    Some((*group, group.frames.as_ref().filter(|frames| frames.kind == kind)?))
                })
                .collect();
            let near = |a: f64, b: f64, ratio: f64| (1.0 / ratio..=ratio).contains(&(a / b));
            let parts = alike(&shown, |a, b| near(a.p50_ms, b.p50_ms, SPREAD));
            for (part, groups) in parts.iter().enumerate() {
                let name = part_name(&format!("latency_ecdf{suffix}{}", size.name), part);
                let title = format!("{what}: distribution{}", size.title);
                let title = part_title(&title, part, parts.len());
                plots.extend(lines(distribution(report, style, groups, name, title)));
            }
            let length = |frames: &Frames| frames.series.frames as f64;
            let parts = alike(&shown, |a, b| {
                near(a.p50_ms, b.p50_ms, SPREAD) && near(length(a), length(b), LENGTHS)
            });
            for (part, groups) in parts.iter().enumerate() {
                let name = part_name(&format!("frame_times{suffix}{}", size.name), part);
                let title = format!("{what}: frame by frame{}", size.title);
                let title = part_title(&title, part, parts.len());
                plots.extend(lines(course(report, style, groups, name, title)));
            }
        }
    }
    plots
}

/// Groups that fit on one plot's axes, in order of first appearance.
fn alike<'a>(
    shown: &[(&'a Group, &'a Frames)],
    fits: impl Fn(&Frames, &Frames) -> bool,
) -> Vec<Vec<(&'a Group, &'a Frames)>> {
    let mut parts: Vec<Vec<(&Group, &Frames)>> = Vec::new();
    for entry in shown {
        match parts.iter_mut().find(|part| part.len() < CURVES && fits(part[0].1, entry.1)) {
            Some(part) => part.push(*entry),
            None => parts.push(vec![*entry]),
        }
    }
    parts
}

fn distribution(
    report: &Report,
    style: Style,
    groups: &[(&Group, &Frames)],
    name: String,
    title: String,
) -> Lines {
    let descriptions = groups.iter().map(|(group, frames)| {
        format!(
            "{}: P50 {}, P95 {}, P99 {} ms over {} frames",
            label(report, group),
            thousands(frames.p50_ms, 2),
            thousands(frames.p95_ms, 2),
            thousands(frames.p99_ms, 2),
            frames.frames
        )
    });
    let thinned = groups.iter().any(|(_, frames)| frames.ecdf.len() < frames.frames);
    let mut notes =
        vec!["Frames after the prompted one of each pass. Marks: P50, P95, P99.".to_owned()];
    if thinned {
        notes.push(
            "Curves of many frames show 400 points; percentiles are of all \
                    frames."
                .to_owned(),
        );
    }
    Lines {
        style,
        name,
        title,
        alt: format!("Share of frames up to each time. {}.", listed(descriptions)),
        x: "ms".to_owned(),
        y: "share of frames".to_owned(),
        y_ends: Some((0.0, 1.0)),
        y_from_zero: true,
        lines: groups
            .iter()
            .map(|(group, frames)| curve(label(report, group), group.series, frames))
            .collect(),
        guides: [0.5, 0.95, 0.99].map(|y| Guide { y, label: format!("P{:.0}", 100.0 * y) }).into(),
        notes,
        ..Lines::default()
    }
}

fn curve(label: String, colour: usize, frames: &Frames) -> Line {
    let marks = [(0.5, frames.p50_ms), (0.95, frames.p95_ms), (0.99, frames.p99_ms)];
    let marks = marks.map(|(share, time)| {
        (time, share, format!("{label}: P{:.0} {} ms", 100.0 * share, thousands(time, 3)))
    });
    // The curve begins at the axis, because the first frame's share is not zero.
    let start = frames.ecdf.first().map(|(time, _)| (*time, 0.0));
    Line {
        label,
        colour: Some(colour),
        points: start.into_iter().chain(frames.ecdf.iter().copied()).collect(),
        marks: marks.into(),
        ..Line::default()
    }
}

fn course(
    report: &Report,
    style: Style,
    groups: &[(&Group, &Frames)],
    name: String,
    title: String,
) -> Lines {
    let mut notes = vec![format!(
        "The longest pass of each group: {}.",
        listed(groups.iter().map(|(group, frames)| {
            let series = &frames.series;
            format!(
                "{}: {} {}, pass {}",
                label(report, group),
                series.video,
                series.object,
                series.run
            )
        }))
    )];
    for (group, frames) in groups.iter().filter(|(_, frames)| frames.series.frames_per_pair > 1) {
        notes.push(format!(
            "{}: of every {} of its {} frames, the fastest and the slowest are drawn.",
            label(report, group),
            frames.series.frames_per_pair,
            frames.series.frames
        ));
    }
    let descriptions = groups.iter().map(|(group, frames)| {
        format!(
            "{}: between {} and {} ms over {} frames",
            label(report, group),
            thousands(frames.min_ms, 2),
            thousands(frames.max_ms, 2),
            frames.series.frames
        )
    });
    Lines {
        style,
        name,
        title,
        alt: format!("Time of each frame of a pass. {}.", listed(descriptions)),
        x: "frame of the pass (0 is the prompted one)".to_owned(),
        y: "ms".to_owned(),
        y_from_zero: true,
        busy: true,
        lines: groups
            .iter()
            .map(|(group, frames)| Line {
                label: label(report, group),
                colour: Some(group.series),
                points: frames.series.points.clone(),
                ..Line::default()
            })
            .collect(),
        notes,
        ..Lines::default()
    }
}
