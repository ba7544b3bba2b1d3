/*!
Time of each stage of a frame.
*/

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use crate::stage::Stage;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Time per stage of one frame, or its mean over frames; ms. `None`: the stage did not run or is
/// not measured apart. JSON has it as an object with a member for each column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageTimes([Option<f64>; Stage::COUNT]);

impl StageTimes {
    /// These times, ms; the other stages have none.
    pub fn of(times: impl IntoIterator<Item = (Stage, f64)>) -> Self {
        let mut all = Self::default();
        for (stage, ms) in times {
            all[stage] = Some(ms);
        }
        all
    }

    /// The time that `ms` gives for each stage.
    pub fn each(ms: impl FnMut(Stage) -> Option<f64>) -> Self {
        Self(Stage::ALL.map(ms))
    }

    /// The stages that have a time, ms.
    pub fn known(&self) -> impl Iterator<Item = (Stage, f64)> {
        Stage::ALL.into_iter().filter_map(|stage| Some((stage, self[stage]?)))
    }

    /// Adds to the time of a stage, ms.
    pub fn add(&mut self, stage: Stage, ms: f64) {
        self[stage] = Some(self[stage].unwrap_or(0.0) + ms);
    }
}

impl Index<Stage> for StageTimes {
    type Output = Option<f64>;

    fn index(&self, stage: Stage) -> &Self::Output {
        &self.0[stage as usize]
    }
}

impl IndexMut<Stage> for StageTimes {
    fn index_mut(&mut self, stage: Stage) -> &mut Self::Output {
        &mut self.0[stage as usize]
    }
}

impl Serialize for StageTimes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Stage::ALL.map(|stage| (stage.column(), self[stage])))
    }
}

impl<'de> Deserialize<'de> for StageTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let columns = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
        Ok(Self::each(|stage| columns.get(stage.column()).copied().flatten()))
    }
}
