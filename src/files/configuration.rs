/*!
The settings of a run as named values, to tell whether an interrupted run may be continued.
*/

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Everything that decides what the rows of a run mean (models, image size, precision, split, …).
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

    /// With one more field; a second value for a name replaces the first.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// With all fields of another one after its own.
    pub fn and(mut self, more: Self) -> Self {
        self.fields.extend(more.fields);
        self
    }

    /// sha256 in hex of the fields sorted by name; the order they were added in has no part in it.
    pub fn sha256(&self) -> String {
        let mut fields: Vec<_> = self.fields.iter().collect();
        fields.sort_by_key(|(name, _)| *name);
        let mut hasher = Sha256::new();
        for (name, value) in fields {
            hasher.update(format!("{}:{}={value}\n", name.len(), name));
        }
        format!("{:x}", hasher.finalize())
    }

    /// What differs, one sentence part per field (`imgsz was 768 and is 1024`); empty when equal.
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
