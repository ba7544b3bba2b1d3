/*!
Run folders from the command line: `NAME=FOLDER`, where repeated names are rounds. A comparison's
directory has the names of its sides.
*/

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;

use super::declared::Declared;
use super::folder::RunFolder;
use super::measured::{FILE_NAME, Measured};
use super::side::{Reference, Round, Set, Side, folder_name, reference_run};
use crate::compare::utc_date;
use host::UsageError;

/// A folder and the side that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFolder {
    /// The name, if given.
    pub name: Option<String>,
    /// The folder.
    pub path: PathBuf,
}

impl FromStr for NamedFolder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = match text.split_once('=') {
            // An equals sign in the folder's path separates no name.
            Some((name, path)) if !name.contains('/') => (Some(name.to_owned()), path),
            _ => (None, text),
        };
        if path.is_empty() || name.as_deref() == Some("") {
            return Err(format!("{text:?} is not FOLDER or NAME=FOLDER"));
        }
        Ok(Self { name, path: path.into() })
    }
}

/// The requested reference.
#[derive(Clone, Debug, Default)]
pub struct RequestedReference {
    /// The folder of a run.
    pub run: Option<PathBuf>,
    /// The name of a side.
    pub side: Option<String>,
}

/// Reads all folders and sorts them into sides, in the order in which the names first appear.
/// `subject` comes first.
///
/// # Errors
/// A folder cannot be read, a name is unknown, or no run is fp32.
pub fn gather(
    folders: &[NamedFolder],
    requested: &RequestedReference,
    subject: Option<&str>,
) -> Result<Set> {
    let mut sides: Vec<Side> = Vec::new();
    let mut forced: Vec<Side> = Vec::new();
    let mut brought: Option<Reference> = None;
    let (mut whole, mut in_turn, mut dates) = (0, false, Vec::new());
    for NamedFolder { name, path } in folders {
        if let Some(measured) = Measured::read(path)? {
            if name.is_some() {
                return usage(format!(
                    "{} has a {FILE_NAME} with the names of its sides; name it without NAME=",
                    path.display()
                ));
            }
            let set = measured.set(path)?;
            whole += 1;
            in_turn = set.interleaved;
            dates.extend(set.dates);
            brought.get_or_insert(set.reference);
            set.sides.into_iter().for_each(|side| join(&mut sides, side));
            set.teacher_forced.into_iter().for_each(|side| join(&mut forced, side));
            continue;
        }
        let folder = RunFolder::read(path)?;
        dates.extend(utc_date::of_file(&path.join("sidecar.json")));
        let mut side = match name {
            Some(name) => Side::new(name),
            // Without a name the side has its folder's and claims nothing.
            None => Side { declared: Declared::default(), ..Side::new(&folder_name(path)) },
        };
        // A teacher-forced folder is no round: neither speed nor proof comes from another run's
        // memories.
        let is_forced = folder.is_teacher_forced();
        side.rounds.push(Round { folder, waiting: 0 });
        join(if is_forced { &mut forced } else { &mut sides }, side);
    }
    if let Some(alone) = forced.iter().find(|side| sides.iter().all(|s| s.name != side.name)) {
        return usage(format!(
            "{} is teacher-forced, and {:?} has no free run; name that run too, both \
             as NAME=FOLDER with the same name",
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
    let reference = reference(&sides, requested, brought)?;
    dates.sort();
    dates.dedup();
    let interleaved = whole == 1 && folders.len() == 1 && in_turn;
    Ok(Set { sides, teacher_forced: forced, reference, interleaved, dates })
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
    requested: &RequestedReference,
    brought: Option<Reference>,
) -> Result<Reference> {
    if let Some(path) = &requested.run {
        return Ok(Reference::Run(reference_run(path, sides)?));
    }
    if let Some(name) = &requested.side {
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
            "none of the runs is in single precision, so there is nothing to compare the masks \
             with; add --reference-run FOLDER, a run of PyTorch (--mode eager --precision fp32) or \
             of segtrt bench on the CPU, with --save-masks"
                .to_owned(),
        ),
    }
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
}
