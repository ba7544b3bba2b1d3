/*!
Stage times of a pass that was recorded again under a profiler: by the stages' events, and by the
GPU work that the profiler saw in their ranges. Both are of the same pass, so the profiler's cost is
in both.
*/

use serde::{Deserialize, Serialize};

use super::StageTimes;
use crate::stage::Stage;
use crate::stats::mean;

/// Mean stage times of the profiled pass, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfiledStages {
    /// By the stages' events; stages on the GPU alone.
    pub events: StageTimes,
    /// From the first to the last GPU work of a stage's range. Empty until a report was read.
    pub projected: StageTimes,
}

/// One stage that has both times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedStage {
    /// The stage.
    pub stage: Stage,
    /// Mean by events, ms.
    pub event_ms: f64,
    /// Mean projection, ms.
    pub projected_ms: f64,
}

impl ComparedStage {
    /// Event time less projection, ms: time of the stage without work of its range.
    pub fn difference_ms(&self) -> f64 {
        self.event_ms - self.projected_ms
    }

    /// The same as a share of the event time, %; none if the events measured nothing.
    pub fn difference_percent(&self) -> Option<f64> {
        (self.event_ms > 0.0).then(|| 100.0 * self.difference_ms() / self.event_ms)
    }
}

impl ProfiledStages {
    /// A pass with these stage means, of which no report was read yet.
    pub fn of_events(stages: &StageTimes) -> Self {
        let on_gpu = |stage| stages[stage].filter(|_| Stage::ON_GPU.contains(&stage));
        Self { events: StageTimes::each(on_gpu), projected: StageTimes::default() }
    }

    /// Whether a report was read.
    pub fn has_projections(&self) -> bool {
        self.projected.known().next().is_some()
    }

    /// The stages that have both times, in the order of the pipeline.
    pub fn compared(&self) -> impl Iterator<Item = ComparedStage> {
        self.projected.known().filter_map(|(stage, projected_ms)| {
            let event_ms = self.events[stage]?;
            Some(ComparedStage { stage, event_ms, projected_ms })
        })
    }

    /// Means over passes; none without passes. Where some have both times of a stage, only these
    /// count, so that both means are of the same passes.
    pub fn mean(passes: &[Self]) -> Option<Self> {
        if passes.is_empty() {
            return None;
        }
        let both = |stage| {
            let of = passes.iter().filter(|pass| pass.events[stage].is_some());
            of.filter(|pass| pass.projected[stage].is_some()).collect::<Vec<_>>()
        };
        let mean_of = |passes: Vec<&Self>, times: fn(&Self) -> &StageTimes, stage| {
            mean(&passes.into_iter().filter_map(|pass| times(pass)[stage]).collect::<Vec<_>>())
        };
        let events = StageTimes::each(|stage| match both(stage) {
            none if none.is_empty() => mean_of(passes.iter().collect(), |pass| &pass.events, stage),
            both => mean_of(both, |pass| &pass.events, stage),
        });
        let projected =
            StageTimes::each(|stage| mean_of(both(stage), |pass| &pass.projected, stage));
        Some(Self { events, projected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_and_encoding_have_no_place_among_stages_on_the_gpu() {
        let all = StageTimes::each(|_| Some(1.0));
        let profiled = ProfiledStages::of_events(&all);
        let known: Vec<Stage> = profiled.events.known().map(|(stage, _)| stage).collect();
        assert_eq!(known, Stage::ON_GPU);
        assert!(!profiled.has_projections() && profiled.compared().next().is_none());
    }

    #[test]
    fn a_difference_is_of_the_same_passes_and_stage() {
        let of = |encoder, track, projected: &[(Stage, f64)]| ProfiledStages {
            events: StageTimes::of([(Stage::Encoder, encoder), (Stage::Track, track)]),
            projected: StageTimes::of(projected.iter().copied()),
        };
        // The second pass's report could not be read.
        let passes = [of(4.0, 2.0, &[(Stage::Encoder, 3.0)]), of(8.0, 6.0, &[])];
        let mean = ProfiledStages::mean(&passes).unwrap();
        assert_eq!(
            (mean.events[Stage::Encoder], mean.events[Stage::Track]),
            (Some(4.0), Some(4.0))
        );
        let compared: Vec<ComparedStage> = mean.compared().collect();
        let encoder = compared[0];
        assert_eq!((compared.len(), encoder.stage), (1, Stage::Encoder));
        assert_eq!((encoder.difference_ms(), encoder.difference_percent()), (1.0, Some(25.0)));
        assert_eq!(ProfiledStages::mean(&[]), None);
        let nothing = ComparedStage { event_ms: 0.0, ..encoder };
        assert_eq!(nothing.difference_percent(), None);
    }
}
