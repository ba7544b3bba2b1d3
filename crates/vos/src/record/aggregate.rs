/*!
Several recorded passes over one object become its one row in the summary.
*/

use super::observed;
use super::speed::speed_from_parts;
use super::{
    DecodeLoad, EnqueuedFrames, FrameTimes, Measured, MemoryPeaks, Quality, RunRecord,
    StagePercentiles, Status, SummaryRecord, Verdict, mean_gpu_ms, mean_residue_ms, mean_stages,
};
use crate::stats::mean;

/// Takes the passes of one object together; `None` when there is none.
///
/// fps is total frames over total time of the ok passes. Percentiles and stage means pool their
/// frames, peaks are the highest. Sensors and verdicts of all passes are taken together. Quality,
/// set-up and first-frame time are means over passes. If no pass is ok, the first one's status and
/// reason stand and there are no numbers.
pub fn summarise(passes: &[(RunRecord, Vec<FrameTimes>)]) -> Option<SummaryRecord> {
    let ok: Vec<_> = passes
        .iter()
        .filter_map(|(run, times)| Some((run, run.numbers()?, times.as_slice())))
        .collect();
    let Some(&(first, ..)) = ok.first() else {
        let mut pooled = passes.first()?.0.clone();
        pooled.measured = None;
        pooled.verdict = Verdict::default();
        return Some(SummaryRecord { pooled, runs: 0 });
    };
    let mut pooled = first.clone();
    pooled.run = 0;
    pooled.measured = pool(&ok);
    pooled.verdict = Verdict::pool(ok.iter().map(|(run, ..)| &run.verdict));
    if pooled.measured.is_none() {
        pooled.status = Status::Failed;
        pooled.reason = Some("no_times: the recorded passes hold no frame times".into());
        return Some(SummaryRecord { pooled, runs: 0 });
    }
    let lost: Vec<_> = passes.iter().filter(|(run, _)| run.numbers().is_none()).collect();
    if let Some((run, _)) = lost.first() {
        let why = run.reason.as_deref().unwrap_or("no reason given");
        let (lost, all) = (lost.len(), passes.len());
        pooled.reason = Some(format!("runs_lost: {lost} of {all} passes have no numbers ({why})"));
    }
    Some(SummaryRecord { pooled, runs: ok.len() })
}

/// The numbers of the ok passes as one set.
fn pool(ok: &[(&RunRecord, &Measured, &[FrameTimes])]) -> Option<Measured> {
    let mean_of = |number: fn(&Measured) -> Option<f64>| {
        mean(&ok.iter().filter_map(|(_, m, _)| number(m)).collect::<Vec<_>>())
    };
    let peak_of = |peak: fn(&MemoryPeaks) -> Option<f64>| {
        ok.iter().filter_map(|(_, m, _)| peak(&m.memory)).reduce(f64::max)
    };
    let passes: Vec<&[FrameTimes]> = ok.iter().map(|(.., times)| *times).collect();
    let frames: Vec<FrameTimes> = ok.iter().flat_map(|(.., times)| times.iter().copied()).collect();
    let later: Vec<FrameTimes> =
        ok.iter().flat_map(|(.., times)| times.iter().skip(1).copied()).collect();
    let first_frame_ms = mean_of(|m| Some(m.speed.first_frame_ms))?;
    let duration_ms = ok.iter().map(|(_, m, _)| m.speed.duration_ms).sum();
    let count = ok.iter().map(|(_, m, _)| m.speed.frames).sum();
    let quality = mean_of(|m| Some(m.quality?.j)).zip(mean_of(|m| Some(m.quality?.f)));
    let scored_frames = ok.iter().find_map(|(_, m, _)| Some(m.quality?.scored_frames));
    Some(Measured {
        speed: speed_from_parts(count, duration_ms, first_frame_ms, &later)?,
        stages: mean_stages(&frames),
        stage_percentiles: StagePercentiles::of(&passes),
        enqueued: EnqueuedFrames::of(&passes),
        memory: MemoryPeaks {
            gpu_peak_alloc_mib: peak_of(|m| m.gpu_peak_alloc_mib),
            gpu_peak_reserved_mib: peak_of(|m| m.gpu_peak_reserved_mib),
            cpu_peak_rss_mib: peak_of(|m| m.cpu_peak_rss_mib),
        },
        quality: quality.zip(scored_frames).map(|((j, f), scored_frames)| Quality {
            j,
            f,
            jf: (j + f) / 2.0,
            scored_frames,
        }),
        setup_ms: mean_of(|m| m.setup_ms),
        gpu_ms: mean_gpu_ms(&frames),
        // Where a pass has none, because its frames overlap, the stages explain no frame of it.
        residue_ms: mean_residue_ms(&frames)
            .filter(|_| ok.iter().all(|(_, m, _)| m.residue_ms.is_some())),
        // The same for all passes of a model.
        least: ok.first().map(|(_, m, _)| m.least).unwrap_or_default(),
        observed: ok
            .iter()
            .map(|(_, m, _)| m.observed)
            .collect::<Option<Vec<_>>>()
            .and_then(|passes| observed::pool(&passes)),
        decode_load: DecodeLoad::mean(ok.iter().filter_map(|(_, m, _)| m.decode_load)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Conditions, FrameTime, ObjectKey, StageTimes, speed_of};
    use crate::stage::Stage;

    fn pass(run: usize, latencies: &[f64], rss: f64) -> (RunRecord, Vec<FrameTimes>) {
        let times: Vec<_> = latencies
            .iter()
            .enumerate()
            .map(|(frame, &latency_ms)| FrameTimes {
                frame,
                time: FrameTime::Latency(latency_ms),
                stages: StageTimes::of([(Stage::Encoder, latency_ms / 2.0)]),
                ..Default::default()
            })
            .collect();
        let mut record = failed("none");
        record.run = run;
        record.status = Status::Ok;
        record.reason = None;
        record.frames = Some(times.len());
        record.measured = speed_of(&times).map(|speed| Measured {
            speed,
            stages: mean_stages(&times),
            stage_percentiles: StagePercentiles::default(),
            enqueued: EnqueuedFrames::default(),
            memory: MemoryPeaks { cpu_peak_rss_mib: Some(rss), ..Default::default() },
            quality: Some(Quality { j: 0.5, f: 0.7, jf: 0.6, scored_frames: 3 }),
            setup_ms: Some(100.0),
            gpu_ms: None,
            residue_ms: mean_residue_ms(&times),
            least: StageTimes::default(),
            observed: None,
            decode_load: None,
        });
        (record, times)
    }

    fn failed(code: &str) -> RunRecord {
        let key = ObjectKey { video: "v".into(), object: "000".into(), tag: "m".into() };
        RunRecord::unmeasured(key, Conditions::default(), Status::Failed, code, "it broke")
    }

    #[test]
    fn fps_is_total_frames_over_total_time_not_a_mean_of_rates() {
        let passes = [pass(0, &[30.0, 10.0], 50.0), pass(1, &[140.0, 20.0], 70.0)];
        let row = summarise(&passes).unwrap();
        let numbers = row.pooled.numbers().unwrap();
        assert_eq!(row.runs, 2);
        assert_eq!(numbers.speed.fps, 20.0);
        assert_eq!(numbers.speed.latency_ms, 50.0);
        assert_eq!(numbers.speed.first_frame_ms, 85.0);
        assert_eq!(numbers.speed.later_frames.unwrap().p50_ms, 15.0);
        assert_eq!(numbers.stages[Stage::Encoder], Some(25.0));
        // The prompted frames' 15 and 70 ms are none of them.
        assert_eq!(numbers.stage_percentiles.p50[Stage::Encoder], Some(7.5));
        assert_eq!(numbers.residue_ms, Some(25.0));
        assert_eq!(numbers.memory.cpu_peak_rss_mib, Some(70.0));
        assert_eq!(numbers.quality.unwrap().jf, 0.6);
        assert_eq!(row.pooled.frames, Some(2));
    }

    #[test]
    fn a_lost_pass_is_told_but_does_not_spoil_the_others() {
        let row = summarise(&[(failed("oom"), vec![]), pass(1, &[10.0], 1.0)]).unwrap();
        assert_eq!((row.pooled.status, row.runs), (Status::Ok, 1));
        assert_eq!(row.pooled.numbers().unwrap().speed.fps, 100.0);
        assert_eq!(
            row.pooled.reason.as_deref(),
            Some("runs_lost: 1 of 2 passes have no numbers (oom: it broke)")
        );
    }

    #[test]
    fn all_failed_means_no_numbers() {
        let row = summarise(&[(failed("oom"), vec![]), (failed("late"), vec![])]).unwrap();
        assert_eq!((row.pooled.status, row.runs), (Status::Failed, 0));
        assert_eq!(row.pooled.reason.as_deref(), Some("oom: it broke"));
        assert!(row.pooled.numbers().is_none());
        assert!(summarise(&[]).is_none());
    }

    #[test]
    fn numbers_of_a_record_that_is_not_ok_are_never_shown() {
        let (mut record, times) = pass(0, &[10.0], 1.0);
        record.status = Status::Failed;
        assert!(record.numbers().is_none());
        assert_eq!(summarise(&[(record, times)]).unwrap().pooled.measured, None);
    }
}
