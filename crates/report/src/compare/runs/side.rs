/*!
Sides and rounds: which folders stand for which contestant.
*/

use std::collections::BTreeMap;

use super::declared::Declared;
use super::folder::RunFolder;

/// One contestant: the same thing measured in one or more rounds.
#[derive(Clone, Debug)]
pub struct Side {
    /// Its name in tables.
    pub name: String,
    /// Its folders in the order of the rounds. A folder may hold one model or several.
    pub rounds: Vec<Round>,
    /// Models that it could not measure, or not to the end.
    pub missing: BTreeMap<String, Absence>,
    /// What it is said to be; its folders must be that.
    pub declared: Declared,
}

/// Why a side has nothing, or nothing more, of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The reason.
    pub why: String,
    /// Rounds that it was to have, as far as known.
    pub rounds: Option<usize>,
}

/// One round of a side.
#[derive(Clone, Debug)]
pub struct Round {
    /// What was measured.
    pub folder: RunFolder,
    /// Own processes that waited meanwhile and had the GPU open: they count as processes on the GPU
    /// and do nothing.
    pub waiting: usize,
}

/// What all masks are compared with.
#[derive(Clone, Debug)]
pub enum Reference {
    /// A run of its own, which no speed is taken from.
    Run(Side),
    /// The side of that name, its first round.
    Side(String),
}

impl Reference {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Run(side) => &side.name,
            Self::Side(name) => name,
        }
    }
}

/// Everything that is to be judged together.
#[derive(Clone, Debug)]
pub struct Set {
    /// The contestants; the first one is the subject.
    pub sides: Vec<Side>,
    /// The same contestants with the reference's logits in their memories, for a drift curve and
    /// nothing else; those that were run so.
    pub teacher_forced: Vec<Side>,
    /// What all masks are compared with.
    pub reference: Reference,
    /// Rounds are known to have been measured in turn.
    pub interleaved: bool,
    /// When it was measured, UTC dates, as far as known.
    pub dates: Vec<String>,
}

impl Set {
    /// Model tags in the order in which they first appear.
    pub fn models(&self) -> Vec<String> {
        let mut models: Vec<String> = Vec::new();
        for side in &self.sides {
            let there = side.rounds.iter().flat_map(|round| round.folder.models());
            for model in there.chain(side.missing.keys().map(String::as_str)) {
                if !models.iter().any(|known| known == model) {
                    models.push(model.to_owned());
                }
            }
        }
        models
    }

    /// The side that is the reference, or the run that is.
    pub fn reference_side(&self) -> Option<&Side> {
        match &self.reference {
            Reference::Run(side) => Some(side),
            Reference::Side(name) => self.sides.iter().find(|side| side.name == *name),
        }
    }
}

impl Side {
    /// A side without rounds that is what its name says.
    pub fn new(name: &str) -> Self {
        let declared = Declared::by_name(name);
        Self { name: name.to_owned(), rounds: Vec::new(), missing: BTreeMap::new(), declared }
    }

    /// The rounds that measured `model`.
    pub fn rounds_of<'a>(&'a self, model: &'a str) -> impl Iterator<Item = &'a Round> {
        self.rounds
            .iter()
            .filter(move |round| round.folder.rows.iter().any(|row| row.model == model))
    }

    /// Whether every row of it was made in single precision.
    pub fn is_fp32(&self) -> bool {
        let mut rows = self.rounds.iter().flat_map(|round| &round.folder.rows).peekable();
        rows.peek().is_some() && rows.all(|row| row.precision == "fp32")
    }
}
