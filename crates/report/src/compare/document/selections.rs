/*!
The part of `comparison.md` about the selection among candidate masks: on how many frames a side
selected another mask than the reference, and these frames. It is missing where no side stored it.
*/

use super::markdown::escape;
use crate::compare::iou_format;
use crate::compare::judge::{Comparison, Flip, Flips};

/// Frames listed for each side; `comparison.json` has more.
const LISTED: usize = 10;

/// Lines of Markdown; none if nothing is known.
pub(super) fn table(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rows = Vec::new();
    for model in &comparison.models {
        for side in &model.sides {
            let Some(flips) = side.chosen_mask_flips.as_ref().filter(|flips| flips.frames > 0)
            else {
                continue;
            };
            let who = format!("{}, {}", model.model, side.side);
            lines.push(format!("- {}: {}", escape(&who), count(flips)));
            rows.extend(flips.listed.iter().take(LISTED).map(|flip| row(&who, flip)));
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let head = "Frames on which a side selected another of the mask decoder's candidate masks than";
    lines.insert(0, format!("{head} {}:", comparison.reference));
    lines.insert(1, String::new());
    if !rows.is_empty() {
        lines.push(String::new());
        lines.push(
            "| model, side | clip | object | frame | mask | margin | IoU before | IoU |".into(),
        );
        lines.push("|---|---|---|--:|--:|--:|--:|--:|".into());
        lines.extend(rows);
        lines.push(String::new());
        lines.push(
            "Margin: the reference's predicted IoU of its mask minus its predicted IoU of the \
             side's mask. IoU before: on the previous frame."
                .into(),
        );
    }
    lines
}

fn count(flips: &Flips) -> String {
    let more = flips.flipped.saturating_sub(LISTED);
    let more = match more {
        0 => String::new(),
        more => format!(" ({more} not listed; see comparison.json)"),
    };
    format!("{} of {} frames{more}", flips.flipped, flips.frames)
}

fn row(who: &str, flip: &Flip) -> String {
    let number = |value: Option<f64>, format: &dyn Fn(f64) -> String| {
        value.map_or_else(|| "–".to_owned(), format)
    };
    let cells = [
        who.to_owned(),
        flip.video.clone(),
        flip.object.clone(),
        flip.frame.to_string(),
        format!("{} → {}", flip.reference, flip.side),
        number(flip.margin, &|margin| format!("{margin:.4}")),
        number(flip.iou_before, &iou_format::frame),
        number(flip.iou, &iou_format::frame),
    ];
    format!("| {} |", cells.map(|cell| escape(&cell)).join(" | "))
}
