/*!
Speed of a side on one model: all its rounds, clips and objects together.
*/

use serde::{Deserialize, Serialize};

use super::bootstrap::{Cell, Interval, Rounds, fps_interval};
use super::side_results::{ModelRound, SideResults};
use crate::compare::runs::{PassRecord, SummaryRow};
use crate::compare::thresholds::SPEED;
use vos::record::{EnqueuedFrames, FrameTimes, StagePercentiles, mean_stages};
use vos::stats;

/// Speed and cost of a side.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Speed {
    /// Timed frames of all rounds, prompted ones included.
    pub frames: usize,
    /// Frames over the sum of their times.
    pub fps: f64,
    /// Its 95 % interval over rounds and clips; none for one round of one clip.
    pub fps_interval: Option<Interval>,
    /// FPS of each round.
    pub round_fps: Vec<f64>,
    /// Frames of the percentiles: all but the prompted ones.
    pub later_frames: usize,
    /// Median latency, ms; none if frames overlap or too few lie beyond it.
    pub p50_ms: Option<f64>,
    /// 95th percentile, ms.
    pub p95_ms: Option<f64>,
    /// 99th percentile, ms.
    pub p99_ms: Option<f64>,
    /// Median over passes of the prompted frame's latency, ms.
    pub first_frame_ms: f64,
    /// Median over rounds of the time to build the model, ms; rounds whose process started together
    /// with others have none.
    pub setup_ms: Option<f64>,
    /// Longest compile time of any of its processes before the first round, s; none without
    /// compilation, or if processes started together.
    pub compile_s: Option<f64>,
    /// Largest device memory that the program allocated, MiB.
    pub gpu_alloc_mib: Option<f64>,
    /// Largest device memory of the process, MiB.
    pub gpu_process_mib: Option<f64>,
    /// Largest host memory, MiB.
    pub host_mib: Option<f64>,
    /// Energy per frame, J; none unless every pass has it.
    pub energy_j_per_frame: Option<f64>,
    /// Mean time of each stage, ms, by name.
    pub stages_ms: serde_json::Map<String, serde_json::Value>,
    /// Percentiles of each stage, ms.
    pub stage_percentiles: StagePercentiles,
    /// The calls that enqueued the tracked frames' work.
    pub enqueued: EnqueuedFrames,
}

/// The speed of a side; `None` without a frame.
pub(super) fn speed(side: &SideResults<'_>) -> Option<Speed> {
    let rounds = cells(side);
    let passes: Vec<&PassRecord> = side.passes().map(|(_, pass)| pass).collect();
    let frames_of: Vec<&[FrameTimes]> = passes.iter().map(|pass| pass.frames.as_slice()).collect();
    let firsts: Vec<f64> =
        passes.iter().filter_map(|pass| Some(pass.frames.first()?.time.ms())).collect();
    let later = passes.iter().flat_map(|pass| pass.frames.iter().skip(1));
    let later = stats::sorted(&later.map(|frame| frame.time.ms()).collect::<Vec<_>>());
    let percentile = |percent: f64| {
        let beyond = later.len() as f64 * (1.0 - percent / 100.0);
        let enough = !side.overlapping() && beyond >= SPEED.frames_beyond as f64;
        stats::percentile_of_sorted(&later, percent).filter(|_| enough)
    };
    let rows: Vec<&SummaryRow> =
        side.rounds.iter().flat_map(|round| round.rows.iter().copied()).collect();
    let most = |get: fn(&SummaryRow) -> Option<f64>| {
        rows.iter().filter_map(|row| get(row)).reduce(f64::max)
    };
    let setups: Vec<f64> =
        side.rounds.iter().filter_map(|round| round.rows.first()?.setup_ms).collect();
    let frames: usize = passes.iter().map(|pass| pass.frames.len()).sum();
    // An object's share of the energy follows its number of frames.
    let energy = passes.iter().map(|pass| {
        let own = pass.frames.len();
        Some(pass.observed?.energy_per_frame_j(own)? * own as f64)
    });
    let energy: Option<Vec<f64>> = energy.collect();
    Some(Speed {
        frames,
        fps: fps(rounds.iter().flatten())?,
        fps_interval: fps_interval(&rounds),
        round_fps: rounds.iter().filter_map(|round| fps(round.iter())).collect(),
        later_frames: later.len(),
        p50_ms: percentile(50.0),
        p95_ms: percentile(95.0),
        p99_ms: percentile(99.0),
        first_frame_ms: stats::median(&firsts)?,
        setup_ms: stats::median(&setups),
        compile_s: side
            .rounds
            .iter()
            .filter_map(|round| round.folder.configuration.get("compile_s")?.as_f64())
            .reduce(f64::max),
        gpu_alloc_mib: most(|row| row.gpu_alloc_mib),
        gpu_process_mib: most(|row| row.gpu_reserved_mib),
        host_mib: most(|row| row.rss_mib),
        energy_j_per_frame: energy.map(|joules| joules.iter().sum::<f64>() / frames as f64),
        stages_ms: stages(&passes),
        stage_percentiles: StagePercentiles::of(&frames_of),
        enqueued: EnqueuedFrames::of(&frames_of),
    })
}

fn fps<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<f64> {
    let (frames, seconds) =
        cells.fold((0.0, 0.0), |(f, s), cell| (f + cell.frames, s + cell.seconds));
    (seconds > 0.0).then(|| frames / seconds)
}

fn stages(passes: &[&PassRecord]) -> serde_json::Map<String, serde_json::Value> {
    let frames: Vec<_> = passes.iter().flat_map(|pass| pass.frames.iter().copied()).collect();
    let means = mean_stages(&frames);
    means.known().map(|(stage, mean)| (stage.column().to_owned(), mean.into())).collect()
}

/// Frames and time of each round and clip, clips in order of their names.
pub(super) fn cells(side: &SideResults<'_>) -> Rounds {
    side.rounds.iter().map(round).collect()
}

fn round(round: &ModelRound<'_>) -> Vec<Cell> {
    let mut clips: std::collections::BTreeMap<&str, Cell> = std::collections::BTreeMap::new();
    for (key, passes) in &round.objects {
        let cell = clips.entry(&key.video).or_default();
        for frame in passes.iter().flat_map(|pass| &pass.frames) {
            cell.frames += 1.0;
            cell.seconds += frame.time.ms() / 1000.0;
        }
    }
    clips.into_values().collect()
}
