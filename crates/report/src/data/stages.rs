/*!
The stages of a frame's time: the operation breakdown.

With a sidecar the sums are exact. Without one they come from the table's stage columns, each a mean
over the frames with that stage: the prompt step over the first frame, the track step over the
others, the rest over all.
*/

use serde::Serialize;

use crate::input::{RecordedPass, ResultRow};
use vos::record::{ComparedStage, ProfiledStages, StageTimes};
use vos::stage::Stage;
use vos::stats::mean;

/// Decoding is outside the latency.
const DECODE: usize = Stage::Decode as usize;

/// The breakdown of a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageTable {
    /// `frames` if the sidecar's raw times were summed, `columns` if they are the table's means.
    pub from: &'static str,
    /// Number of frames.
    pub frames: usize,
    /// Frames overlap: stages of several frames run at once, and percentages are of their sum.
    pub overlapping: bool,
    /// Mean time of a frame, ms.
    pub frame_ms: f64,
    /// Part of it outside all stages, ms; none if frames overlap.
    pub unexplained_ms: Option<f64>,
    /// A line for each stage.
    pub lines: Vec<StageLine>,
    /// A line for each stage that a profiler saw on the GPU; empty where no pass was profiled.
    pub profiled: Vec<ProfiledLine>,
}

/// A stage of the profiled passes, on the GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProfiledLine {
    /// Its heading.
    pub label: &'static str,
    /// Mean by the stage's events, ms.
    pub event_ms: f64,
    /// Mean projection of its range onto the GPU, ms.
    pub projected_ms: f64,
    /// Event time less projection, ms.
    pub difference_ms: f64,
    /// The same as a share of the event time, %.
    pub difference_percent: Option<f64>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageLine {
    /// Its column.
    pub column: &'static str,
    /// Its heading.
    pub label: &'static str,
    /// Time per frame, over all frames, ms; `None` if not measured.
    pub per_frame_ms: Option<f64>,
    /// Mean over the frames with the stage, ms.
    pub where_it_ran_ms: Option<f64>,
    /// Median behind the prompted frame, of the prompt stage on it, ms; mean of the rows that have
    /// it.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the same, ms; mean of the rows that have it.
    pub p99_ms: Option<f64>,
    /// Share of the frame's time, %; none for a stage outside it, such as decoding.
    pub percent_of_frame: Option<f64>,
    /// Share of decoding and frame together, %.
    pub percent_of_all: Option<f64>,
    /// Least time at the GPU's peaks over the time where it ran, %; mean of the rows that have it.
    pub percent_of_roofline: Option<f64>,
}

impl StageTable {
    /// Time per frame of the stage with this column, ms.
    pub fn per_frame(&self, column: &str) -> Option<f64> {
        self.lines.iter().find(|line| line.column == column)?.per_frame_ms
    }
}

/// A run without an encode stage lacks nothing.
fn has_place(line: &StageLine) -> bool {
    line.column != Stage::Encode.column() || line.per_frame_ms.is_some()
}

/// Sum of a stage's times, ms, and the frames on which it ran.
type Sum = (f64, usize);

/// From a group's passes, else from its rows; `None` if neither has a stage.
/// `encode_beside`: the encode stage is outside the frame's time.
pub fn of(
    passes: &[&RecordedPass],
    rows: &[&ResultRow],
    overlapping: bool,
    encode_beside: bool,
) -> Option<StageTable> {
    let exact = from_passes(passes);
    let (from, (frames, total_ms, sums)) = match exact {
        Some(sums) => ("frames", sums),
        None => ("columns", from_rows(rows)?),
    };
    let count = frames as f64;
    let is_inside =
        |stage: Stage| stage != Stage::Decode && !(stage == Stage::Encode && encode_beside);
    let stages = Stage::ALL.into_iter().zip(&sums);
    let inside: f64 = stages.filter(|(stage, _)| is_inside(*stage)).map(|(_, (sum, _))| sum).sum();
    let whole = if overlapping { inside } else { total_ms };
    let decode = sums[DECODE].0;
    let line = |stage: Stage| {
        let (sum, ran) = sums[stage as usize];
        let measured = ran > 0;
        StageLine {
            column: stage.column(),
            label: stage.label(),
            per_frame_ms: measured.then_some(sum / count),
            where_it_ran_ms: measured.then_some(sum / ran as f64),
            p50_ms: of_rows(rows, stage.p50_column()),
            p99_ms: of_rows(rows, stage.p99_column()),
            percent_of_frame: (measured && is_inside(stage)).then_some(100.0 * sum / whole),
            percent_of_all: (measured && sums[DECODE].1 > 0)
                .then_some(100.0 * sum / (whole + decode)),
            percent_of_roofline: roofline(rows, stage),
        }
    };
    Some(StageTable {
        from,
        frames,
        overlapping,
        frame_ms: total_ms / count,
        unexplained_ms: (!overlapping).then_some((total_ms - inside) / count),
        lines: Stage::ALL.into_iter().map(line).filter(has_place).collect(),
        profiled: profiled(rows),
    })
}

/// Means over the rows that have both times of a stage.
fn profiled(rows: &[&ResultRow]) -> Vec<ProfiledLine> {
    let of_row = |row: &&ResultRow| ProfiledStages {
        events: StageTimes::each(|stage| row.number(stage.profiled_column())),
        projected: StageTimes::each(|stage| row.number(stage.projected_column())),
    };
    let known: Vec<ProfiledStages> = rows.iter().map(of_row).collect();
    let line = |stage: ComparedStage| ProfiledLine {
        label: stage.stage.label(),
        event_ms: stage.event_ms,
        projected_ms: stage.projected_ms,
        difference_ms: stage.difference_ms(),
        difference_percent: stage.difference_percent(),
    };
    ProfiledStages::mean(&known).iter().flat_map(|mean| mean.compared()).map(line).collect()
}

/// Mean share of the roofline over the rows that have it, %.
fn roofline(rows: &[&ResultRow], stage: Stage) -> Option<f64> {
    Some(100.0 * of_rows(rows, &stage.column().replace("_ms", "_roofline"))?)
}

/// Mean of a column over the rows that have it.
fn of_rows(rows: &[&ResultRow], column: &str) -> Option<f64> {
    mean(&rows.iter().filter_map(|row| row.number(column)).collect::<Vec<_>>())
}

/// Number of frames, sum of their times and sums of their stages.
fn from_passes(passes: &[&RecordedPass]) -> Option<(usize, f64, [Sum; Stage::COUNT])> {
    let frames: usize = passes.iter().map(|pass| pass.latencies_ms.len()).sum();
    let total = passes.iter().flat_map(|pass| &pass.latencies_ms).sum();
    let sums: [Sum; Stage::COUNT] = std::array::from_fn(|at| {
        let of = passes.iter().map(|pass| pass.stages[at]);
        of.fold((0.0, 0), |(sum, ran), stage| (sum + stage.sum_ms, ran + stage.frames))
    });
    something((frames, total, sums))
}

fn from_rows(rows: &[&ResultRow]) -> Option<(usize, f64, [Sum; Stage::COUNT])> {
    let (mut frames, mut total, mut sums) = (0, 0.0, [(0.0, 0); Stage::COUNT]);
    for row in rows {
        let (Some(count), Some(fps)) = (row.number("frames"), row.number("fps")) else { continue };
        if count < 1.0 {
            continue;
        }
        let count = count as usize;
        frames += count;
        total += count as f64 / fps * 1000.0;
        for stage in Stage::ALL {
            let Some(mean) = row.number(stage.column()) else { continue };
            let ran = match stage {
                Stage::Prompt => 1,
                Stage::Track => count - 1,
                _ => count,
            };
            sums[stage as usize].0 += mean * ran as f64;
            sums[stage as usize].1 += ran;
        }
    }
    something((frames, total, sums))
}

/// `None` if no stage ran inside the frame.
fn something(
    found: (usize, f64, [Sum; Stage::COUNT]),
) -> Option<(usize, f64, [Sum; Stage::COUNT])> {
    let inside = found.2.iter().skip(DECODE + 1).any(|(_, ran)| *ran > 0);
    (found.0 > 0 && inside).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::StageSum;

    const ENCODER: usize = Stage::Encoder as usize;
    const PROMPT: usize = Stage::Prompt as usize;
    const TRACK: usize = Stage::Track as usize;

    fn sum(sum_ms: f64, frames: usize) -> StageSum {
        StageSum { sum_ms, frames }
    }

    #[test]
    fn shares_are_of_the_frame_and_decoding_is_beside_it() {
        let mut pass =
            RecordedPass { latencies_ms: vec![40.0, 20.0, 20.0, 20.0], ..RecordedPass::default() };
        pass.stages[DECODE] = sum(100.0, 4);
        pass.stages[ENCODER] = sum(40.0, 4);
        pass.stages[PROMPT] = sum(30.0, 1);
        pass.stages[TRACK] = sum(20.0, 3);
        let table = of(&[&pass], &[], false, false).unwrap();
        assert_eq!((table.from, table.frames, table.frame_ms), ("frames", 4, 25.0));
        assert_eq!(table.unexplained_ms, Some(2.5));
        let prompt = &table.lines[PROMPT];
        assert_eq!((prompt.per_frame_ms, prompt.where_it_ran_ms), (Some(7.5), Some(30.0)));
        assert_eq!((prompt.percent_of_frame, prompt.percent_of_all), (Some(30.0), Some(15.0)));
        let decode = &table.lines[DECODE];
        assert_eq!((decode.percent_of_frame, decode.percent_of_all), (None, Some(50.0)));
        assert_eq!(
            table.lines[1].per_frame_ms, None,
            "a stage that never ran is not measured, not zero"
        );
    }

    #[test]
    fn encoding_on_another_thread_is_outside_the_frame() {
        let mut pass = RecordedPass { latencies_ms: vec![10.0], ..RecordedPass::default() };
        pass.stages[ENCODER] = sum(8.0, 1);
        let encode = |table: &StageTable| {
            let line = table.lines.iter().find(|line| line.column == "encode_ms")?;
            Some((line.per_frame_ms, line.percent_of_frame))
        };
        let table = of(&[&pass], &[], false, false).unwrap();
        assert_eq!(encode(&table), None);
        pass.stages[Stage::Encode as usize] = sum(2.0, 1);
        let inside = of(&[&pass], &[], false, false).unwrap();
        assert_eq!(
            (inside.unexplained_ms, encode(&inside)),
            (Some(0.0), Some((Some(2.0), Some(20.0))))
        );
        let beside = of(&[&pass], &[], false, true).unwrap();
        assert_eq!((beside.unexplained_ms, encode(&beside)), (Some(2.0), Some((Some(2.0), None))));
    }

    #[test]
    fn overlapping_stages_are_shares_of_their_sum() {
        let mut pass = RecordedPass { latencies_ms: vec![10.0, 10.0], ..RecordedPass::default() };
        pass.stages[ENCODER] = sum(30.0, 2);
        pass.stages[TRACK] = sum(10.0, 1);
        let table = of(&[&pass], &[], true, false).unwrap();
        assert_eq!(table.lines[ENCODER].percent_of_frame, Some(75.0));
        assert_eq!((table.unexplained_ms, table.frame_ms), (None, 10.0));
    }

    #[test]
    fn without_stages_there_is_no_table() {
        assert_eq!(
            of(
                &[&RecordedPass { latencies_ms: vec![1.0], ..RecordedPass::default() }],
                &[],
                false,
                false
            ),
            None
        );
        assert_eq!(of(&[], &[], false, false), None);
    }
}
