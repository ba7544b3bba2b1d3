/*!
The sides of a comparison and their rounds.
*/

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::declared::Declared;
use super::folder::RunFolder;
use host::UsageError;

/// Folder of the reference's run that saved its logits.
pub const TEACHER_FOLDER: &str = "teacher";
/// Folder of a side's teacher-forced run.
pub const FORCED_FOLDER: &str = "teacher_forced";

/// One side, measured in one or more rounds.
#[derive(Clone, Debug)]
pub struct Side {
    /// Its name in tables.
    pub name: String,
    /// Its run folders in the order of the rounds. A folder may have one model or several.
    pub rounds: Vec<Round>,
    /// Models that it could not measure, or not in all rounds.
    pub missing: BTreeMap<String, Absence>,
    /// Its claimed mode, precision and device, which its folders must match.
    pub declared: Declared,
}

/// Why rounds of a model are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The reason.
    pub why: String,
    /// Expected number of rounds, if known.
    pub rounds: Option<usize>,
}

/// One round of a side.
#[derive(Clone, Debug)]
pub struct Round {
    /// The run folder.
    pub folder: RunFolder,
    /// Processes of the comparison that waited with the GPU open. They count as processes on the
    /// GPU and have no work there.
    pub waiting: usize,
}

/// The run with which all masks are compared.
#[derive(Clone, Debug)]
pub enum Reference {
    /// A separate run, whose speed is not used.
    Run(Side),
    /// The first round of the side with that name.
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

/// All sides that are judged together.
#[derive(Clone, Debug)]
pub struct Set {
    /// The sides; the first one is the subject.
    pub sides: Vec<Side>,
    /// The sides' teacher-forced runs, for a second drift curve only.
    pub teacher_forced: Vec<Side>,
    /// The run with which all masks are compared.
    pub reference: Reference,
    /// The rounds were measured in turn, as far as known.
    pub interleaved: bool,
    /// UTC dates of the measurements, if known.
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

    /// The side or run that is the reference.
    pub fn reference_side(&self) -> Option<&Side> {
        match &self.reference {
            Reference::Run(side) => Some(side),
            Reference::Side(name) => self.sides.iter().find(|side| side.name == *name),
        }
    }
}

impl Side {
    /// A side without rounds whose claims follow from its name.
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

    /// Whether every row of it is fp32.
    pub fn is_fp32(&self) -> bool {
        let mut rows = self.rounds.iter().flat_map(|round| &round.folder.rows).peekable();
        rows.peek().is_some() && rows.all(|row| row.precision == "fp32")
    }
}

/// Reads the reference's folder.
///
/// # Errors
/// It cannot be read.
pub(super) fn reference_run(path: &Path, sides: &[Side]) -> Result<Side> {
    let mut side = Side::new(&folder_name(path));
    // The name is the folder's, and the side claims nothing: of a reference only the precision
    // counts, and that is checked.
    side.declared = Declared::default();
    // A run with a side's name would be mistaken for that side in tables.
    if sides.iter().any(|known| known.name == side.name) {
        side.name = format!("reference {}", side.name);
    }
    let folder = RunFolder::read(path)?;
    if folder.is_teacher_forced() {
        return Err(UsageError(format!(
            "{} is teacher-forced and cannot be the reference; name a free run",
            path.display()
        ))
        .into());
    }
    side.rounds.push(Round { folder, waiting: 0 });
    Ok(side)
}

/// A folder's name; rounds have the name of the folder above them.
pub(super) fn folder_name(path: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut at = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let inner = |name: &str| is_round(name) || [TEACHER_FOLDER, FORCED_FOLDER].contains(&name);
    while name(&at).is_some_and(|name| inner(&name)) && at.pop() {}
    name(&at).unwrap_or_else(|| path.display().to_string())
}

fn is_round(name: &str) -> bool {
    let number = name.strip_prefix("from_").unwrap_or(name).strip_prefix("round_");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_named_after_their_folder() {
        assert_eq!(folder_name(Path::new("/x/eager/from_round_3/round_1")), "eager");
        assert_eq!(folder_name(Path::new("/x/eager/round_12")), "eager");
        assert_eq!(folder_name(Path::new("/x/eager/")), "eager");
        assert_eq!(folder_name(Path::new("/x/eager/teacher_forced/round_0")), "eager");
        assert_eq!(folder_name(Path::new("/x/round_trip")), "round_trip");
    }
}
