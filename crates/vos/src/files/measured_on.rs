/*!
The machine, data and library of a row. The journal stores them with each row, so that a resumed run
never mixes rows of different ones in a table.
*/

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::record::ObjectKey;

/// The name of a teacher's logits among the data. Only requested objects are hashed, so logits
/// count if both sides know them; with and without a teacher are different configurations.
pub const TEACHER: &str = "teacher's logits";

/// Named values, such as `host` or `frames`.
pub type Facts = BTreeMap<String, String>;

/// Most differences in a refusal; the others are counted.
const NAMED: usize = 8;

/// Characters of a hash in a refusal.
const SHOWN: usize = 12;

/// The machine, data and library of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredOn {
    /// Host, processor, version of segtrt.
    #[serde(default)]
    pub machine: Facts,
    /// sha256 of the inputs: the clip's frames, the object's masks.
    #[serde(default)]
    pub data: Facts,
    /// The library that ran the model; empty if no worker loaded one.
    #[serde(default)]
    pub library: Facts,
}

impl MeasuredOn {
    /// The differences of machine and data, one phrase each; `None` for a removed object.
    pub(super) fn differences(&self, key: &ObjectKey, now: Option<&Self>) -> Vec<String> {
        let ObjectKey { video, object, .. } = key;
        let Some(now) = now else {
            return vec![format!("object {object} of {video} is gone from the split")];
        };
        let of_machine = differing(&self.machine, &now.machine, true)
            .map(|(name, then, now)| format!("{name} was {then:?} and is {now:?}"));
        let of_data = differing(&self.data, &now.data, true).map(|(name, then, now)| {
            let [then, now] = [then, now].map(|hash| hash.get(..SHOWN).unwrap_or(hash));
            let of = if name == "frames" { String::new() } else { format!("object {object} of ") };
            format!("the {name} of {of}{video} were sha256 {then} and are {now}")
        });
        of_machine.chain(of_data).collect()
    }

    /// The differences of the library. A fact that only one side has, such as a driver whose
    /// sensors could not be read, does not count.
    pub(super) fn other_library(&self, now: &Facts) -> Vec<String> {
        differing(&self.library, now, false)
            .map(|(name, then, now)| format!("{name} was {then:?} and is {now:?}"))
            .collect()
    }
}

/// Name, old and new value of each difference; with `strict` also facts that one side lacks.
fn differing<'a>(
    then: &'a Facts,
    now: &'a Facts,
    strict: bool,
) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
    const UNKNOWN: &str = "unknown";
    let names = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name)));
    names.filter_map(move |name| {
        let [old, new] = [then, now].map(|facts| facts.get(name).map(String::as_str));
        let counts = strict && name != TEACHER || old.is_some() && new.is_some();
        (counts && old != new)
            .then(|| (name.as_str(), old.unwrap_or(UNKNOWN), new.unwrap_or(UNKNOWN)))
    })
}

/// Why rows may not be continued, and what to do. Each difference is named once for all its rows.
pub(super) fn refusal(journal: &Path, differences: Vec<String>) -> anyhow::Error {
    let mut named: Vec<String> = Vec::new();
    for difference in differences {
        if !named.contains(&difference) {
            named.push(difference);
        }
    }
    let more = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    anyhow::anyhow!(
        "{} has rows from another machine, data or library: {}; one table must not mix them. \
         Resume with the same ones, choose another --out-dir, or run without \
         --resume, which keeps these rows as {}",
        journal.display(),
        named.join(", "),
        super::PREVIOUS_JOURNAL
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> Facts {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn key() -> ObjectKey {
        ObjectKey { video: "v".into(), object: "0".into(), tag: "m".into() }
    }

    #[test]
    fn every_fact_of_machine_and_data_counts_and_a_missing_one_too() {
        let then = MeasuredOn {
            machine: facts(&[("host", "a"), ("segtrt", "1")]),
            data: facts(&[("frames", "0123456789abcdef"), ("masks", "1")]),
            library: facts(&[("library", "x")]),
        };
        assert!(then.differences(&key(), Some(&then)).is_empty());
        let now = MeasuredOn {
            machine: facts(&[("host", "b"), ("segtrt", "1")]),
            data: facts(&[("frames", "ff")]),
            library: Facts::new(),
        };
        assert_eq!(
            then.differences(&key(), Some(&now)),
            [
                "host was \"a\" and is \"b\"",
                "the frames of v were sha256 0123456789ab and are ff",
                "the masks of object 0 of v were sha256 1 and are unknown"
            ]
        );
        let taught = |hash: &str| MeasuredOn { data: facts(&[(TEACHER, hash)]), ..then.clone() };
        let untaught = MeasuredOn { data: Facts::new(), ..then.clone() };
        assert_eq!(taught("1").differences(&key(), Some(&taught("2"))).len(), 1);
        assert!(taught("1").differences(&key(), Some(&untaught)).is_empty());
        assert_eq!(then.differences(&key(), None), ["object 0 of v is gone from the split"]);
    }

    #[test]
    fn of_the_library_counts_what_both_tell() {
        let then = MeasuredOn { library: facts(&[("library", "1.2")]), ..MeasuredOn::default() };
        assert!(then.other_library(&facts(&[("library", "1.2"), ("driver", "5")])).is_empty());
        let other = then.other_library(&facts(&[("library", "1.3")]));
        assert_eq!(other, ["library was \"1.2\" and is \"1.3\""]);
        assert!(MeasuredOn::default().other_library(&facts(&[("library", "1.3")])).is_empty());
    }

    #[test]
    fn a_refusal_names_each_difference_once_and_counts_the_rest() {
        let many = (0..20).flat_map(|n| [format!("d{n}"), "host".to_owned()]).collect();
        let text = refusal(Path::new("o/rows.jsonl"), many).to_string();
        assert!(text.starts_with("o/rows.jsonl has rows"), "{text}");
        assert!(text.contains("d0, host, d1, d2, d3, d4, d5, d6, 13 more;"), "{text}");
        assert!(text.contains("--out-dir") && text.contains("rows.previous.jsonl"), "{text}");
    }
}
