/*!
`comparison.csv` with a row for each model and side, and `comparison_drift.csv` with a row for each
point of the drift curves.
*/

use std::io::Write;

use anyhow::Result;

use super::cells::ratio_of;
use crate::compare::judge::{Comparison, Flips, ModelComparison, SideReport, Speed};

/// A column: name and value.
type Column = (&'static str, fn(&SideRow<'_>) -> Option<String>);

struct SideRow<'a> {
    model: &'a ModelComparison,
    side: &'a SideReport,
}

impl SideRow<'_> {
    /// A number of the published speed.
    fn speed(&self, get: impl Fn(&Speed) -> Option<f64>) -> Option<String> {
        Some(get(self.side.speed.as_ref()?)?.to_string())
    }
}

fn flips(flips: &Option<Flips>) -> Option<String> {
    flips.as_ref().filter(|flips| flips.frames > 0).map(|flips| flips.flipped.to_string())
}

const COLUMNS: [Column; 52] = [
    ("model", |r| Some(r.model.model.clone())),
    ("imgsz", |r| Some(r.model.imgsz.clone())),
    ("clips", |r| Some(r.model.clips.to_string())),
    ("objects", |r| Some(r.model.objects.to_string())),
    ("weights", |r| r.model.weights.clone()),
    ("side", |r| Some(r.side.side.clone())),
    ("masks", |r| Some(r.side.outcome.as_str().to_owned())),
    ("why", |r| r.side.why.clone()),
    ("precision", |r| Some(r.side.precision.clone())),
    ("backend", |r| Some(r.side.backend.clone())),
    ("device", |r| Some(r.side.device.clone())),
    ("rounds", |r| Some(r.side.rounds.to_string())),
    ("frames", |r| r.speed(|s| Some(s.frames as f64))),
    ("fps", |r| r.speed(|s| Some(s.fps))),
    ("latency_p50_ms", |r| r.speed(|s| s.p50_ms)),
    ("latency_p95_ms", |r| r.speed(|s| s.p95_ms)),
    ("latency_p99_ms", |r| r.speed(|s| s.p99_ms)),
    ("first_frame_ms", |r| r.speed(|s| Some(s.first_frame_ms))),
    ("setup_ms", |r| r.speed(|s| s.setup_ms)),
    ("compile_s", |r| r.speed(|s| s.compile_s)),
    ("gpu_peak_alloc_MiB", |r| r.speed(|s| s.gpu_alloc_mib)),
    ("gpu_peak_reserved_MiB", |r| r.speed(|s| s.gpu_process_mib)),
    ("cpu_peak_rss_MiB", |r| r.speed(|s| s.host_mib)),
    ("energy_j_per_frame", |r| r.speed(|s| s.energy_j_per_frame)),
    ("enqueue_ms", |r| r.speed(|s| s.enqueued.mean_ms)),
    ("launches", |r| r.speed(|s| s.enqueued.launches.map(|count| count as f64))),
    ("graph_launches", |r| r.speed(|s| s.enqueued.graph_launches.map(|count| count as f64))),
    ("compared_frames", |r| Some(r.side.equality.as_ref()?.frames.to_string())),
    ("counting_frames", |r| Some(r.side.equality.as_ref()?.counting.to_string())),
    ("both_empty_frames", |r| Some(r.side.equality.as_ref()?.both_empty.to_string())),
    ("iou_mean", |r| Some(r.side.equality.as_ref()?.mean_iou.to_string())),
    ("iou_lowest", |r| Some(r.side.equality.as_ref()?.min_iou.to_string())),
    ("original", |r| Some(r.side.as_original.as_ref()?.side.clone())),
    ("iou_mean_original", |r| Some(r.side.as_original.as_ref()?.equality.mean_iou.to_string())),
    ("iou_lowest_original", |r| Some(r.side.as_original.as_ref()?.equality.min_iou.to_string())),
    ("iou_mean_teacher_forced", |r| Some(r.side.teacher_forced.as_ref()?.mean_iou?.to_string())),
    ("iou_lowest_teacher_forced", |r| Some(r.side.teacher_forced.as_ref()?.min_iou?.to_string())),
    ("worst_video", |r| Some(r.side.equality.as_ref()?.worst.as_ref()?.video.clone())),
    ("worst_object", |r| Some(r.side.equality.as_ref()?.worst.as_ref()?.object.clone())),
    ("worst_frame", |r| Some(r.side.equality.as_ref()?.worst.as_ref()?.frame.to_string())),
    ("JandF", |r| Some(r.side.equality.as_ref()?.scores?.jf.to_string())),
    ("JandF_reference", |r| Some(r.side.equality.as_ref()?.scores?.reference_jf.to_string())),
    ("JandF_difference", |r| Some(r.side.equality.as_ref()?.scores?.difference.to_string())),
    ("objectness_flips", |r| flips(&r.side.objectness_flips)),
    ("chosen_mask_flips", |r| flips(&r.side.chosen_mask_flips)),
    ("subject", |r| Some(ratio_of(r.model, r.side)?.subject.clone())),
    ("subject_times_as_fast", |r| {
        Some(ratio_of(r.model, r.side)?.times_as_fast?.ratio.to_string())
    }),
    ("interval_low", |r| Some(ratio_of(r.model, r.side)?.times_as_fast?.interval?.low.to_string())),
    ("interval_high", |r| {
        Some(ratio_of(r.model, r.side)?.times_as_fast?.interval?.high.to_string())
    }),
    ("subject_times_as_fast_at_least", |r| Some(ratio_of(r.model, r.side)?.at_least?.to_string())),
    ("verdict", |r| {
        let verdict = ratio_of(r.model, r.side).map_or(&r.side.verdict, |ratio| &ratio.verdict);
        Some(verdict.judgement.as_str().to_owned())
    }),
    ("verdict_reason", |r| {
        ratio_of(r.model, r.side).map_or(&r.side.verdict, |ratio| &ratio.verdict).reason()
    }),
];

/// Writes `comparison.csv`. Scores are points of 100.
pub(super) fn write(out: &mut impl Write, comparison: &Comparison) -> Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS.map(|(name, _)| name))?;
    for model in &comparison.models {
        for side in &model.sides {
            let row = SideRow { model, side };
            csv.write_record(COLUMNS.map(|(_, value)| value(&row).unwrap_or_default()))?;
        }
    }
    Ok(csv.flush()?)
}

/// Writes `comparison_drift.csv`.
pub(super) fn write_drift(out: &mut impl Write, comparison: &Comparison) -> Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["model", "side", "memory", "frame", "iou", "iou_lowest", "objects"])?;
    for curve in &comparison.drift_curves {
        for (at, frame) in curve.frame.iter().enumerate() {
            csv.write_record([
                curve.model.clone(),
                curve.side.clone(),
                curve.memory.to_owned(),
                frame.to_string(),
                curve.iou[at].to_string(),
                curve.lowest[at].to_string(),
                curve.objects[at].to_string(),
            ])?;
        }
    }
    Ok(csv.flush()?)
}
