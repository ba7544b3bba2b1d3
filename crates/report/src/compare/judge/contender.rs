/*!
One side as one model saw it: the same objects in every round, with their passes.
*/

use std::collections::BTreeMap;

use serde_json::Value;

use crate::compare::runs::{Absence, PassRecord, Row, RunFolder, Side};
use vos::files::OTHER_DEVICES;
use vos::record::ObjectKey;

/// The rounds of a side that measured a model.
#[derive(Debug)]
pub(super) struct Contender<'a> {
    /// The side.
    pub name: &'a str,
    /// Model tag.
    pub model: &'a str,
    /// The first row of the first round: the conditions, which are the same in all rows.
    pub conditions: &'a Row,
    /// Its rounds.
    pub rounds: Vec<ModelRound<'a>>,
    /// Why it has no further rounds, where some are missing.
    pub stopped: Option<&'a Absence>,
}

/// What one round has of a model.
#[derive(Debug)]
pub(super) struct ModelRound<'a> {
    /// The run.
    pub folder: &'a RunFolder,
    /// Own processes that waited with the GPU open.
    pub waiting: usize,
    /// The rows with numbers.
    pub rows: Vec<&'a Row>,
    /// The passes of each object, by clip and object.
    pub objects: BTreeMap<ObjectKey, Vec<&'a PassRecord>>,
}

impl<'a> Contender<'a> {
    /// The rounds of `side` that measured `model`; a sentence where they cannot be compared with
    /// anything.
    pub fn of(side: &'a Side, model: &'a str) -> Result<Self, String> {
        let rounds: Vec<ModelRound<'a>> = side
            .rounds_of(model)
            .map(|round| ModelRound::of(&round.folder, round.waiting, model))
            .collect::<Result<_, _>>()?;
        let Some(first) = rounds.first() else {
            let why = side.missing.get(model).map(|absence| absence.why.clone());
            return Err(why.unwrap_or_else(|| "it was not measured".to_owned()));
        };
        let conditions = *first.rows.first().ok_or("no object of it was measured")?;
        let made_of = |round: &ModelRound<'_>| {
            let entry = round.folder.model_entry(model);
            entry.map(|entry| ["weights", "graphs"].map(|member| entry.get(member).cloned()))
        };
        for round in &rounds {
            let path = round.folder.path.display();
            if let Some(what) = side.declared.contradiction(round.folder, model) {
                return Err(format!("{path} {what}"));
            }
            if made_of(round) != made_of(first) {
                return Err(format!(
                    "{path} ran other graphs or weights than {}; measure all rounds anew",
                    first.folder.path.display()
                ));
            }
            if let Some(what) = differing_setting(first.folder, round.folder) {
                return Err(format!(
                    "{path} is no round of the same side: {what}; give the folders names of their own (NAME=FOLDER)"
                ));
            }
            if !round.objects.keys().eq(first.objects.keys()) {
                return Err(format!(
                    "{path} measured other objects than {}; the rounds of a side must be of the same objects",
                    first.folder.path.display()
                ));
            }
            // Folders that share a name by accident are not rounds of one side.
            for row in &round.rows {
                if let Some(what) = differing_condition(conditions, row) {
                    return Err(format!(
                        "{path} is no round of the same side: {what}; give the folders names of their own (NAME=FOLDER)"
                    ));
                }
            }
        }
        let stopped = side.missing.get(model);
        Ok(Self { name: &side.name, model, conditions, rounds, stopped })
    }

    /// How many rounds it has of those that it was to have, and why no more; none where nothing is
    /// missing.
    pub fn stopped_early(&self) -> Option<String> {
        let Absence { why, rounds } = self.stopped?;
        let (has, unknown) = (self.rounds.len(), "its rounds".to_owned());
        // Folders of several comparisons may be more than one of them asked for.
        let wanted = rounds.filter(|wanted| *wanted > has);
        let wanted = wanted.map_or(unknown, |wanted| format!("its {wanted} rounds"));
        Some(format!("only {has} of {wanted} could be measured: {why}"))
    }

    /// The objects that were measured.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        self.rounds.iter().take(1).flat_map(|round| round.objects.keys())
    }

    /// Every pass with the round that it belongs to.
    pub fn passes(&self) -> impl Iterator<Item = (&ModelRound<'a>, &'a PassRecord)> {
        self.rounds
            .iter()
            .flat_map(|round| round.objects.values().flatten().map(move |pass| (round, *pass)))
    }

    /// The first pass over an object.
    pub fn first_pass(&self, key: &ObjectKey) -> Option<&'a PassRecord> {
        self.rounds.first()?.objects.get(key)?.first().copied()
    }

    /// Frames overlap, so that their times are no latencies.
    pub fn overlapping(&self) -> bool {
        self.conditions.mode == "throughput"
    }

    /// A text in the environment of its first round, such as `gpu/name`; none where it is empty or
    /// not there.
    pub fn fact(&self, path: &str) -> Option<String> {
        let (name, members) = path.split_once('/').unwrap_or((path, ""));
        let mut value = self.rounds.first()?.folder.environment.get(name)?;
        for member in members.split('/').filter(|member| !member.is_empty()) {
            value = value.get(member)?;
        }
        value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A GPU ran the network, as far as the rows tell.
    pub fn on_gpu(&self) -> bool {
        !self.conditions.device.is_empty() && !self.conditions.is_on_cpu()
    }
}

impl<'a> ModelRound<'a> {
    fn of(folder: &'a RunFolder, waiting: usize, model: &str) -> Result<Self, String> {
        let mut rows = Vec::new();
        for row in folder.rows.iter().filter(|row| row.model == model) {
            match row.status.as_str() {
                "ok" => rows.push(row),
                // An object without a prompt is one for every side.
                "skipped" => {}
                status => {
                    return Err(format!(
                        "{} object {} {status} in {}: {}",
                        row.video,
                        row.object,
                        folder.path.display(),
                        row.reason
                    ));
                }
            }
        }
        let mut objects = BTreeMap::new();
        for row in &rows {
            let key = row.key();
            let passes: Vec<&PassRecord> =
                folder.passes.iter().filter(|pass| pass.key == key).collect();
            if passes.iter().all(|pass| pass.frames.is_empty()) {
                return Err(format!(
                    "the sidecar in {} has no pass over {} object {}",
                    folder.path.display(),
                    key.video,
                    key.object
                ));
            }
            objects.insert(key, passes);
        }
        Ok(Self { folder, waiting, rows, objects })
    }
}

/// Settings that decide what is timed, and are in no row; with what a folder that does not say one
/// of them had, where that is known.
const SETTINGS: [(&str, Option<&str>); 9] = [
    ("decode", Some("\"ahead\"")),
    ("predecoded", Some("not set")),
    (OTHER_DEVICES, Some("0")),
    ("gpu/objects_together", Some("1")),
    ("warmup_runs", None),
    ("compile_mode", None),
    ("cudnn_benchmark", None),
    ("tuning", None),
    ("keep_memories", None),
];

/// What must be the same in all rounds of a side and is not.
fn differing_setting(a: &RunFolder, b: &RunFolder) -> Option<String> {
    SETTINGS.into_iter().find_map(|(name, usual)| {
        let told = |folder: &RunFolder| {
            let (first, member) = name.split_once('/').unwrap_or((name, ""));
            let value = folder.configuration.get(first);
            let value = if member.is_empty() { value } else { value.and_then(|v| v.get(member)) };
            let value = value.filter(|value| !value.is_null()).map(Value::to_string);
            value.or_else(|| usual.map(str::to_owned))
        };
        let (x, y) = (told(a)?, told(b)?);
        (x != y).then(|| format!("{name} is {y} there and {x} elsewhere"))
    })
}

/// What must be the same in all rows of a side and is not.
fn differing_condition(a: &Row, b: &Row) -> Option<String> {
    let pairs = [
        ("imgsz", &a.imgsz, &b.imgsz),
        ("precision", &a.precision, &b.precision),
        ("backend", &a.backend, &b.backend),
        ("device", &a.device, &b.device),
        ("mode", &a.mode, &b.mode),
        ("geometry", &a.geometry, &b.geometry),
        ("prompt_policy", &a.prompt_policy, &b.prompt_policy),
        ("fidelity", &a.fidelity, &b.fidelity),
    ];
    let (name, a, b) = pairs.into_iter().find(|(_, a, b)| a != b)?;
    Some(format!("{name} is {b:?} there and {a:?} elsewhere"))
}
