/*!
Sections that compare: platforms, drift of masks, profiles.
*/

use maud::{Markup, html};

use super::cells::{NOT_MEASURED, heads, number, table};
use super::plots::figures as draw;
use crate::chart::thousands;
use crate::content::Report;
use crate::figures::Figures;
use crate::input::{NsysOperation, NsysReport};

/// Number of operations shown of a profile.
const TOP: usize = 10;

/// A line for each model, a column for each platform; `None` with a single platform.
pub fn platforms(report: &Report, figures: &Figures) -> Option<Markup> {
    let all = &report.platforms;
    if all.lines.is_empty() {
        return None;
    }
    let mut names = vec!["Model"];
    names.extend(all.platforms.iter().map(String::as_str));
    let body = html! {
        @for line in &all.lines {
            tr {
                th scope="row" { (line.name) }
                @for cells in &line.cells {
                    @match cells.as_slice() {
                        [] => td.n.none { (NOT_MEASURED) },
                        [first, ..] => td.n data-v=[first.fps] {
                            @for (at, cell) in cells.iter().enumerate() {
                                @if at > 0 { br; }
                                @let text = cell.fps.map_or_else(|| NOT_MEASURED.to_owned(), |fps| thousands(fps, 2));
                                @if report.groups[cell.group].invalid { s { (text) } " \
                                    INVALID" } @else { (text) }
                                @if let Some(times) = cell.times_first { " \
                                    (" (thousands(times, 2)) " \
                                    ×)" }
                                @if cells.len() > 1 { " " span.muted { (report.groups[cell.group].name) } }
                            }
                        },
                    }
                }
            }
        }
    };
    Some(html! {
        (draw(&figures.platforms))
        @if figures.platforms.is_empty() { p.none { "No model was measured on two platforms under \
            the same conditions." } }
        (table("FPS, mean over objects; in brackets the ratio to the first \
                platform", true, &heads(&names, 1), &body))
    })
}

/// Curves of every comparison; `None` without one.
pub fn drift(report: &Report, figures: &Figures) -> Option<Markup> {
    if report.drift.is_empty() {
        return None;
    }
    let body = html! {
        @for curve in &report.drift {
            @let worst = curve.iou.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            tr {
                th scope="row" { (curve.model) }
                td { (curve.side) @if curve.teacher_forced { ", teacher-forced" } }
                (number(Some(curve.iou.len() as f64), 0, false))
                (number(vos::stats::mean(&curve.iou), 6, false))
                (number(curve.lowest.or(worst.map(|(_, iou)| iou)), 6, false))
                (number(worst.map(|(at, _)| curve.frame[at]), 0, false))
            }
        }
    };
    Some(html! {
        p { "Agreement of two sides' masks along a clip. A falling curve is an error that the \
             memory keeps."
            @if report.drift.iter().any(|curve| curve.teacher_forced) {
                " Teacher-forced curves (dashed) come from runs whose memories hold the \
                 reference's masks: their errors are not fed back."
            }
        }
        (draw(&figures.drift))
        (table("Mask IoU with the reference side", true, &heads(&["Model", "Side", "Frames", "Mean \
            IoU", "Lowest \
            IoU", "Lowest \
            mean at frame"], 2), &body))
    })
}

/// Longest and largest operations of every profile; `None` without one.
pub fn profiles(report: &Report) -> Option<Markup> {
    if report.nsys.is_empty() {
        return None;
    }
    Some(html! {
        @for profile in &report.nsys {
            h3 { (profile.name) }
            @for fault in &profile.faults { p { strong { "Do not use: " } (fault) } }
            p {
                "GPU busy " (percent(profile.gpu_util_percent)) " of the time; "
                "memory bandwidth over its peak: " (percent(profile.bandwidth_percent))
                @if profile.bandwidth_percent.is_none() {
                    " (" code { "segtrt profile --gpu-metrics all" } " records it, where the \
                        driver permits)"
                }
                "."
            }
            (by_time(profile))
            (by_memory(profile))
        }
    })
}

fn percent(value: Option<f64>) -> Markup {
    match value {
        Some(value) => html! { strong { (thousands(value, 1)) " %" } },
        None => html! { span.none { (NOT_MEASURED) } },
    }
}

fn by_time(profile: &NsysReport) -> Markup {
    let all = profile.by_time();
    let total: f64 = all.iter().filter_map(|op| op.total_ns).sum();
    let body = html! {
        @for op in all.iter().take(TOP) {
            tr {
                (named(op))
                (number(op.total_ns.map(|ns| ns / 1e6), 3, false))
                (number(op.total_ns.map(|ns| 100.0 * ns / total), 1, false))
                (number(op.count, 0, false))
            }
        }
    };
    lines(
        &all,
        "Longest operations on the GPU",
        &heads(&["Operation", "Table", "Time ms", "% of all", "Calls"], 2),
        body,
    )
}

fn by_memory(profile: &NsysReport) -> Markup {
    let all = profile.by_memory();
    let total: f64 = all.iter().filter_map(|op| op.bytes).sum();
    let body = html! {
        @for op in all.iter().take(TOP) {
            tr {
                (named(op))
                (number(op.bytes.map(|bytes| bytes / 1e6), 3, false))
                (number(op.bytes.map(|bytes| 100.0 * bytes / total), 1, false))
                (number(op.count, 0, false))
            }
        }
    };
    lines(
        &all,
        "Largest copies and fills",
        &heads(&["Operation", "Table", "MB", "% of all", "Calls"], 2),
        body,
    )
}

fn named(op: &NsysOperation) -> Markup {
    html! { th scope="row" { (op.name) } td { (op.table) } }
}

fn lines(all: &[&NsysOperation], caption: &str, head: &Markup, body: Markup) -> Markup {
    match all.len() {
        0 => html! { p.none { (caption) ": " (NOT_MEASURED) "." } },
        more => table(&format!("{caption}: {} of {more}", more.min(TOP)), true, head, &body),
    }
}
