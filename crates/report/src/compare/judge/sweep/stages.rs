/*!
The stages of a point, so that they can be compared: time for each frame, however often a stage
runs, and decoding shared by its threads where it limits the rate.
*/

use serde::{Deserialize, Serialize};

use crate::compare::judge::side_results::SideResults;
use vos::stage::Stage;

/// Time of one stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageTime {
    /// Its name, such as `encoder`.
    pub stage: String,
    /// Mean over all frames, ms; of decoding with frames overlapping the share of one thread, of
    /// the others offline that of one lane.
    pub ms: f64,
    /// It is outside the frame's time, so it cannot be the slowest: with one frame in flight
    /// decoding, and encoding on another thread.
    pub outside: bool,
}

/// The stages that ran, in the order of the pipeline.
pub(super) fn stages(side: &SideResults<'_>) -> Vec<StageTime> {
    let frames: Vec<_> = side.passes().flat_map(|(_, pass)| &pass.frames).collect();
    let overlapping = side.overlapping();
    let time = |stage: Stage| {
        let times: Vec<f64> = frames.iter().filter_map(|frame| frame.stages[stage]).collect();
        if times.is_empty() {
            return None;
        }
        let mut ms = times.iter().sum::<f64>() / frames.len() as f64;
        if stage == Stage::Decode && overlapping {
            ms /= gpu_setting(side, "options/decode_threads") as f64;
        } else {
            ms /= gpu_setting(side, "lanes") as f64;
        }
        Some(StageTime {
            stage: stage.column().trim_end_matches("_ms").to_owned(),
            ms,
            // A frame in flight waits for a thread that is late, so it limits the rate.
            outside: !overlapping
                && (stage == Stage::Decode || (stage == Stage::Encode && encodes_beside(side))),
        })
    };
    Stage::ALL.into_iter().filter_map(time).collect()
}

/// Another thread encoded the frames, by the settings: `overlay,beside`.
fn encodes_beside(side: &SideResults<'_>) -> bool {
    let setting =
        side.rounds.first().and_then(|round| round.folder.configuration.get("encode")?.as_str());
    setting.is_some_and(|setting| setting.ends_with(",beside"))
}

/// How many share the work, by a setting of the GPU; one where the settings name none.
fn gpu_setting(side: &SideResults<'_>, path: &str) -> u64 {
    let setting = side.rounds.first().and_then(|round| {
        let gpu = round.folder.configuration.get("gpu")?;
        path.split('/').try_fold(gpu, |value, name| value.get(name))?.as_u64()
    });
    setting.unwrap_or(1).max(1)
}

/// The stage with the longest time of those inside the frame's time, and that time, ms.
pub(super) fn slowest(stages: &[StageTime]) -> Option<(String, f64)> {
    let inside = stages.iter().filter(|stage| !stage.outside);
    inside.max_by(|a, b| a.ms.total_cmp(&b.ms)).map(|stage| (stage.stage.clone(), stage.ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_outside_the_time_is_never_the_slowest() {
        let stage = |stage: &str, ms: f64, outside: bool| StageTime {
            stage: stage.to_owned(),
            ms,
            outside,
        };
        let stages =
            [stage("decode", 9.0, true), stage("encoder", 2.0, false), stage("track", 3.0, false)];
        assert_eq!(slowest(&stages), Some(("track".to_owned(), 3.0)));
        assert_eq!(slowest(&stages[..1]), None);
    }
}
