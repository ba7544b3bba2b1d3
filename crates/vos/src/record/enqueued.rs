/*!
The calls by which the host enqueues a frame's work on a GPU: their time, and the work's kernels.
*/

use serde::{Deserialize, Serialize};

use super::{FrameTime, FrameTimes};
use crate::stats::{mean, percentile};

/// Of one frame. Empty without a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Enqueued {
    /// From the first call to the end of the last one by the host's clock, ms; none where frames
    /// overlap.
    #[serde(default)]
    pub ms: Option<f64>,
    /// Kernels, those inside replayed CUDA graphs among them; none where a library enqueued some
    /// that nobody counts, and where several frames share an encoder's run.
    #[serde(default)]
    pub launches: Option<u64>,
    /// CUDA graphs; none where several frames share an encoder's run.
    #[serde(default)]
    pub graph_launches: Option<u64>,
}

/// Of the tracked frames of one or more passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnqueuedFrames {
    /// Mean of [`Enqueued::ms`], ms.
    #[serde(default)]
    pub mean_ms: Option<f64>,
    /// 99th percentile of the same, ms.
    #[serde(default)]
    pub p99_ms: Option<f64>,
    /// Median of [`Enqueued::launches`]; none where a frame's number is not known.
    #[serde(default)]
    pub launches: Option<u64>,
    /// Median of [`Enqueued::graph_launches`]; none where a frame's number is not known.
    #[serde(default)]
    pub graph_launches: Option<u64>,
}

impl EnqueuedFrames {
    /// Of the frames behind the prompted one, which is the first of each pass.
    pub fn of(passes: &[&[FrameTimes]]) -> Self {
        let later = || passes.iter().flat_map(|pass| pass.iter().skip(1));
        let alone = later().filter(|frame| matches!(frame.time, FrameTime::Latency(_)));
        let times: Vec<f64> = alone.filter_map(|frame| frame.enqueued.ms).collect();
        Self {
            mean_ms: mean(&times),
            p99_ms: percentile(&times, 99.0),
            launches: median(later().map(|frame| frame.enqueued.launches)),
            graph_launches: median(later().map(|frame| frame.enqueued.graph_launches)),
        }
    }
}

/// The middle one, the smaller of two: a number that a frame has.
fn median(counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let mut counts = counts.collect::<Option<Vec<u64>>>()?;
    counts.sort_unstable();
    counts.get(counts.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ms: f64, launches: Option<u64>) -> FrameTimes {
        let enqueued = Enqueued { ms: Some(ms), launches, graph_launches: Some(3) };
        FrameTimes { time: FrameTime::Latency(9.0), enqueued, ..FrameTimes::default() }
    }

    #[test]
    fn prompted_frames_do_not_count() {
        let one = [frame(90.0, Some(900)), frame(1.0, Some(40)), frame(2.0, Some(41))];
        let two = [frame(80.0, None), frame(3.0, Some(41)), frame(4.0, Some(45))];
        let found = EnqueuedFrames::of(&[&one, &two]);
        assert_eq!(
            (found.mean_ms, found.launches, found.graph_launches),
            (Some(2.5), Some(41), Some(3))
        );
        assert!((found.p99_ms.unwrap() - 3.97).abs() < 1e-12);
        let two_only = EnqueuedFrames::of(&[&one[..3]]);
        assert_eq!(two_only.launches, Some(40), "no frame has 40.5");
    }

    #[test]
    fn what_one_frame_does_not_know_is_not_known() {
        let frames = [frame(90.0, Some(9)), frame(1.0, Some(40)), frame(2.0, None)];
        let found = EnqueuedFrames::of(&[&frames]);
        assert_eq!(
            (found.launches, found.graph_launches, found.mean_ms),
            (None, Some(3), Some(1.5))
        );
    }

    #[test]
    fn overlapping_frames_have_launches_and_no_time() {
        let mut frames = [frame(90.0, Some(9)), frame(1.0, Some(40))];
        for time in [FrameTime::Interval(1.0), FrameTime::Lane { ms: 1.0, latency_ms: 2.0 }] {
            frames.iter_mut().for_each(|frame| frame.time = time);
            let found = EnqueuedFrames::of(&[&frames]);
            assert_eq!((found.mean_ms, found.p99_ms, found.launches), (None, None, Some(40)));
        }
    }

    #[test]
    fn without_a_gpu_nothing_is_known() {
        let frames = [FrameTimes::default(); 3];
        for passes in [&[][..], &[&frames[..]], &[&frames[..1]]] {
            assert_eq!(EnqueuedFrames::of(passes), EnqueuedFrames::default());
        }
    }
}
