/*!
Drift curves: mask IoU against frame index, one plot for each model and input size of a comparison.
*/

use super::{CURVES, listed, part_name, part_title, slug};
use crate::chart::{Guide, Line, Lines, Plot, Style, lines};
use crate::content::Report;
use crate::input::DriftCurve;

/// Curves of more points than this are thinned.
const POINTS: usize = 500;

/// The plots of every comparison.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    let mut subjects: Vec<(&str, &str, &str)> = Vec::new();
    for curve in &report.drift {
        if !subjects.contains(&subject(curve)) {
            subjects.push(subject(curve));
        }
    }
    let mut plots: Vec<Plot> = Vec::new();
    for (comparison, model, imgsz) in &subjects {
        let alone =
            subjects.iter().filter(|other| (other.1, other.2) == (*model, *imgsz)).count() == 1;
        let words = [*model, *imgsz, if alone { "" } else { *comparison }];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let own = slug(&words.join("_"));
        let name = if own.is_empty() { "drift".to_owned() } else { format!("drift_{own}") };
        let of = if words.is_empty() { "all models".to_owned() } else { words.join(" · ") };
        let curves: Vec<&DriftCurve> = report
            .drift
            .iter()
            .filter(|curve| subject(curve) == (*comparison, *model, *imgsz))
            .collect();
        let limit = limit(report, comparison, model, imgsz);
        // The free and the teacher-forced curve of a side stay together.
        let parts: Vec<_> = curves.chunks(2 * CURVES).collect();
        for (part, curves) in parts.iter().enumerate() {
            let title = part_title(&format!("Drift: {of}"), part, parts.len());
            plots.extend(lines(curves_of(style, part_name(&name, part), title, curves, limit)));
        }
    }
    plots
}

fn subject(curve: &DriftCurve) -> (&str, &str, &str) {
    (&curve.comparison, &curve.model, &curve.imgsz)
}

/// The strictest limit of any side's lowest IoU that this comparison's 16-bit sides must hold.
fn limit(report: &Report, comparison: &str, model: &str, imgsz: &str) -> Option<f64> {
    let of = report.compared.iter().find(|compared| {
        (compared.comparison.as_str(), compared.model.as_str(), compared.imgsz.as_str())
            == (comparison, model, imgsz)
    })?;
    of.sides.first()?.iou_limit
}

fn curves_of(
    style: Style,
    name: String,
    title: String,
    curves: &[&DriftCurve],
    limit: Option<f64>,
) -> Lines {
    let side = |curve: &DriftCurve| {
        let side = if curve.name.is_empty() { "side not named" } else { &curve.name };
        if curve.teacher_forced { format!("{side}, teacher-forced") } else { side.to_owned() }
    };
    let lowest = |curve: &DriftCurve| curve.iou.iter().copied().fold(f64::INFINITY, f64::min);
    let descriptions = curves.iter().map(|curve| {
        format!("{}: lowest IoU {:.4} over {} frames", side(curve), lowest(curve), curve.iou.len())
    });
    let alt =
        format!("Mask IoU with the reference against the frame's index. {}.", listed(descriptions));
    let mut notes = Vec::new();
    let lines: Vec<Line> = curves
        .iter()
        .map(|curve| {
            let points: Vec<(f64, f64)> =
                curve.frame.iter().copied().zip(curve.iou.iter().copied()).collect();
            let each = points.len().div_ceil(POINTS).max(1);
            if each > 1 {
                notes.push(format!(
                    "{}: of every {each} frames, the frame with the lowest IoU is drawn.",
                    side(curve)
                ));
            }
            let lowest =
                |part: &[(f64, f64)]| part.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
            // In the colour of the same side's free run.
            let free = |other: &&DriftCurve| !other.teacher_forced && other.side == curve.side;
            let like = curves.iter().position(free).filter(|_| curve.teacher_forced);
            Line {
                label: side(curve),
                colour: Some(curve.series),
                like,
                points: points.chunks(each).filter_map(lowest).collect(),
                ..Line::default()
            }
        })
        .collect();
    // The axis shows the whole way from the limit to 1; otherwise rounding would look like a fall.
    let least = curves.iter().map(|curve| lowest(curve)).fold(f64::INFINITY, f64::min);
    let ends = limit.map(|limit| {
        let low = least.min(limit);
        (low - 0.1 * (1.0 - low), 1.0)
    });
    Lines {
        style,
        name,
        title,
        alt,
        x: "frame".to_owned(),
        y: "mask IoU".to_owned(),
        y_ends: ends,
        // Dashes mark teacher-forced curves, so colours and markers distinguish sides.
        busy: curves.iter().any(|curve| curve.teacher_forced),
        guides: limit
            .map(|y| Guide { y, label: format!("limit of a frame {y}") })
            .into_iter()
            .collect(),
        lines,
        notes,
        ..Lines::default()
    }
}
