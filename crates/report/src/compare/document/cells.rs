/*!
The cells of the comparison's table, which the screen and the Markdown file share.
*/

use crate::compare::iou_format;
use crate::compare::judge::{Comparison, ModelComparison, Ratio, SideReport};

/// A cell without a value.
pub(super) const NONE: &str = "-";

// Titles of columns that a narrow screen may leave out.
pub(super) const PRECISION: &str = "precision";
pub(super) const LATENCIES: &str = "p50 / p95 / p99 ms";
pub(super) const FIRST_FRAME: &str = "first frame ms";
pub(super) const SETUP: &str = "setup s";
pub(super) const COMPILE: &str = "compile s";
pub(super) const GPU_MEMORY: &str = "GPU MiB allocated / process";
pub(super) const ENERGY: &str = "J / frame";
pub(super) const TEACHER_FORCED: &str = "IoU teacher-forced";

/// Header and rows. Columns without a value in any row are omitted.
pub(super) fn cells(comparison: &Comparison) -> (Vec<String>, Vec<Vec<String>>) {
    let header = [
        "model".to_owned(),
        "side".to_owned(),
        PRECISION.to_owned(),
        "FPS".to_owned(),
        LATENCIES.to_owned(),
        FIRST_FRAME.to_owned(),
        SETUP.to_owned(),
        COMPILE.to_owned(),
        GPU_MEMORY.to_owned(),
        ENERGY.to_owned(),
        "IoU mean / lowest".to_owned(),
        TEACHER_FORCED.to_owned(),
        "J&F, % (difference)".to_owned(),
        "masks".to_owned(),
        format!("{} is … times as fast", comparison.subject),
        "verdict".to_owned(),
    ];
    let rows: Vec<Vec<String>> = comparison
        .models
        .iter()
        .flat_map(|model| model.sides.iter().map(move |side| row(model, side)))
        .collect();
    let shown: Vec<bool> =
        (0..header.len()).map(|column| rows.iter().any(|row| row[column] != NONE)).collect();
    let keep = |row: Vec<String>| -> Vec<String> {
        row.into_iter().zip(&shown).filter(|(_, shown)| **shown).map(|(cell, _)| cell).collect()
    };
    (keep(header.to_vec()), rows.into_iter().map(keep).collect())
}

fn row(model: &ModelComparison, side: &SideReport) -> Vec<String> {
    let ratio = ratio_of(model, side);
    let speed = side.speed.as_ref();
    let equality = side.equality.as_ref();
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.digits$}"))
    };
    let several = |values: &[Option<f64>], digits: usize| match values.iter().all(Option::is_none) {
        true => NONE.to_owned(),
        false => values.iter().map(|v| number(*v, digits)).collect::<Vec<_>>().join(" / "),
    };
    let text = |text: &str| if text.is_empty() { NONE.to_owned() } else { text.to_owned() };
    let verdict = ratio.map_or(&side.verdict, |ratio| &ratio.verdict).judgement;
    vec![
        model.model.clone(),
        side.side.clone(),
        text(&side.precision),
        number(speed.map(|s| s.fps), 2),
        several(
            &[
                speed.and_then(|s| s.p50_ms),
                speed.and_then(|s| s.p95_ms),
                speed.and_then(|s| s.p99_ms),
            ],
            2,
        ),
        number(speed.map(|s| s.first_frame_ms), 1),
        number(speed.and_then(|s| s.setup_ms).map(|ms| ms / 1000.0), 1),
        number(speed.and_then(|s| s.compile_s), 1),
        several(&[speed.and_then(|s| s.gpu_alloc_mib), speed.and_then(|s| s.gpu_process_mib)], 0),
        number(speed.and_then(|s| s.energy_j_per_frame), 3),
        equality.map_or_else(|| NONE.to_owned(), |e| iou_format::pair(e.mean_iou, e.min_iou)),
        side.teacher_forced
            .as_ref()
            .and_then(|t| Some((t.mean_iou?, t.min_iou?)))
            .map_or_else(|| NONE.to_owned(), |(mean, lowest)| iou_format::pair(mean, lowest)),
        equality.and_then(|e| e.scores).map_or_else(
            || NONE.to_owned(),
            |scores| format!("{:.2} ({:+.3})", scores.jf, scores.difference),
        ),
        side.outcome.as_str().to_owned(),
        ratio
            .and_then(|ratio| ratio.times_as_fast)
            .map_or_else(|| NONE.to_owned(), |factor| factor.text()),
        if speed.is_some() { verdict.as_str().to_owned() } else { NONE.to_owned() },
    ]
}

/// The subject against this side; none for the subject itself.
pub(super) fn ratio_of<'a>(model: &'a ModelComparison, side: &SideReport) -> Option<&'a Ratio> {
    let subject = &model.sides.first()?.side;
    model.ratios.iter().find(|ratio| ratio.baseline == side.side && ratio.subject == *subject)
}
