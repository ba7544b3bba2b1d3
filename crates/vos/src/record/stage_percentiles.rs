/*!
Percentiles of each stage over the frames on which it ran.
*/

use serde::{Deserialize, Serialize};

use super::{FrameTimes, StageTimes};
use crate::stage::Stage;
use crate::stats::{percentile_of_sorted, sorted};

/// Percentiles (type 7) of each stage; ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StagePercentiles {
    /// Median, ms.
    #[serde(default)]
    pub p50: StageTimes,
    /// 99th percentile, ms.
    #[serde(default)]
    pub p99: StageTimes,
}

impl StagePercentiles {
    /// Over the frames behind the prompted one, which is the first of each pass, as for latencies.
    /// The prompt stage is over all frames.
    pub fn of(passes: &[&[FrameTimes]]) -> Self {
        let mut found = Self::default();
        for stage in Stage::ALL {
            let first = usize::from(stage != Stage::Prompt);
            let frames = passes.iter().flat_map(|pass| pass.iter().skip(first));
            let times = sorted(&frames.filter_map(|frame| frame.stages[stage]).collect::<Vec<_>>());
            found.p50[stage] = percentile_of_sorted(&times, 50.0);
            found.p99[stage] = percentile_of_sorted(&times, 99.0);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(stage: Stage, ms: f64) -> FrameTimes {
        let mut frame = FrameTimes::default();
        frame.stages[Stage::Encoder] = Some(ms);
        frame.stages[stage] = Some(ms + 0.5);
        frame
    }

    #[test]
    fn prompted_frames_count_for_the_prompt_only() {
        let pass = |first: f64, later: &[f64]| -> Vec<FrameTimes> {
            let later = later.iter().map(|ms| frame(Stage::Track, *ms));
            std::iter::once(frame(Stage::Prompt, first)).chain(later).collect()
        };
        let passes = [pass(50.0, &[1.0, 3.0]), pass(70.0, &[2.0])];
        let StagePercentiles { p50, p99 } = StagePercentiles::of(&[&passes[0], &passes[1]]);
        assert_eq!((p50[Stage::Encoder], p50[Stage::Track]), (Some(2.0), Some(2.5)));
        assert!((p99[Stage::Encoder].unwrap() - 2.98).abs() < 1e-12);
        assert_eq!(p50[Stage::Prompt], Some(60.5));
        assert!((p99[Stage::Prompt].unwrap() - 70.3).abs() < 1e-12);
        assert_eq!((p50[Stage::Decode], p99[Stage::Decode]), (None, None), "not measured");
    }

    #[test]
    fn a_stage_that_ran_on_no_later_frame_has_none() {
        let found = StagePercentiles::of(&[&[frame(Stage::Prompt, 5.0)]]);
        assert_eq!((found.p50[Stage::Encoder], found.p50[Stage::Prompt]), (None, Some(5.5)));
        assert_eq!(StagePercentiles::of(&[]), StagePercentiles::default());
    }
}
