/*!
`measured.json`: the folder of each side and round in a comparison's directory, and the failures.

It is rewritten after every round, so that an interrupted comparison can continue. Paths in it are
relative: the directory can be moved to another machine and judged there.
*/

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::declared::Declared;
use super::folder::RunFolder;
use super::side::{Absence, Reference, Round, Set, Side, reference_run};
use crate::compare::utc_date;
use vos::files::{Configuration, atomic};

/// File name.
pub const FILE_NAME: &str = "measured.json";

const FORMAT: &str = "segtrt comparison 1";

/// The state of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    format: String,
    /// The settings of the comparison; to continue it they must be the same.
    pub configuration: Configuration,
    /// The settings of each side; they must be the same too.
    pub side_settings: BTreeMap<String, Configuration>,
    /// The sides in the order of the tables; the first one is the subject.
    pub sides: Vec<String>,
    /// The reference: a side, a further run, or a folder.
    pub reference: String,
    /// Finished rounds in the order in which they were measured.
    pub runs: Vec<MeasuredRun>,
    /// Models that sides could not measure.
    pub missing: Vec<Missing>,
    /// Runs of the reference that saved their logits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub teachers: Vec<MeasuredRun>,
    /// Runs of the other sides with these logits in their memories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub teacher_forced: Vec<MeasuredRun>,
    /// Sides without a teacher-forced run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untaught: Vec<Missing>,
}

/// One finished round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRun {
    /// Model tag.
    pub model: String,
    /// Side.
    pub side: String,
    /// Number of the round, from 1.
    pub round: usize,
    /// Its run folder, relative to the comparison's directory.
    pub folder: PathBuf,
    /// When it began, seconds since 1970.
    pub started_unix_s: u64,
    /// When it ended, seconds since 1970.
    pub ended_unix_s: u64,
    /// Runners of the comparison that waited with the GPU open.
    pub waiting: usize,
}

/// A model that a side could not measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Model tag.
    pub model: String,
    /// Side.
    pub side: String,
    /// Why.
    pub why: String,
    /// Expected number of rounds, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<usize>,
}

impl Measured {
    /// A comparison without measurements.
    pub fn new(
        configuration: Configuration,
        side_settings: BTreeMap<String, Configuration>,
        sides: Vec<String>,
        reference: String,
    ) -> Self {
        Self {
            format: FORMAT.to_owned(),
            configuration,
            side_settings,
            sides,
            reference,
            runs: Vec::new(),
            missing: Vec::new(),
            teachers: Vec::new(),
            teacher_forced: Vec::new(),
            untaught: Vec::new(),
        }
    }

    /// Reads it from a comparison's directory; `None` if there is none.
    ///
    /// # Errors
    /// The file is damaged or has another format.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(FILE_NAME);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let found: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{} is damaged; choose another --out-dir", path.display()))?;
        if found.format != FORMAT {
            bail!(
                "{}: found format {:?}, expected {FORMAT:?}; choose another \
                   --out-dir",
                path.display(),
                found.format
            );
        }
        Ok(Some(found))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The disk is full or the directory is not writable.
    pub fn write(&self, directory: &Path) -> Result<()> {
        atomic::write(&directory.join(FILE_NAME), |out| {
            Ok(serde_json::to_writer_pretty(out, self)?)
        })
    }

    /// Whether that round exists.
    pub fn has(&self, model: &str, side: &str, round: usize) -> bool {
        self.runs.iter().any(|run| run.model == model && run.side == side && run.round == round)
    }

    /// Reads everything that was measured in `directory`.
    ///
    /// # Errors
    /// A folder in the list is missing or damaged.
    pub fn set(&self, directory: &Path) -> Result<Set> {
        let rounds = |name: &str, all: &[MeasuredRun], missing: &[Missing]| -> Result<Side> {
            let mut side = Side::new(name);
            if let Some(settings) = self.side_settings.get(name) {
                side.declared = Declared::by_settings(settings);
            }
            let mut runs: Vec<_> = all.iter().filter(|run| run.side == name).collect();
            runs.sort_by_key(|run| run.round);
            for run in runs {
                let folder = RunFolder::read(&directory.join(&run.folder))?;
                side.rounds.push(Round { folder, waiting: run.waiting });
            }
            let missing = missing.iter().filter(|missing| missing.side == name);
            let absence = |m: &Missing| Absence { why: m.why.clone(), rounds: m.rounds };
            side.missing = missing.map(|m| (m.model.clone(), absence(m))).collect();
            Ok(side)
        };
        let read = |name: &str| rounds(name, &self.runs, &self.missing);
        let mut dates: Vec<String> =
            self.runs.iter().map(|run| utc_date::utc_date(run.started_unix_s)).collect();
        dates.sort();
        dates.dedup();
        let sides: Vec<Side> = self.sides.iter().map(|name| read(name)).collect::<Result<_>>()?;
        let forced =
            self.sides.iter().map(|name| rounds(name, &self.teacher_forced, &self.untaught));
        let forced: Vec<Side> = forced.collect::<Result<_>>()?;
        let name = &self.reference;
        let measured = self.runs.iter().any(|run| run.side == *name);
        let reference = match (self.sides.contains(name), measured) {
            (true, _) => Reference::Side(name.clone()),
            // A folder is stored with its absolute path, a run by its name. A folder with the name
            // of a run is not the reference.
            (false, false) if Path::new(name).is_absolute() && Path::new(name).is_dir() => {
                Reference::Run(reference_run(Path::new(name), &sides)?)
            }
            (false, _) => Reference::Run(read(name)?),
        };
        let has_results = |side: &Side| !side.rounds.is_empty() || !side.missing.is_empty();
        let teacher_forced = forced.into_iter().filter(has_results).collect();
        let interleaved = self.is_in_turn();
        Ok(Set { sides, teacher_forced, reference, interleaved, dates })
    }

    /// Whether the sides' rounds alternated. They did not if a side or a removed round was measured
    /// after all others were finished.
    fn is_in_turn(&self) -> bool {
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        let mut runs = self.runs.iter().filter(|run| self.sides.contains(&run.side));
        runs.all(|run| last.insert(&run.model, run.round).is_none_or(|before| before <= run.round))
    }
}
