/*!
Sections that compare: platforms or runs, drift of masks, profiles.
*/

use maud::{Markup, html};

use super::part::Part;
use super::plots::figures as draw;
use crate::chart::thousands;
use crate::content::Report;
use crate::data::{PlaceKind, PlatformCell, PlatformLine};
use crate::figures::Figures;
use crate::input::NsysOperation;
use crate::table::{Cell, NOT_MEASURED, Table};

/// Number of operations shown of a profile.
const TOP: usize = 10;

/// A line for each model, a column for each platform or run; none with a single one. Sides of
/// comparisons are compared by the comparison.
pub fn platforms(report: &Report, figures: &Figures) -> Vec<Part> {
    let all = &report.platforms;
    if all.lines.is_empty() || all.kind == PlaceKind::Side {
        return Vec::new();
    }
    let kind = all.kind.lower();
    let mut heads = vec!["Model"];
    heads.extend(all.platforms.iter().map(String::as_str));
    let caption = format!("FPS; in brackets the ratio to the first {kind}");
    let mut table = Table::new("platforms", &caption, &heads, 1);
    for line in &all.lines {
        let mut cells = vec![match line.same_objects {
            true => Cell::text(&line.name),
            false => Cell::text(&line.name).with("other clips, so no ratio"),
        }];
        cells.extend(line.cells.iter().map(|of| cell(report, line, of)));
        table.push(cells, false);
    }
    let none = html! {
        @if figures.platforms.is_empty() {
            p.none { "No model was measured in two " (kind) "s on the same clips under the same conditions." }
        }
    };
    vec![Part::Html(html! { (draw(&figures.platforms)) (none) }), Part::Table(table)]
}

fn cell(report: &Report, line: &PlatformLine, cells: &[PlatformCell]) -> Cell {
    let [first, ..] = cells else { return Cell::missing(NOT_MEASURED) };
    let one = |cell: &PlatformCell| {
        let group = &report.groups[cell.group];
        let mut text = cell.fps.map_or_else(|| NOT_MEASURED.to_owned(), |fps| thousands(fps, 2));
        if group.invalid {
            text += " INVALID";
        }
        if let Some(times) = cell.times_first {
            text += &format!(" ({} ×)", thousands(times, 2));
        }
        if cells.len() > 1 && group.name != line.name {
            text += &format!(" {}", group.name);
        }
        text
    };
    let struck = cells.len() == 1 && report.groups[first.group].invalid;
    let texts: Vec<String> = cells.iter().map(one).collect();
    Cell { struck, ..Cell::right(texts.join("; "), first.fps) }
}

/// Curves of every comparison; none without one.
pub fn drift(report: &Report, figures: &Figures) -> Vec<Part> {
    if report.drift.is_empty() {
        return Vec::new();
    }
    let heads = ["Model", "Side", "Frames", "Mean IoU", "Lowest IoU", "Lowest mean at frame"];
    let mut table = Table::new("drift", "Mask IoU with the reference side", &heads, 2);
    for curve in &report.drift {
        let worst = curve.iou.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let side = if curve.teacher_forced {
            format!("{}, teacher-forced", curve.name)
        } else {
            curve.name.clone()
        };
        let model = match curve.imgsz.is_empty() {
            true => curve.model.clone(),
            false => format!("{} · {} px", curve.model, curve.imgsz),
        };
        let cells = vec![
            Cell::text(model),
            Cell { series: Some(curve.series), ..Cell::text(side) },
            Cell::number(Some(curve.iou.len() as f64), 0, false),
            Cell::number(vos::stats::mean(&curve.iou), 6, false),
            Cell::number(curve.lowest.or(worst.map(|(_, iou)| iou)), 6, false),
            Cell::number(worst.map(|(at, _)| curve.frame[at]), 0, false),
        ];
        table.push(cells, false);
    }
    let words = html! {
        p { "Agreement of two sides' masks along a clip. A falling curve is an error that the memory keeps."
            @if report.drift.iter().any(|curve| curve.teacher_forced) {
                " Teacher-forced curves (dashed) come from runs whose memories hold the reference's \
                 masks: their errors are not fed back."
            }
        }
        (draw(&figures.drift))
    };
    vec![Part::Html(words), Part::Table(table)]
}

/// Longest and largest operations of every profile; none without one.
pub fn profiles(report: &Report) -> Vec<Part> {
    let mut parts = Vec::new();
    for (at, profile) in report.nsys.iter().enumerate() {
        parts.push(Part::Html(html! {
            h3 { (profile.name) }
            @for fault in &profile.faults { p { strong { "Do not use: " } (fault) } }
            p {
                "GPU busy " (percent(profile.gpu_util_percent)) " of the time; "
                "memory bandwidth over its peak: " (percent(profile.bandwidth_percent))
                @if profile.bandwidth_percent.is_none() {
                    " (" code { "segtrt profile --gpu-metrics all" } " records it, where the driver permits)"
                }
                "."
            }
        }));
        let of = format!("profile_{}", at + 1);
        parts.push(operations(
            &format!("{of}_time"),
            "Longest operations on the GPU",
            ["Time ms", "% of all", "Calls"],
            &profile.by_time(),
            |op| op.total_ns,
        ));
        parts.push(operations(
            &format!("{of}_memory"),
            "Largest copies and fills",
            ["MB", "% of all", "Calls"],
            &profile.by_memory(),
            |op| op.bytes,
        ));
    }
    parts
}

fn percent(value: Option<f64>) -> Markup {
    match value {
        Some(value) => html! { strong { (thousands(value, 1)) " %" } },
        None => html! { span.none { (NOT_MEASURED) } },
    }
}

/// The first operations of a list with their share; `value` is in ns or bytes, shown in millions.
fn operations(
    name: &str,
    caption: &str,
    [unit, share, calls]: [&str; 3],
    all: &[&NsysOperation],
    value: fn(&NsysOperation) -> Option<f64>,
) -> Part {
    if all.is_empty() {
        return Part::Html(html! { p.none { (caption) ": " (NOT_MEASURED) "." } });
    }
    let caption = format!("{caption}: {} of {}", all.len().min(TOP), all.len());
    let mut table = Table::new(name, &caption, &["Operation", "Table", unit, share, calls], 2);
    let total: f64 = all.iter().filter_map(|op| value(op)).sum();
    for op in all.iter().take(TOP) {
        let cells = vec![
            Cell::text(&op.name),
            Cell::text(&op.table),
            Cell::number(value(op).map(|value| value / 1e6), 3, false),
            Cell::number(value(op).map(|value| 100.0 * value / total), 1, false),
            Cell::number(op.count, 0, false),
        ];
        table.push(cells, false);
    }
    Part::Table(table)
}
