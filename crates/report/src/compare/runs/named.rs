/*!
Folders as they are typed: `name=folder`, repeated names are rounds, and a whole comparison's
directory brings its own names.
*/

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;

use super::declared::Declared;
use super::folder::RunFolder;
use super::measured::{FILE_NAME, Measured};
use super::side::{Reference, Round, Set, Side};
use crate::compare::date;
use host::UsageError;

/// A folder and the side that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFolder {
    /// The name where one was typed.
    pub name: Option<String>,
    /// The folder.
    pub path: PathBuf,
}

impl FromStr for NamedFolder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = match text.split_once('=') {
            // An equals sign in a folder's own path names nothing.
            Some((name, path)) if !name.contains('/') => (Some(name.to_owned()), path),
            _ => (None, text),
        };
        if path.is_empty() || name.as_deref() == Some("") {
            return Err(format!("{text:?} is not FOLDER or NAME=FOLDER"));
        }
        Ok(Self { name, path: path.into() })
    }
}

/// The name of a side's run that saved its logits, and of one that took a teacher's.
pub const TEACHER_FOLDER: &str = "teacher";
/// See [`TEACHER_FOLDER`].
pub const FORCED_FOLDER: &str = "teacher_forced";

/// What was asked of the reference.
#[derive(Clone, Debug, Default)]
pub struct AskedReference {
    /// A run of its own.
    pub run: Option<PathBuf>,
    /// A side by name.
    pub side: Option<String>,
}

/// Reads all folders and sorts them into sides, in the order in which the names first appear;
/// `subject` comes first.
///
/// # Errors
/// A folder cannot be read, a name is unknown, or nothing is in single precision to compare with.
pub fn gather(
    folders: &[NamedFolder],
    asked: &AskedReference,
    subject: Option<&str>,
) -> Result<Set> {
    let mut sides: Vec<Side> = Vec::new();
    let mut taught: Vec<Side> = Vec::new();
    let mut brought: Option<Reference> = None;
    let (mut whole, mut in_turn, mut dates) = (0, false, Vec::new());
    for NamedFolder { name, path } in folders {
        if let Some(measured) = Measured::read(path)? {
            if name.is_some() {
                return usage(format!(
                    "{} has a {FILE_NAME}, so its sides have names already; leave out the name before it",
                    path.display()
                ));
            }
            let set = measured.set(path)?;
            whole += 1;
            in_turn = set.interleaved;
            dates.extend(set.dates);
            brought.get_or_insert(set.reference);
            set.sides.into_iter().for_each(|side| join(&mut sides, side));
            set.teacher_forced.into_iter().for_each(|side| join(&mut taught, side));
            continue;
        }
        let folder = RunFolder::read(path)?;
        dates.extend(date::of_file(&path.join("sidecar.json")));
        let mut side = match name {
            Some(name) => Side::new(name),
            // Nobody said what it is: the name is its folder's.
            None => Side { declared: Declared::default(), ..Side::new(&usual_name(path)) },
        };
        // Never a round: no speed and no proof comes from memories of another run.
        let forced = folder.is_teacher_forced();
        side.rounds.push(Round { folder, waiting: 0 });
        join(if forced { &mut taught } else { &mut sides }, side);
    }
    if let Some(alone) = taught.iter().find(|side| sides.iter().all(|s| s.name != side.name)) {
        return usage(format!(
            "{} is teacher-forced and there is no run of {:?} beside it that had its own past; name that one too, both \
             as NAME=FOLDER with one name",
            alone.rounds.first().map_or_else(String::new, |round| round
                .folder
                .path
                .display()
                .to_string()),
            alone.name
        ));
    }
    if let Some(subject) = subject {
        let at = sides.iter().position(|side| side.name == subject);
        let Some(at) = at else {
            return usage(format!("--subject {subject}: the sides are {}", names(&sides)));
        };
        sides[..=at].rotate_right(1);
    }
    let reference = reference(&sides, asked, brought)?;
    dates.sort();
    dates.dedup();
    let interleaved = whole == 1 && folders.len() == 1 && in_turn;
    Ok(Set { sides, teacher_forced: taught, reference, interleaved, dates })
}

fn usage<T>(text: String) -> Result<T> {
    Err(UsageError(text).into())
}

fn names(sides: &[Side]) -> String {
    sides.iter().map(|side| side.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn join(sides: &mut Vec<Side>, side: Side) {
    match sides.iter_mut().find(|known| known.name == side.name) {
        Some(known) => {
            known.rounds.extend(side.rounds);
            known.missing.extend(side.missing);
        }
        None => sides.push(side),
    }
}

fn reference(
    sides: &[Side],
    asked: &AskedReference,
    brought: Option<Reference>,
) -> Result<Reference> {
    if let Some(path) = &asked.run {
        return Ok(Reference::Run(reference_run(path, sides)?));
    }
    if let Some(name) = &asked.side {
        return match sides.iter().any(|side| side.name == *name) {
            true => Ok(Reference::Side(name.clone())),
            false => usage(format!("--reference {name}: the sides are {}", names(sides))),
        };
    }
    if let Some(reference) = brought {
        return Ok(reference);
    }
    match sides.iter().find(|side| side.is_fp32()) {
        Some(side) => Ok(Reference::Side(side.name.clone())),
        None => usage(
            "none of the runs is in single precision, so there is nothing to compare the masks with; add \
             --reference-run FOLDER, a run of PyTorch (--mode eager --precision fp32) or of segtrt bench on the CPU, \
             with --save-masks"
                .to_owned(),
        ),
    }
}

/// A folder as the reference beside `sides`.
///
/// # Errors
/// It cannot be read.
pub(super) fn reference_run(path: &Path, sides: &[Side]) -> Result<Side> {
    let mut side = Side::new(&usual_name(path));
    // Nobody said what it is: the name is its folder's, and of a reference the precision alone
    // counts, which is looked at.
    side.declared = Declared::default();
    // A run that has a side's name would be taken for that side in tables.
    if sides.iter().any(|known| known.name == side.name) {
        side.name = format!("reference {}", side.name);
    }
    let folder = RunFolder::read(path)?;
    if folder.is_teacher_forced() {
        return usage(format!(
            "{} is teacher-forced, so its masks are no reference; name a run that had its own past",
            path.display()
        ));
    }
    side.rounds.push(Round { folder, waiting: 0 });
    Ok(side)
}

/// A folder's own name; rounds are named after the folder that they lie in.
fn usual_name(path: &Path) -> String {
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
    fn names_are_taken_apart_from_folders() {
        let parsed = |text: &str| text.parse::<NamedFolder>();
        let named = parsed("trt=/a/b").unwrap();
        assert_eq!((named.name.as_deref(), named.path), (Some("trt"), PathBuf::from("/a/b")));
        assert_eq!(parsed("/a=b/c").unwrap().name, None);
        for bad in ["", "trt=", "=/a"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rounds_are_named_after_their_folder() {
        assert_eq!(usual_name(Path::new("/x/eager/from_round_3/round_1")), "eager");
        assert_eq!(usual_name(Path::new("/x/eager/round_12")), "eager");
        assert_eq!(usual_name(Path::new("/x/eager/")), "eager");
        assert_eq!(usual_name(Path::new("/x/eager/teacher_forced/round_0")), "eager");
        assert_eq!(usual_name(Path::new("/x/round_trip")), "round_trip");
    }
}
