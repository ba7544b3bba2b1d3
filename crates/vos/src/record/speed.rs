/*!
From per-frame times to the speed of a pass: one definition of fps and latency for every backend.
*/

use std::time::Instant;

use super::{FrameTimes, Percentiles, SourceAge, SourceAges, Speed, StageTimes};
use crate::stats::{mean, percentile_of_sorted, sorted};

/// Frames from which on there is a 99.9th percentile: of fewer it would be the slowest frame by
/// another name.
const FRAMES_FOR_P999: usize = 1000;

/// From one moment to another, ms; negative in the other order.
pub fn ms_between(from: Instant, to: Instant) -> f64 {
    match to.checked_duration_since(from) {
        Some(after) => after.as_secs_f64() * 1e3,
        None => -((from - to).as_secs_f64() * 1e3),
    }
}

/// Speed of a pass from its frames in order.
///
/// The duration is the sum of the frames' times, fps = frames / duration and latency = 1000 / fps.
/// `None` when there is no frame, or when the times are not positive and finite: such a clock has
/// measured nothing.
pub fn speed_of(frames: &[FrameTimes]) -> Option<Speed> {
    let first_frame_ms = frames.first()?.time.ms();
    let duration_ms = frames.iter().map(|frame| frame.time.ms()).sum();
    speed_from_parts(frames.len(), duration_ms, first_frame_ms, &frames[1..])
}

/// [`speed_of`] for passes that are taken together; `later` holds all frames but the first of each
/// pass.
pub(super) fn speed_from_parts(
    frames: usize,
    duration_ms: f64,
    first_frame_ms: f64,
    later: &[FrameTimes],
) -> Option<Speed> {
    if !duration_ms.is_finite() || duration_ms <= 0.0 {
        return None;
    }
    let fps = frames as f64 / (duration_ms / 1000.0);
    let latency_ms = 1000.0 / fps;
    let ages: Vec<SourceAge> = later.iter().filter_map(|frame| frame.age).collect();
    let ends: Vec<f64> = later.iter().filter_map(|frame| frame.end_to_end_ms).collect();
    let later: Vec<f64> = later.iter().filter_map(|frame| frame.time.latency_ms()).collect();
    Some(Speed {
        frames,
        duration_ms,
        fps,
        latency_ms,
        first_frame_ms,
        later_frames: percentiles(&later),
        source_ages: source_ages(&ages),
        end_to_end: percentiles(&ends),
    })
}

fn source_ages(ages: &[SourceAge]) -> Option<SourceAges> {
    let of = |age: fn(&SourceAge) -> f64| sorted(&ages.iter().map(age).collect::<Vec<_>>());
    let (decoded, read) = (of(|age| age.decoded_ms), of(|age| age.read_ms));
    Some(SourceAges {
        decoded_p50_ms: percentile_of_sorted(&decoded, 50.0)?,
        decoded_p95_ms: percentile_of_sorted(&decoded, 95.0)?,
        read_p50_ms: percentile_of_sorted(&read, 50.0)?,
        read_p95_ms: percentile_of_sorted(&read, 95.0)?,
    })
}

fn percentiles(latencies_ms: &[f64]) -> Option<Percentiles> {
    let sorted = sorted(latencies_ms);
    let at = |percent| percentile_of_sorted(&sorted, percent);
    Some(Percentiles {
        p50_ms: at(50.0)?,
        p90_ms: at(90.0)?,
        p95_ms: at(95.0)?,
        p99_ms: at(99.0)?,
        p999_ms: at(99.9).filter(|_| sorted.len() >= FRAMES_FOR_P999),
        max_ms: at(100.0)?,
    })
}

/// Mean of each stage over the frames on which it ran, ms.
pub fn mean_stages(frames: &[FrameTimes]) -> StageTimes {
    StageTimes::each(|stage| {
        mean(&frames.iter().filter_map(|frame| frame.stages[stage]).collect::<Vec<_>>())
    })
}

/// Mean time by the GPU's clock over the frames that have one, ms.
pub fn mean_gpu_ms(frames: &[FrameTimes]) -> Option<f64> {
    mean(&frames.iter().filter_map(|frame| frame.gpu_ms).collect::<Vec<_>>())
}

/// Mean over the frames of their latency less the stages inside it, ms; a stage that another one
/// covers counts as none. Negative where other stages overlap; `None` where a frame has no stage.
pub fn mean_residue_ms(frames: &[FrameTimes]) -> Option<f64> {
    let residue = |frame: &FrameTimes| {
        let inside = frame.stages.known().filter(|(stage, _)| frame.includes(*stage));
        let known: Vec<f64> = inside.map(|(_, ms)| ms).collect();
        (!known.is_empty()).then(|| frame.time.ms() - known.iter().sum::<f64>())
    };
    mean(&frames.iter().map(residue).collect::<Option<Vec<_>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FrameTime;
    use crate::stage::Stage;

    fn frame(frame: usize, latency_ms: f64) -> FrameTimes {
        FrameTimes { frame, time: FrameTime::Latency(latency_ms), ..FrameTimes::default() }
    }

    #[test]
    fn the_first_frame_counts_for_fps_but_not_for_percentiles() {
        let speed = speed_of(&[frame(0, 70.0), frame(1, 10.0), frame(2, 20.0)]).unwrap();
        assert_eq!(speed.duration_ms, 100.0);
        assert_eq!(speed.fps, 30.0);
        assert_eq!(speed.latency_ms, 1000.0 / 30.0);
        assert_eq!(speed.first_frame_ms, 70.0);
        let later = speed.later_frames.unwrap();
        assert_eq!((later.p50_ms, later.max_ms), (15.0, 20.0));
        assert!((later.p99_ms - 19.9).abs() < 1e-12);
    }

    #[test]
    fn frames_that_overlap_have_ages_and_no_latencies() {
        let overlapping = |index: usize, age: f64| FrameTimes {
            frame: index,
            time: FrameTime::Interval(2.0),
            age: Some(SourceAge { decoded_ms: age, read_ms: age + 5.0 }),
            ..FrameTimes::default()
        };
        let speed =
            speed_of(&[overlapping(0, 90.0), overlapping(1, 8.0), overlapping(2, 10.0)]).unwrap();
        assert_eq!((speed.fps, speed.later_frames), (500.0, None));
        let ages = speed.source_ages.unwrap();
        assert_eq!((ages.decoded_p50_ms, ages.read_p50_ms), (9.0, 14.0));
        assert_eq!(speed_of(&[frame(0, 1.0), frame(1, 1.0)]).unwrap().source_ages, None);
    }

    #[test]
    fn end_to_end_latencies_have_percentiles_in_both_modes() {
        for time in [FrameTime::Latency(2.0), FrameTime::Interval(2.0)] {
            let frame = |frame, ms| FrameTimes {
                frame,
                time,
                end_to_end_ms: Some(ms),
                ..FrameTimes::default()
            };
            let speed = speed_of(&[frame(0, 50.0), frame(1, 5.0), frame(2, 7.0)]).unwrap();
            let ends = speed.end_to_end.unwrap();
            assert_eq!((ends.p50_ms, ends.max_ms), (6.0, 7.0));
        }
    }

    #[test]
    fn the_thousandth_slowest_frame_needs_a_thousand_frames() {
        let frames: Vec<_> = (0..1001).map(|at| frame(at, 1.0 + at as f64)).collect();
        let p999 = |frames| speed_of(frames).unwrap().later_frames.unwrap().p999_ms;
        assert!((p999(&frames).unwrap() - 1000.001).abs() < 1e-9, "{:?}", p999(&frames));
        assert_eq!(p999(&frames[..1000]), None);
    }

    #[test]
    fn the_residue_is_what_no_stage_explains_decoding_apart() {
        let mut frames = [frame(0, 10.0), frame(1, 6.0)];
        assert_eq!(mean_residue_ms(&frames), None);
        frames[0].stages =
            StageTimes::of([(Stage::Decode, 50.0), (Stage::Encoder, 4.0), (Stage::Prompt, 3.0)]);
        assert_eq!(mean_residue_ms(&frames), None, "the second frame has no stages");
        frames[1].stages = StageTimes::of([(Stage::Encoder, 5.0)]);
        assert_eq!(mean_residue_ms(&frames), Some(2.0));
        frames[1].stages[Stage::Encode] = Some(1.0);
        assert_eq!(mean_residue_ms(&frames), Some(1.5));
        frames[1].encoded_beside = true;
        assert_eq!(mean_residue_ms(&frames), Some(2.0), "outside the frame's time");
        for stage in [Stage::Postprocess, Stage::Download] {
            frames[1].stages[stage] = Some(0.25);
        }
        assert_eq!(mean_residue_ms(&frames), Some(1.75));
        frames[1].mask_beside = true;
        assert_eq!(mean_residue_ms(&frames), Some(2.0), "beside the memory");
        assert_eq!((mean_residue_ms(&[]), mean_gpu_ms(&frames)), (None, None));
        frames[1].gpu_ms = Some(5.5);
        assert_eq!(mean_gpu_ms(&frames), Some(5.5));
    }

    #[test]
    fn one_frame_has_no_percentiles_and_no_frames_have_no_speed() {
        assert_eq!(speed_of(&[frame(0, 5.0)]).unwrap().later_frames, None);
        assert_eq!(speed_of(&[]), None);
    }

    #[test]
    fn a_clock_that_measured_nothing_gives_no_fps() {
        assert_eq!(speed_of(&[frame(0, 0.0), frame(1, 0.0)]), None);
        assert_eq!(speed_of(&[frame(0, f64::NAN)]), None);
        assert_eq!(speed_of(&[frame(0, -1.0)]), None);
    }

    #[test]
    fn a_stage_is_averaged_over_the_frames_on_which_it_ran() {
        let mut frames = [frame(0, 1.0), frame(1, 1.0), frame(2, 1.0)];
        frames[0].stages[Stage::Prompt] = Some(6.0);
        frames[1].stages[Stage::Track] = Some(2.0);
        frames[2].stages[Stage::Track] = Some(4.0);
        let stages = mean_stages(&frames);
        assert_eq!((stages[Stage::Prompt], stages[Stage::Track]), (Some(6.0), Some(3.0)));
        assert_eq!(stages[Stage::Encoder], None);
    }
}
