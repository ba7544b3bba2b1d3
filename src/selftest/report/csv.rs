/*!
The rows as CSV: one line an output, empty fields where something was not measured.
*/

use std::path::Path;

use anyhow::Result;

use crate::selftest::{Difference, EngineRow, Judged, Timing};
use vos::bundle::Role;
use vos::files::atomic;

/// A column: its name and what fills it.
type Column = (&'static str, fn(&EngineRow) -> String);

const COLUMNS: [Column; 30] = [
    ("platform", |r| r.engine.platform.clone()),
    ("model", |r| r.engine.model.clone()),
    ("imgsz", |r| r.engine.imgsz.to_string()),
    ("precision", |r| r.engine.precision.to_string()),
    ("role", |r| r.role.map_or_else(String::new, |role: Role| role.name().to_owned())),
    ("profile", |r| text(r.profile)),
    ("case", |r| r.case.clone()),
    ("seed", |r| text(r.seed)),
    ("output", |r| r.output.as_ref().map_or_else(String::new, |o| o.output.clone())),
    ("elements", |r| output(r, |o| Some(o.elements))),
    ("relative_error", |r| output(r, |o| difference(o)?.relative)),
    ("max_abs_error", |r| output(r, |o| difference(o)?.max_abs)),
    ("error_limit", |r| output(r, |o| Some(o.limit))),
    ("mask_iou", |r| output(r, |o| o.mask_iou)),
    ("non_finite", |r| output(r, |o| Some(o.non_finite))),
    ("unwritten", |r| output(r, |o| Some(o.unwritten))),
    ("runs", |r| time(r.cost.enqueue, |t| t.runs)),
    ("enqueue_median_ms", |r| time(r.cost.enqueue, |t| t.median_ms)),
    ("enqueue_p5_ms", |r| time(r.cost.enqueue, |t| t.p5_ms)),
    ("enqueue_p95_ms", |r| time(r.cost.enqueue, |t| t.p95_ms)),
    ("graph_median_ms", |r| time(r.cost.graph, |t| t.median_ms)),
    ("graph_p5_ms", |r| time(r.cost.graph, |t| t.p5_ms)),
    ("graph_p95_ms", |r| time(r.cost.graph, |t| t.p95_ms)),
    ("graph_problem", |r| r.cost.graph_problem.clone().unwrap_or_default()),
    ("context_bytes", |r| text(r.cost.context_bytes)),
    ("engine_bytes", |r| text(r.cost.engine_bytes)),
    ("verdict", |r| r.verdict.word().to_owned()),
    ("reason", |r| r.reason.clone().unwrap_or_default()),
    ("engines", |r| r.engine.dir.clone()),
    ("plan", |r| r.plan.clone().unwrap_or_default()),
];

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn output<T: ToString>(row: &EngineRow, get: impl Fn(&Judged) -> Option<T>) -> String {
    text(row.output.as_ref().and_then(get))
}

fn difference(judged: &Judged) -> Option<Difference> {
    judged.difference
}

fn time<T: ToString>(timing: Option<Timing>, get: impl Fn(Timing) -> T) -> String {
    text(timing.map(get))
}

/// Writes the rows to `path`, whole or not at all.
pub fn write(path: &Path, rows: &[EngineRow]) -> Result<()> {
    atomic::write(path, |out| {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(COLUMNS.iter().map(|(name, _)| name))?;
        for row in rows {
            writer.write_record(COLUMNS.iter().map(|(_, cell)| cell(row)))?;
        }
        Ok(writer.flush()?)
    })
}
