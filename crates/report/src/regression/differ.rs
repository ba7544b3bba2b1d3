/*!
Differences that make two runs incomparable, each with a name by which the user may allow it.
*/

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::run::{ModelRun, ObjectRun, RunSummary};

/// One difference of two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name: `gpu`, `precision`, `threads`, …
    pub what: String,
    /// Its group: `machine`, `settings`, `model` or `clips`.
    pub group: &'static str,
    /// The affected model; `None` for all models.
    pub model: Option<String>,
    /// Value in the baseline; `None` if it has none.
    pub was: Option<String>,
    /// Value in the run; `None` if it has none.
    pub is: Option<String>,
}

impl Difference {
    /// Whether `word` of `--allow-different` means this difference: its name, or `machine` or
    /// `settings` for the whole group.
    pub fn is_meant_by(&self, word: &str) -> bool {
        self.what == word || (self.group == word && matches!(word, "machine" | "settings"))
    }

    /// The difference as part of a sentence.
    pub fn sentence(&self) -> String {
        self.between("the baseline")
    }

    /// The same, with a name for the earlier run.
    pub fn between(&self, before: &str) -> String {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let of = self.model.as_ref().map(|model| format!(" of {model}")).unwrap_or_default();
        format!(
            "{}{of}: {} in {before}, {} in this run",
            self.what,
            text(&self.was),
            text(&self.is)
        )
    }
}

/// For each model of the baseline the model of `now` with the same tag and the fewest differences;
/// each is used once.
pub(super) fn pairs<'a>(
    was: &'a RunSummary,
    now: &'a RunSummary,
) -> Vec<(&'a ModelRun, Option<&'a ModelRun>)> {
    let mut free: Vec<&ModelRun> = now.models.iter().collect();
    let mut partner = |model: &ModelRun| {
        let of_tag = free.iter().enumerate().filter(|(_, other)| other.model == model.model);
        let (at, _) = of_tag.min_by_key(|(_, other)| model_differences(model, other).len())?;
        Some(free.remove(at))
    };
    was.models.iter().map(|model| (model, partner(model))).collect()
}

/// All differences.
pub fn differences(was: &RunSummary, now: &RunSummary) -> Vec<Difference> {
    let mut found = maps("machine", None, &was.machine, &now.machine);
    found.extend(maps("settings", None, &was.settings, &now.settings));
    for (model, partner) in pairs(was, now) {
        match partner {
            Some(partner) => {
                found.extend(model_differences(model, partner));
                found.extend(clip_differences(model, partner));
            }
            None => found.push(Difference {
                what: "models".to_owned(),
                group: "model",
                model: Some(model.model.clone()),
                was: Some("there".to_owned()),
                is: None,
            }),
        }
    }
    found.extend(input_differences(was, now));
    found
}

fn model_differences(was: &ModelRun, now: &ModelRun) -> Vec<Difference> {
    let mut found = maps("model", Some(&was.model), &was.conditions, &now.conditions);
    if was.weights != now.weights {
        found.push(Difference {
            what: "weights".to_owned(),
            group: "model",
            model: Some(was.model.clone()),
            was: was.weights.clone(),
            is: now.weights.clone(),
        });
    }
    found
}

fn maps(
    group: &'static str,
    model: Option<&String>,
    was: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let names: BTreeSet<&String> = was.keys().chain(now.keys()).collect();
    let changed = names.into_iter().filter(|name| was.get(*name) != now.get(*name));
    let difference = |name: &String| Difference {
        what: name.clone(),
        group,
        model: model.cloned(),
        was: was.get(name).cloned(),
        is: now.get(name).cloned(),
    };
    changed.map(difference).collect()
}

/// Objects of only one side, and clips with another length.
fn clip_differences(was: &ModelRun, now: &ModelRun) -> Vec<Difference> {
    let keys = |model: &'_ ModelRun| -> BTreeSet<(String, String)> {
        let key = |object: &ObjectRun| (object.video.clone(), object.object.clone());
        model.objects.iter().map(key).collect()
    };
    let (before, after) = (keys(was), keys(now));
    let only = |one: &BTreeSet<(String, String)>, other: &BTreeSet<(String, String)>| {
        let names: Vec<_> = one.difference(other).map(|(v, o)| format!("{v}/{o}")).collect();
        names
    };
    let (gone, new) = (only(&before, &after), only(&after, &before));
    let model = Some(was.model.clone());
    let mut found = Vec::new();
    if !gone.is_empty() || !new.is_empty() {
        let text = |count: usize, own: &[String]| match own.first() {
            Some(first) => {
                format!("{count} objects, {} not in the other run, such as {first}", own.len())
            }
            None => format!("{count} objects"),
        };
        found.push(Difference {
            what: "clips".to_owned(),
            group: "clips",
            model: model.clone(),
            was: Some(text(before.len(), &gone)),
            is: Some(text(after.len(), &new)),
        });
    }
    let frames = |object: &ObjectRun| object.passes.first().map(|pass| pass.frames);
    let longer = was.objects.iter().find_map(|object| {
        let other = now.objects.iter().find(|other| other.key() == object.key())?;
        let (was, is) = frames(object).zip(frames(other))?;
        let of = |count| Some(format!("{count} for {}/{}", object.video, object.object));
        (was != is).then(|| (of(was), of(is)))
    });
    if let Some((was, is)) = longer {
        found.push(Difference { what: "frames".to_owned(), group: "clips", model, was, is });
    }
    found
}

/// Clips of both runs with different contents.
fn input_differences(was: &RunSummary, now: &RunSummary) -> Vec<Difference> {
    let changed: Vec<&String> = was
        .inputs
        .iter()
        .filter(|(name, hash)| now.inputs.get(*name).is_some_and(|other| other != *hash))
        .map(|(name, _)| name)
        .collect();
    let untold = was.inputs.is_empty() != now.inputs.is_empty();
    let Some(first) =
        changed.first().copied().or_else(|| was.inputs.keys().next().filter(|_| untold))
    else {
        return Vec::new();
    };
    let hash = |run: &RunSummary| {
        run.inputs.get(first).map(|hash| {
            format!(
                "sha256 {hash} for \
        {first}"
            )
        })
    };
    vec![Difference {
        what: "clips".to_owned(),
        group: "clips",
        model: None,
        was: hash(was),
        is: hash(now),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::PassSummary;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn object(video: &str, frames: usize) -> ObjectRun {
        let passes = vec![PassSummary { frames, duration_ms: 1.0, ..PassSummary::default() }];
        ObjectRun { video: video.to_owned(), object: "0".to_owned(), reason: None, passes }
    }

    fn model(tag: &str, precision: &str, objects: Vec<ObjectRun>) -> ModelRun {
        ModelRun {
            model: tag.to_owned(),
            conditions: map(&[("precision", precision), ("imgsz", "1024")]),
            weights: Some("checkpoint a.pt".to_owned()),
            graphs: vec!["1".to_owned()],
            objects,
        }
    }

    fn run() -> RunSummary {
        RunSummary {
            machine: map(&[("gpu", "H200"), ("driver", "580")]),
            settings: map(&[("threads", "4")]),
            inputs: map(&[("a/frames", "11"), ("b/frames", "22")]),
            models: vec![model("m", "fp16", vec![object("a", 9), object("b", 9)])],
            ..RunSummary::default()
        }
    }

    #[track_caller]
    fn assert_found(change: impl FnOnce(&mut RunSummary), sentences: &[&str]) {
        let mut now = run();
        change(&mut now);
        let found: Vec<_> = differences(&run(), &now).iter().map(Difference::sentence).collect();
        assert_eq!(found, sentences);
    }

    #[test]
    fn equal_runs_have_no_difference_even_with_other_graphs_and_versions() {
        assert_found(|_| {}, &[]);
        assert_found(|now| now.segtrt = "9.9".to_owned(), &[]);
        assert_found(|now| now.models[0].graphs.clear(), &[]);
        assert_found(|now| now.models.push(model("new", "fp16", vec![])), &[]);
    }

    #[test]
    fn each_difference_has_its_name_and_both_values() {
        assert_found(
            |now| {
                now.machine = map(&[("gpu", "H100")]);
                now.settings = map(&[("threads", "8"), ("provider", "cpu")]);
            },
            &[
                "driver: 580 in the baseline, unknown in this run",
                "gpu: H200 in the baseline, H100 in this run",
                "provider: unknown in the baseline, cpu in this run",
                "threads: 4 in the baseline, 8 in this run",
            ],
        );
        assert_found(
            |now| {
                now.models[0].conditions = map(&[("precision", "fp32"), ("imgsz", "1024")]);
                now.models[0].weights = None;
            },
            &[
                "precision of m: fp16 in the baseline, fp32 in this run",
                "weights of m: checkpoint a.pt in the baseline, unknown in this run",
            ],
        );
        assert_found(
            |now| now.models.clear(),
            &["models of m: there in the baseline, unknown in this run"],
        );
    }

    #[test]
    fn other_clips_longer_clips_and_changed_clips_are_seen() {
        assert_found(
            |now| now.models[0].objects = vec![object("a", 9), object("c", 9)],
            &["clips of m: 2 objects, 1 not in the other run, such as b/0 in the baseline, \
                 2 objects, 1 not in the other run, such as c/0 in this run"],
        );
        assert_found(
            |now| now.models[0].objects[1] = object("b", 5),
            &["frames of m: 9 for b/0 in the baseline, 5 for b/0 in this run"],
        );
        assert_found(
            |now| now.inputs = map(&[("a/frames", "11"), ("b/frames", "33")]),
            &["clips: sha256 22 for b/frames in the baseline, sha256 33 for b/frames in this run"],
        );
        assert_found(
            |now| now.inputs.clear(),
            &["clips: sha256 11 for a/frames in the baseline, unknown in this run"],
        );
    }

    #[test]
    fn a_model_in_two_configurations_is_paired_with_its_like() {
        let mut was = run();
        was.models.push(model("m", "fp32", was.models[0].objects.clone()));
        let mut now = was.clone();
        now.models.reverse();
        assert_eq!(differences(&was, &now), []);
        now.models.remove(0);
        let found: Vec<_> = differences(&was, &now).iter().map(|d| d.what.clone()).collect();
        assert_eq!(found, ["models"]);
    }

    #[test]
    fn a_word_means_one_name_or_a_whole_group() {
        let mut now = run();
        now.machine.clear();
        let found = differences(&run(), &now);
        assert!(found.iter().all(|difference| difference.is_meant_by("machine")));
        assert_eq!(found.iter().filter(|difference| difference.is_meant_by("gpu")).count(), 1);
        assert!(!found[0].is_meant_by("settings") && !found[0].is_meant_by("model"));
    }
}
