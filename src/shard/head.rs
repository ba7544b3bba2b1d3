/*!
The sidecar's members that are not passes, of one shard and of all together.

What is the same on all shards is said once; what differs (hosts, GPUs, addresses) is left out there
and stands in the list of the shards, so that no shard speaks for the others.
*/

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use vos::files::{FileHash, SIDECAR};
use vos::record::ModelMemory;

/// A sidecar without its passes, which are read over.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Head {
    pub environment: Map<String, Value>,
    pub timed_region: String,
    pub inputs: BTreeMap<String, FileHash>,
    pub graphs: BTreeMap<String, FileHash>,
    pub memory: BTreeMap<String, ModelMemory>,
}

impl Head {
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(SIDECAR);
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_reader(BufReader::new(file))
            .with_context(|| format!("{} is damaged", path.display()))
    }
}

/// The members that all have with the same value; objects are joined member by member.
pub fn joined<'a>(mut all: impl Iterator<Item = &'a Map<String, Value>>) -> Map<String, Value> {
    let Some(mut common) = all.next().cloned() else { return Map::new() };
    for other in all {
        common = common_of(&common, other);
    }
    common
}

fn common_of(a: &Map<String, Value>, b: &Map<String, Value>) -> Map<String, Value> {
    let both = |(name, a): (&String, &Value)| {
        let value = match (a, b.get(name)?) {
            (a, b) if a == b => a.clone(),
            (Value::Object(a), Value::Object(b)) => common_of(a, b).into(),
            _ => return None,
        };
        Some((name.clone(), value))
    };
    a.iter().filter_map(both).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_shard_speaks_for_the_others() {
        let a =
            json!({"host": "n1", "kernel": "6.1", "gpu": {"name": "H200", "uuid": "a"}, "only": 1});
        let b = json!({"host": "n2", "kernel": "6.1", "gpu": {"name": "H200", "uuid": "b"}});
        let all = [a.as_object().unwrap(), b.as_object().unwrap()];
        let expected = json!({"kernel": "6.1", "gpu": {"name": "H200"}});
        assert_eq!(Value::from(joined(all.into_iter())), expected);
        assert_eq!(joined(all[..1].iter().copied()), *all[0]);
        assert!(joined(std::iter::empty()).is_empty());
    }
}
