/*!
A table as a list of columns, each a name and the function that fills it, so that a header always
matches its rows; and the columns that all tables share.
*/

use std::io::Write;

use crate::stage::Stage;
use anyhow::Result;

use super::python_format::{Cell, write_csv_row};
use crate::record::{
    Backend, Conditions, FrameTransfer, Limits, Measured, Observed, Percentiles, ProfiledStages,
    Quality, RunRecord, SourceAges, Verdict,
};

/// One column of a table.
pub(super) type Column = (&'static str, fn(&TableRow<'_>) -> Cell);

/// One line of a CSV: a pass, or the passes of one object together.
pub(super) struct TableRow<'a> {
    pub record: &'a RunRecord,
    /// Number of ok passes.
    pub runs: usize,
}

impl TableRow<'_> {
    /// A number of an ok pass, rounded to `digits` decimals; empty for any other.
    pub(super) fn number(&self, digits: usize, get: impl Fn(&Measured) -> Option<f64>) -> Cell {
        Cell::rounded(self.record.numbers().and_then(get), digits)
    }

    fn quality(&self, get: impl Fn(Quality) -> f64) -> Cell {
        self.number(4, |m| m.quality.map(&get))
    }

    fn later(&self, get: impl Fn(Percentiles) -> f64) -> Cell {
        self.number(NEW_MS_DIGITS, |m| m.speed.later_frames.map(&get))
    }

    fn age(&self, get: impl Fn(SourceAges) -> f64) -> Cell {
        self.number(NEW_MS_DIGITS, |m| m.speed.source_ages.map(&get))
    }

    fn end_to_end(&self, get: impl Fn(Percentiles) -> f64) -> Cell {
        self.number(NEW_MS_DIGITS, |m| m.speed.end_to_end.map(&get))
    }

    fn stage(&self, stage: Stage) -> Cell {
        self.number(NEW_MS_DIGITS, |m| m.stages[stage])
    }

    fn profiled(&self, get: impl Fn(&ProfiledStages) -> Option<f64>) -> Cell {
        Cell::rounded(self.record.profiled.as_ref().and_then(get), NEW_MS_DIGITS)
    }

    /// A number of a frame that is counted and not measured.
    fn frame_count(&self, get: impl Fn(&Measured) -> Option<u64>) -> Cell {
        let count = self.record.numbers().and_then(get);
        Cell::count(count.and_then(|count| usize::try_from(count).ok()))
    }

    fn sensor(&self, digits: usize, get: impl Fn(&Observed) -> Option<f64>) -> Cell {
        self.number(digits, |m| m.observed.as_ref().and_then(&get))
    }

    /// The verdict of an ok pass; other passes have no speed to judge.
    fn verdict(&self) -> Verdict {
        self.record.numbers().map(|_| self.record.verdict.clone()).unwrap_or_default()
    }

    fn condition(&self, text: &str) -> Cell {
        Cell::text((!text.is_empty()).then_some(text))
    }
}

/// Decimals of shares of the roofline, which may be a few percent.
const ROOFLINE_DIGITS: usize = 4;

/// Decimals of other shares.
const SHARE_DIGITS: usize = 3;

/// Decimals of times that the predecessor did not have: GPU stages are far below 0.1 ms.
const NEW_MS_DIGITS: usize = 3;

/// Writes the header and all rows.
pub(super) fn write_table<'a>(
    out: &mut impl Write,
    columns: &[&[Column]],
    rows: impl IntoIterator<Item = TableRow<'a>>,
) -> Result<()> {
    let columns: Vec<&Column> = columns.iter().copied().flatten().collect();
    write_csv_row(out, columns.iter().map(|(name, _)| name))?;
    for row in rows {
        write_csv_row(out, columns.iter().map(|(_, cell)| cell(&row).to_string()))?;
    }
    Ok(())
}

pub(super) const VIDEO: Column = ("video", |r| Cell::Text(r.record.key.video.clone()));
pub(super) const OBJECT: Column = ("object", |r| Cell::Text(r.record.key.object.clone()));
pub(super) const MODEL: Column = ("model", |r| Cell::Text(r.record.key.tag.clone()));
pub(super) const IMGSZ: Column = ("imgsz", |r| Cell::count(Some(r.record.conditions.imgsz)));
pub(super) const PRECISION: Column =
    ("precision", |r| r.condition(r.record.conditions.precision.name()));
pub(super) const FRAMES: Column = ("frames", |r| Cell::count(r.record.frames));
pub(super) const FPS: Column = ("fps", |r| r.number(2, |m| Some(m.speed.fps)));
pub(super) const LATENCY: Column = ("latency_ms", |r| r.number(1, |m| Some(m.speed.latency_ms)));
pub(super) const GPU_ALLOC: Column =
    ("gpu_peak_alloc_MiB", |r| r.number(1, |m| m.memory.gpu_peak_alloc_mib));
pub(super) const GPU_RESERVED: Column =
    ("gpu_peak_reserved_MiB", |r| r.number(1, |m| m.memory.gpu_peak_reserved_mib));
pub(super) const CPU_RSS: Column =
    ("cpu_peak_rss_MiB", |r| r.number(1, |m| m.memory.cpu_peak_rss_mib));
pub(super) const SETUP: Column = ("setup_ms", |r| r.number(2, |m| m.setup_ms));

pub(super) const SCORED_FRAMES: Column = ("scored_frames", |r| {
    Cell::count(r.record.numbers().and_then(|m| Some(m.quality?.scored_frames)))
});

/// J, F and their mean, 0..1.
pub(super) const QUALITY: [Column; 3] = [
    ("J", |r| r.quality(|q| q.j)),
    ("F", |r| r.quality(|q| q.f)),
    ("JandF", |r| r.quality(|q| q.jf)),
];

/// New columns before the metric's name.
pub(super) const OUTCOME: [Column; 7] = [
    ("status", |r| Cell::Text(r.record.status.as_str().into())),
    ("reason", |r| Cell::text(r.record.reason.as_deref())),
    ("backend", |r| {
        Cell::text(r.record.conditions.backend.as_ref().map(Backend::to_string).as_deref())
    }),
    ("device", |r| r.condition(&r.record.conditions.device)),
    ("geometry", |r| r.condition(r.record.conditions.geometry.name())),
    ("prompt_policy", |r| r.condition(r.record.conditions.prompt_policy.name())),
    ("metrics", |r| r.condition(r.record.conditions.metrics.as_str())),
];

/// The column of a stage, by its place among [`Stage::ALL`].
const fn stage<const AT: usize>() -> Column {
    (Stage::ALL[AT].column(), |r| r.stage(Stage::ALL[AT]))
}

/// New columns after it.
pub(super) const DETAIL: [Column; 18] = [
    SCORED_FRAMES,
    ("runs", |r| Cell::count(r.record.numbers().map(|_| r.runs))),
    ("first_frame_ms", |r| r.number(NEW_MS_DIGITS, |m| Some(m.speed.first_frame_ms))),
    ("latency_p50_ms", |r| r.later(|p| p.p50_ms)),
    ("latency_p90_ms", |r| r.later(|p| p.p90_ms)),
    ("latency_p95_ms", |r| r.later(|p| p.p95_ms)),
    ("latency_p99_ms", |r| r.later(|p| p.p99_ms)),
    ("latency_max_ms", |r| r.later(|p| p.max_ms)),
    stage::<0>(),
    stage::<1>(),
    stage::<2>(),
    stage::<3>(),
    stage::<4>(),
    stage::<5>(),
    stage::<6>(),
    stage::<7>(),
    stage::<8>(),
    ("fidelity", |r| Cell::text(r.record.conditions.fidelity().as_deref())),
];

/// New columns of GPU times and sensors, and the verdict.
pub(super) const BELIEF: [Column; 12] = [
    ("gpu_ms", |r| r.number(NEW_MS_DIGITS, |m| m.gpu_ms)),
    ("residue_ms", |r| r.number(NEW_MS_DIGITS, |m| m.residue_ms)),
    ("power_w", |r| r.sensor(1, |seen| seen.power_mean_w)),
    ("energy_j_per_frame", |r| r.number(4, |m| m.observed?.energy_per_frame_j(m.speed.frames))),
    ("sm_clock_mhz_min", |r| r.sensor(1, |seen| seen.sm_clock_min_mhz)),
    ("sm_clock_mhz_mean", |r| r.sensor(1, |seen| seen.sm_clock_mean_mhz)),
    ("temperature_c_max", |r| r.sensor(1, |seen| seen.temperature_max_c)),
    ("gpu_util", |r| r.sensor(1, |seen| seen.utilisation_percent)),
    ("throttle", |r| {
        let limits = r.record.numbers().and_then(|m| m.observed?.limits);
        Cell::text(limits.map(Limits::text).as_deref())
    }),
    ("verdict", |r| Cell::Text(r.verdict().judgement.as_str().into())),
    ("verdict_reason", |r| Cell::text(r.verdict().reason().as_deref())),
    ("latency_p999_ms", |r| {
        r.number(NEW_MS_DIGITS, |m| m.speed.later_frames.and_then(|later| later.p999_ms))
    }),
];

const fn roofline<const AT: usize>(name: &'static str) -> Column {
    (name, |r| {
        let stage = Stage::ALL[AT];
        r.number(ROOFLINE_DIGITS, |m| {
            Some(m.least[stage]? / m.stages[stage].filter(|ms| *ms > 0.0)?)
        })
    })
}

/// New columns of the share of the roofline that each stage of the network reaches, 0..1.
pub(super) const ROOFLINE: [Column; 4] = [
    roofline::<{ Stage::Encoder as usize }>("encoder_roofline"),
    roofline::<{ Stage::Prompt as usize }>("prompt_roofline"),
    roofline::<{ Stage::Track as usize }>("track_roofline"),
    roofline::<{ Stage::Memory as usize }>("memory_roofline"),
];

/// The columns of a stage's percentiles, by its place among [`Stage::ALL`].
const fn percentiles<const AT: usize>() -> [Column; 2] {
    [
        (Stage::ALL[AT].p50_column(), |r| {
            r.number(NEW_MS_DIGITS, |m| m.stage_percentiles.p50[Stage::ALL[AT]])
        }),
        (Stage::ALL[AT].p99_column(), |r| {
            r.number(NEW_MS_DIGITS, |m| m.stage_percentiles.p99[Stage::ALL[AT]])
        }),
    ]
}

/// New columns of the stages' percentiles; the prompted frame counts for the prompt only.
pub(super) const PERCENTILES: [[Column; 2]; 9] = [
    percentiles::<0>(),
    percentiles::<1>(),
    percentiles::<2>(),
    percentiles::<3>(),
    percentiles::<4>(),
    percentiles::<5>(),
    percentiles::<6>(),
    percentiles::<7>(),
    percentiles::<8>(),
];

/// New columns of the host's calls for a tracked frame, and of the kernels that they enqueue.
pub(super) const ENQUEUED: [Column; 4] = [
    ("enqueue_ms", |r| r.number(NEW_MS_DIGITS, |m| m.enqueued.mean_ms)),
    ("enqueue_p99_ms", |r| r.number(NEW_MS_DIGITS, |m| m.enqueued.p99_ms)),
    ("launches", |r| r.frame_count(|m| m.enqueued.launches)),
    ("graph_launches", |r| r.frame_count(|m| m.enqueued.graph_launches)),
];

/// New columns of the pace. Overlapping frames have no latency, so latency columns stay empty.
pub(super) const PACE: [Column; 6] = [
    ("mode", |r| r.condition(r.record.conditions.mode.name())),
    ("source_age_p50_ms", |r| r.age(|a| a.decoded_p50_ms)),
    ("source_age_p95_ms", |r| r.age(|a| a.decoded_p95_ms)),
    ("source_age_with_decode_p50_ms", |r| r.age(|a| a.read_p50_ms)),
    ("source_age_with_decode_p95_ms", |r| r.age(|a| a.read_p95_ms)),
    // A column of the masks; it is here because new columns come last.
    ("non_finite_logits", |r| Cell::count(r.record.non_finite_logits)),
];

/// New columns of a frame's whole way, from its file to its mask or its encoded frame.
const DELIVERY: [Column; 8] = [
    ("encode", |r| Cell::text(r.record.conditions.encode.map(|it| it.to_string()).as_deref())),
    ("encode_ms", |r| r.stage(Stage::Encode)),
    ("end_to_end_p50_ms", |r| r.end_to_end(|p| p.p50_ms)),
    ("end_to_end_p95_ms", |r| r.end_to_end(|p| p.p95_ms)),
    ("end_to_end_p99_ms", |r| r.end_to_end(|p| p.p99_ms)),
    ("end_to_end_max_ms", |r| r.end_to_end(|p| p.max_ms)),
    ("frame_transfer", |r| Cell::text(r.record.conditions.transfer.map(FrameTransfer::name))),
    ("views", |r| Cell::text(r.record.conditions.stereo.then_some("stereo"))),
];

/// The two times of a stage in a profiled pass, by its place among [`Stage::ON_GPU`].
const fn profiled<const AT: usize>() -> [Column; 2] {
    [
        (Stage::ON_GPU[AT].profiled_column(), |r| r.profiled(|it| it.events[Stage::ON_GPU[AT]])),
        (Stage::ON_GPU[AT].projected_column(), |r| {
            r.profiled(|it| it.projected[Stage::ON_GPU[AT]])
        }),
    ]
}

/// New columns of profiled passes.
const PROFILED: [[Column; 2]; Stage::ON_GPU.len()] = [
    profiled::<0>(),
    profiled::<1>(),
    profiled::<2>(),
    profiled::<3>(),
    profiled::<4>(),
    profiled::<5>(),
    profiled::<6>(),
    profiled::<7>(),
];

/// New columns of offline runs.
const LANES: [Column; 4] = [
    ("lanes", |r| Cell::count(r.record.conditions.lanes)),
    ("decode_busy", |r| r.number(SHARE_DIGITS, |m| Some(m.decode_load?.busy))),
    ("decode_wait", |r| r.number(SHARE_DIGITS, |m| Some(m.decode_load?.wait))),
    ("limited_by", |r| Cell::text(r.record.numbers().and_then(|m| Some(m.decode_load?.limit())))),
];

/// [`PROFILED`] where a row has such a number; tables of runs without any keep their columns.
pub(super) fn profiled_stages<'a>(
    rows: impl IntoIterator<Item = &'a RunRecord>,
) -> &'static [Column] {
    let some = rows.into_iter().any(|row| row.profiled.is_some());
    if some { PROFILED.as_flattened() } else { &[] }
}

/// [`LANES`] where a row has lanes; tables of runs without any keep their columns.
pub(super) fn lanes<'a>(rows: impl IntoIterator<Item = &'a RunRecord>) -> &'static [Column] {
    let some = rows.into_iter().any(|row| row.conditions.lanes.is_some());
    if some { &LANES } else { &[] }
}

/// [`DELIVERY`] where a row has such a number; tables of runs without any keep their columns.
pub(super) fn delivery<'a>(rows: impl IntoIterator<Item = &'a RunRecord>) -> &'static [Column] {
    let has = |row: &RunRecord| {
        let measured = row.numbers().is_some_and(|m| m.speed.end_to_end.is_some());
        let Conditions { encode, transfer, stereo, .. } = &row.conditions;
        measured || encode.is_some() || transfer.is_some() || *stereo
    };
    if rows.into_iter().any(has) { &DELIVERY } else { &[] }
}
