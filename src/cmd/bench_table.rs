/*!
The table at the end of a bench: one line a model, means over its objects.
*/

use comfy_table::{CellAlignment, Table, presets};

use crate::record::{Judgement, Measured, SummaryRecord};
use crate::stats;

/// Renders the models in the order in which they first appear.
pub fn render<'a>(rows: impl Iterator<Item = &'a SummaryRecord>) -> String {
    let rows: Vec<_> = rows.collect();
    let mut models: Vec<&str> = Vec::new();
    for row in &rows {
        let model = row.pooled.key.model.as_str();
        if !models.contains(&model) {
            models.push(model);
        }
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "model",
        "imgsz",
        "precision",
        "objects",
        "fps",
        "p50 ms",
        "p95 ms",
        "first ms",
        "J",
        "F",
        "J&F",
        "peak RSS MiB",
        "valid",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for model in models {
        let of_model: Vec<_> = rows.iter().filter(|row| row.pooled.key.model == model).collect();
        let numbers: Vec<&Measured> =
            of_model.iter().filter_map(|row| row.pooled.numbers()).collect();
        let mean = |digits: usize, pick: &dyn Fn(&Measured) -> Option<f64>| {
            let values: Vec<f64> = numbers.iter().filter_map(|m| pick(m)).collect();
            stats::mean(&values).map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"))
        };
        let valid =
            of_model.iter().filter(|row| row.pooled.verdict.judgement == Judgement::Valid).count();
        let conditions = &of_model[0].pooled.conditions;
        table.add_row([
            model.to_owned(),
            conditions.imgsz.to_string(),
            conditions.precision.clone(),
            format!("{}/{}", numbers.len(), of_model.len()),
            mean(2, &|m| Some(m.speed.fps)),
            mean(1, &|m| m.speed.later_frames.map(|p| p.p50_ms)),
            mean(1, &|m| m.speed.later_frames.map(|p| p.p95_ms)),
            mean(1, &|m| Some(m.speed.first_frame_ms)),
            mean(4, &|m| m.quality.map(|q| q.j)),
            mean(4, &|m| m.quality.map(|q| q.f)),
            mean(4, &|m| m.quality.map(|q| q.jf)),
            mean(0, &|m| m.memory.cpu_peak_rss_mib),
            format!("{}/{}", valid, numbers.len()),
        ]);
    }
    table.to_string()
}
