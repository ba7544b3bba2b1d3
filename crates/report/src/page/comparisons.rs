/*!
Sections that compare: platforms or runs, and drift of masks.
*/

use maud::html;

use super::part::Part;
use super::plots::figures as draw;
use crate::chart::thousands;
use crate::content::Report;
use crate::data::{PlaceKind, PlatformCell, PlatformLine};
use crate::figures::Figures;
use crate::table::{Cell, NOT_MEASURED, Table};

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
