/*!
One side's results for one model: the same objects in every round, with their passes.
*/

use std::collections::BTreeMap;

use serde_json::Value;

use super::result::Outcome;
use crate::compare::runs::{Absence, PassRecord, PyTorch, RunFolder, Side, SummaryRow};
use vos::files::OTHER_DEVICES;
use vos::record::{Mode, ObjectKey};

/// The rounds in which a side measured a model.
#[derive(Debug)]
pub(super) struct SideResults<'a> {
    /// The side.
    pub name: &'a str,
    /// Model tag.
    pub model: &'a str,
    /// The first row of the first round. All rows have the same conditions.
    pub conditions: &'a SummaryRow,
    /// Its rounds.
    pub rounds: Vec<ModelRound<'a>>,
    /// Why further rounds are missing, if they are.
    pub stopped: Option<&'a Absence>,
}

/// A side whose work is the same as the reference's, or why it is not compared.
pub(super) type Admission<'a> = Result<SideResults<'a>, (Outcome, String)>;

/// One round's results for a model.
#[derive(Debug)]
pub(super) struct ModelRound<'a> {
    /// The run folder.
    pub folder: &'a RunFolder,
    /// Processes of the comparison that waited with the GPU open.
    pub waiting: usize,
    /// The rows with numbers.
    pub rows: Vec<&'a SummaryRow>,
    /// The passes of each object, by clip and object.
    pub objects: BTreeMap<ObjectKey, Vec<&'a PassRecord>>,
}

impl<'a> SideResults<'a> {
    /// The rounds of `side` that measured `model`; an error text if the side cannot be compared.
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
                    "{path}: graphs or weights differ from {}; measure all rounds again",
                    first.folder.path.display()
                ));
            }
            if let Some(what) = differing_setting(first.folder, round.folder) {
                return Err(format!(
                    "{path} is no round of the same side: {what}; name the folders apart \
                     (NAME=FOLDER)"
                ));
            }
            if !round.objects.keys().eq(first.objects.keys()) {
                return Err(format!(
                    "{path}: objects differ from {}; measure the same objects in all rounds of a \
                     side",
                    first.folder.path.display()
                ));
            }
            // Folders with the same name by accident are not rounds of one side.
            for row in &round.rows {
                if let Some(what) = differing_condition(conditions, row) {
                    return Err(format!(
                        "{path} is no round of the same side: {what}; name the folders apart \
                         (NAME=FOLDER)"
                    ));
                }
            }
        }
        let stopped = side.missing.get(model);
        Ok(Self { name: &side.name, model, conditions, rounds, stopped })
    }

    /// The number of its rounds, the expected number, and the reason for the difference; none if no
    /// round is missing.
    pub fn stopped_early(&self) -> Option<String> {
        let Absence { why, rounds } = self.stopped?;
        let (has, unknown) = (self.rounds.len(), "its rounds".to_owned());
        // Folders of several comparisons together may have more rounds than one of them requested.
        let wanted = rounds.filter(|wanted| *wanted > has);
        let wanted = wanted.map_or(unknown, |wanted| format!("its {wanted} rounds"));
        Some(format!("only {has} of {wanted} could be measured: {why}"))
    }

    /// The measured objects.
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

    /// PyTorch's implementation and mode; none for other sides.
    pub fn pytorch(&self) -> Option<PyTorch<'a>> {
        self.rounds.first()?.folder.pytorch()
    }

    /// Frames overlap, so their times are not latencies.
    pub fn overlapping(&self) -> bool {
        Mode::overlaps(&self.conditions.mode)
    }

    /// A text in the environment of its first round, such as `gpu/name`; none if it is empty or
    /// missing.
    pub fn fact(&self, path: &str) -> Option<String> {
        let (name, members) = path.split_once('/').unwrap_or((path, ""));
        let mut value = self.rounds.first()?.folder.environment.get(name)?;
        for member in members.split('/').filter(|member| !member.is_empty()) {
            value = value.get(member)?;
        }
        value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A GPU ran the network, according to the rows.
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
                // An object without a prompt is skipped on every side.
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
                    "the sidecar in {} has no pass over {} object {}; measure again",
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

/// Settings that affect the times and are in no row, each with its value in folders that do not
/// name it, if known.
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

/// The first setting that differs between two rounds of a side.
fn differing_setting(a: &RunFolder, b: &RunFolder) -> Option<String> {
    SETTINGS.into_iter().find_map(|(name, usual)| {
        let setting = |folder: &RunFolder| {
            let (first, member) = name.split_once('/').unwrap_or((name, ""));
            let value = folder.configuration.get(first);
            let value = if member.is_empty() { value } else { value.and_then(|v| v.get(member)) };
            let value = value.filter(|value| !value.is_null()).map(Value::to_string);
            value.or_else(|| usual.map(str::to_owned))
        };
        let (x, y) = (setting(a)?, setting(b)?);
        (x != y).then(|| format!("{name} is {y} there and {x} in the first round"))
    })
}

/// The first condition that differs between two rows of a side.
fn differing_condition(a: &SummaryRow, b: &SummaryRow) -> Option<String> {
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
    Some(format!("{name} is {b:?} there and {a:?} in the first round"))
}
