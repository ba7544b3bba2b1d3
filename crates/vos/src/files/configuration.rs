/*!
The settings of a run as named values, which decide whether an interrupted run may be continued.
*/

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The setting with the number of other GPUs of the host that were measured at the same time: they
/// share its processors and disks.
pub const OTHER_DEVICES: &str = "other_devices_at_the_same_time";

/// The clips of a run by name, in order.
const VIDEOS: &str = "videos";
/// Objects of each clip; 0 for all.
const LIMIT_OBJECTS: &str = "limit_objects";

/// All settings that affect the rows of a run (models, image size, precision, split, …).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Configuration {
    fields: Map<String, Value>,
}

impl From<Map<String, Value>> for Configuration {
    fn from(fields: Map<String, Value>) -> Self {
        Self { fields }
    }
}

impl Configuration {
    /// The settings by name.
    pub fn into_fields(self) -> Map<String, Value> {
        self.fields
    }

    /// Adds a field; a second value for a name replaces the first.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Adds all fields of another configuration.
    pub fn and(mut self, more: Self) -> Self {
        self.fields.extend(more.fields);
        self
    }

    /// The clips of the run, if it names them.
    pub fn videos(&self) -> Option<Vec<&str>> {
        self.fields
            .get(VIDEOS)?
            .as_array()
            .map(|all| all.iter().filter_map(Value::as_str).collect())
    }

    /// Objects of each clip, 0 for all; `None` if the run has no such setting.
    pub fn limit_objects(&self) -> Option<u64> {
        self.fields.get(LIMIT_OBJECTS)?.as_u64()
    }

    /// The same settings with the clips and objects of an earlier run added: each row belongs to
    /// one object, so a resumed run may have more or fewer of them. The clips are in this run's
    /// order if it has all of them.
    pub fn beside(self, earlier: &Self) -> Self {
        let mut joined = self.clone();
        if let (Some(now), Some(then)) = (self.videos(), earlier.videos()) {
            let (has, had): (HashSet<_>, HashSet<_>) =
                (now.iter().copied().collect(), then.iter().copied().collect());
            if !had.is_subset(&has) {
                let new = now.iter().filter(|video| !had.contains(*video));
                joined = joined.with(VIDEOS, then.iter().chain(new).copied().collect::<Vec<_>>());
            }
        }
        if let (Some(now), Some(then)) = (self.limit_objects(), earlier.limit_objects()) {
            let limit = if now.min(then) == 0 { 0 } else { now.max(then) };
            joined = joined.with(LIMIT_OBJECTS, limit);
        }
        joined
    }

    /// With the clips and objects of another configuration, if both name some.
    pub(super) fn of_selection(mut self, other: &Self) -> Self {
        for name in [VIDEOS, LIMIT_OBJECTS] {
            if let (true, Some(value)) = (self.fields.contains_key(name), other.fields.get(name)) {
                self = self.with(name, value.clone());
            }
        }
        self
    }

    /// sha256 in hex of the fields sorted by name, so that their order does not matter.
    pub fn sha256(&self) -> String {
        let mut fields: Vec<_> = self.fields.iter().collect();
        fields.sort_by_key(|(name, _)| *name);
        let mut hasher = Sha256::new();
        for (name, value) in fields {
            hasher.update(format!("{}:{}={value}\n", name.len(), name));
        }
        format!("{:x}", hasher.finalize())
    }

    /// The differences, one phrase for each field (`imgsz was 768 and is 1024`); empty if equal.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let absent = Value::from("absent");
        let names =
            self.fields.keys().chain(now.fields.keys().filter(|n| !self.fields.contains_key(*n)));
        names
            .filter_map(|name| {
                let old = self.fields.get(name).unwrap_or(&absent);
                let new = now.fields.get(name).unwrap_or(&absent);
                (old != new).then(|| format!("{name} was {old} and is {new}"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_knows_values_but_not_their_order() {
        let a = Configuration::default().with("imgsz", 768).with("precision", "fp16");
        let b = Configuration::default().with("precision", "fp16").with("imgsz", 768);
        assert_eq!(a.sha256(), b.sha256());
        assert_ne!(a.sha256(), b.with("imgsz", 1024).sha256());
    }

    #[test]
    fn clips_and_objects_of_two_runs_are_put_together_and_nothing_else() {
        let run = |videos: &[&str], limit: u64, seed: u64| {
            let run = Configuration::default().with("videos", videos.to_vec());
            run.with("limit_objects", limit).with("seed", seed)
        };
        let earlier = run(&["a", "b"], 2, 1);
        for (videos, limit, joined, both) in [
            (&["c", "b", "a"][..], 3, &["c", "b", "a"][..], 3),
            (&["b"], 1, &["a", "b"], 2),
            (&["c", "a"], 0, &["a", "b", "c"], 0),
        ] {
            let found = run(videos, limit, 7).beside(&earlier);
            assert_eq!(found, run(joined, both, 7));
            assert_eq!(earlier.clone().of_selection(&found), run(joined, both, 1));
        }
        // If neither names clips, there is nothing to unite.
        let plain = Configuration::default().with("seed", 1);
        assert_eq!(plain.clone().beside(&earlier), plain);
        assert_eq!(plain.clone().of_selection(&earlier), plain);
    }

    #[test]
    fn differences_name_the_field_and_both_values() {
        let old = Configuration::default().with("imgsz", 768).with("seed", 1);
        let now = Configuration::default().with("imgsz", 1024).with("geometry", "stretch");
        assert_eq!(
            old.differences(&now),
            [
                "imgsz was 768 and is 1024",
                "seed was 1 and is \"absent\"",
                "geometry was \"absent\" and is \"stretch\""
            ]
        );
        assert!(old.differences(&old).is_empty());
    }
}
