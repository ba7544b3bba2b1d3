/*!
The table at the end of a bench: one line a model, means over its objects.
*/

use serde::Serialize;

use host::screen_table::{self, number};
use vos::metrics::MetricsKind;
use vos::record::{Judgement, Measured, SummaryRecord};
use vos::stats;

/// One model; numbers are means over the objects that were measured, and absent where none has one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its tag.
    pub model: String,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// `fp32` or `fp16`.
    pub precision: String,
    /// Rows, measured or not.
    pub objects: usize,
    /// Rows with numbers.
    pub measured: usize,
    /// Rows whose speed may be believed.
    pub valid: usize,
    /// Frames per second.
    pub fps: Option<f64>,
    /// Median latency of the frames after the first, ms.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the same, ms.
    pub p95_ms: Option<f64>,
    /// Latency of the prompted frame, ms.
    pub first_frame_ms: Option<f64>,
    /// Rules of J and F.
    #[serde(skip)]
    pub metrics: MetricsKind,
    /// Region similarity, 0..1.
    pub j: Option<f64>,
    /// Boundary accuracy, 0..1.
    pub f: Option<f64>,
    /// Their mean, 0..1.
    pub jf: Option<f64>,
    /// Most resident memory of the process, MiB.
    pub cpu_peak_rss_mib: Option<f64>,
}

/// The models in the order in which they first appear.
pub fn lines<'a>(rows: impl Iterator<Item = &'a SummaryRecord>) -> Vec<Line> {
    let mut models: Vec<(&str, Vec<&SummaryRecord>)> = Vec::new();
    for row in rows {
        let model = row.pooled.key.tag.as_str();
        match models.iter_mut().find(|(known, _)| *known == model) {
            Some((_, rows)) => rows.push(row),
            None => models.push((model, vec![row])),
        }
    }
    models.into_iter().map(|(model, rows)| line(model, &rows)).collect()
}

fn line(model: &str, rows: &[&SummaryRecord]) -> Line {
    let numbers: Vec<&Measured> = rows.iter().filter_map(|row| row.pooled.numbers()).collect();
    let mean = |pick: &dyn Fn(&Measured) -> Option<f64>| {
        stats::mean(&numbers.iter().filter_map(|m| pick(m)).collect::<Vec<_>>())
    };
    let valid = rows.iter().filter(|row| row.pooled.verdict.judgement == Judgement::Valid).count();
    let conditions = &rows[0].pooled.conditions;
    Line {
        model: model.to_owned(),
        imgsz: conditions.imgsz,
        precision: conditions.precision.to_string(),
        objects: rows.len(),
        measured: numbers.len(),
        valid,
        fps: mean(&|m| Some(m.speed.fps)),
        p50_ms: mean(&|m| m.speed.later_frames.map(|p| p.p50_ms)),
        p95_ms: mean(&|m| m.speed.later_frames.map(|p| p.p95_ms)),
        first_frame_ms: mean(&|m| Some(m.speed.first_frame_ms)),
        metrics: conditions.metrics,
        j: mean(&|m| m.quality.map(|q| q.j)),
        f: mean(&|m| m.quality.map(|q| q.f)),
        jf: mean(&|m| m.quality.map(|q| q.jf)),
        cpu_peak_rss_mib: mean(&|m| m.memory.cpu_peak_rss_mib),
    }
}

/// "J&F, %" with the rules of these lines.
pub fn quality_heading<'a>(lines: impl IntoIterator<Item = &'a Line>) -> String {
    match lines.into_iter().next() {
        Some(line) => format!("J&F, % ({} rules)", line.metrics.as_str()),
        None => "J&F, %".to_owned(),
    }
}

/// A share as percent with two decimals; a dash for none.
pub fn percent(share: Option<f64>) -> String {
    number(share.map(|share| 100.0 * share), 2)
}

/// The lines for a terminal.
pub fn render(lines: &[Line]) -> String {
    let mut table = screen_table::table(
        [
            "model",
            "imgsz",
            "precision",
            "objects",
            "fps",
            "p50 ms",
            "p95 ms",
            "first ms",
            "J, %",
            "F, %",
            &quality_heading(lines),
            "peak RSS MiB",
            "valid",
        ],
        1..13,
    )
    .optional([9, 8, 11, 7, 6, 2, 1]);
    for line in lines {
        table.add_row([
            line.model.clone(),
            line.imgsz.to_string(),
            line.precision.clone(),
            format!("{}/{}", line.measured, line.objects),
            number(line.fps, 2),
            number(line.p50_ms, 1),
            number(line.p95_ms, 1),
            number(line.first_frame_ms, 1),
            percent(line.j),
            percent(line.f),
            percent(line.jf),
            number(line.cpu_peak_rss_mib, 0),
            format!("{}/{}", line.valid, line.measured),
        ]);
    }
    table.to_string()
}
