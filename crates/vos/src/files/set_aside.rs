/*!
What an earlier run left in a folder in which another one begins: moved aside, not lost, and not to
be taken for the new run's.

Tables and sidecar would be written over, and may be another program's: the predecessor's have the
same names. Masks, logits and overlays are a file for each object: those of objects that the new run
does not have would stay beside its own, and nothing in them tells whose they are. So all go where
the journal goes: masks and logits with their folders, overlays, which lie in the run folder itself,
into a folder.
*/

use std::ffi::OsStr;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::journal::FILE_NAME as JOURNAL;
use super::{SIDECAR, profile_csv, stats_json, summary_csv};
use crate::overlay::{FILM, FIRST_FRAME};

/// What the journal of an earlier run is called once another run has begun in its folder.
pub const PREVIOUS_NAME: &str = "rows.previous.jsonl";
/// The folder in a run folder in which every mask is written, a file for each object.
pub const MASKS: &str = "masks";
/// Folder of saved logits below an output folder.
pub const LOGITS: &str = "logits";

/// What is moved, as the name's beginning and its end. The journal comes first: whoever finds none
/// takes nothing in the folder for a run's to be resumed, so that a crash in between mixes nothing.
const KEPT: [(&str, &str); 8] = [
    ("rows", ".jsonl"),
    (MASKS, ""),
    (LOGITS, ""),
    (OVERLAYS, ""),
    ("sav_benchmark_summary", ".csv"),
    ("profile_summary", ".csv"),
    ("profile_stats", ".json"),
    ("sidecar", ".json"),
];

/// Those of [`KEPT`] that are one file, whoever wrote it.
const FILES: [&str; 4] =
    [summary_csv::FILE_NAME, profile_csv::FILE_NAME, stats_json::FILE_NAME, SIDECAR];

/// What overlays are called together.
const OVERLAYS: &str = "overlays";
/// The folder in which overlays are gathered, one by one; it gets its name when all are there, so
/// that a crash in between leaves them together once another run begins.
const GATHERED: &str = ".segtrt-overlays";

/// The name that something has once it is moved; a number where it is not of the newest run that
/// was.
fn previous((stem, end): (&str, &str), number: Option<u32>) -> String {
    let number = number.map(|number| format!("-{number}")).unwrap_or_default();
    format!("{stem}.previous{number}{end}")
}

/// The number of something that was moved before the newest such one.
fn number_of((stem, end): (&str, &str), name: &str) -> Option<u32> {
    name.strip_prefix(stem)?.strip_prefix(".previous-")?.strip_suffix(end)?.parse().ok()
}

/// Whether a file or a folder of this name was set aside.
pub fn is_previous(name: &str) -> bool {
    KEPT.into_iter().any(|kind| name == previous(kind, None) || number_of(kind, name).is_some())
}

/// Moves what an earlier run left in `directory`, as `rows.previous.jsonl`, `masks.previous`,
/// `sav_benchmark_summary.previous.csv` and so on; what had such a name becomes `…previous-2…`, or
/// the next number that is free, the same for all that are of one run. Answers each old name with
/// the new one.
///
/// # Errors
/// The folder cannot be read or changed.
pub(super) fn earlier_run(directory: &Path) -> Result<Vec<(String, String)>> {
    let there: Vec<_> = KEPT.into_iter().filter(|kind| is_there(directory, *kind)).collect();
    if there.iter().any(|kind| has_previous(directory, *kind)) {
        make_room(directory, &KEPT)?;
    }
    let mut moved = Vec::new();
    for kind in there {
        let (name, to) = ([kind.0, kind.1].concat(), previous(kind, None));
        let from = if kind.0 == OVERLAYS { gathered(directory)? } else { &name };
        rename(directory, from, &to)?;
        moved.push((name, to));
    }
    Ok(moved)
}

/// Moves one file, as [`earlier_run`] would; its new name, none where there is no such file.
///
/// # Errors
/// The folder cannot be read or changed.
pub fn set_aside(path: &Path) -> Result<Option<String>> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
    else {
        return Ok(None);
    };
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let kind = name.split_at(name.rfind('.').unwrap_or(name.len()));
    if has_previous(directory, kind) {
        make_room(
            directory,
            if KEPT.contains(&kind) { &KEPT } else { std::slice::from_ref(&kind) },
        )?;
    }
    rename(directory, name, &previous(kind, None))?;
    Ok(Some(previous(kind, None)))
}

fn has_previous(directory: &Path, kind: (&str, &str)) -> bool {
    directory.join(previous(kind, None)).exists()
}

/// Gives what was moved last a number, one for all.
fn make_room(directory: &Path, kinds: &[(&str, &str)]) -> Result<()> {
    let number = next_number(directory, kinds)?;
    for kind in kinds.iter().filter(|kind| has_previous(directory, **kind)) {
        rename(directory, &previous(*kind, None), &previous(*kind, Some(number)))?;
    }
    Ok(())
}

/// What was moved, in a sentence; none where nothing was.
pub(super) fn told(directory: &Path, moved: &[(String, String)]) -> Option<String> {
    let each: Vec<String> =
        moved.iter().map(|(from, to)| format!("{from} is kept in {to}")).collect();
    let rows = moved.iter().any(|(from, _)| from == JOURNAL);
    let rest = if rows { "; --resume would have gone on with its rows" } else { "" };
    (!each.is_empty())
        .then(|| format!("{} held results: {}{rest}", directory.display(), each.join(", ")))
}

/// There are rows, or a table; or a folder of this name has a run's file in it, for a folder that
/// is somebody else's is not to be touched; or there are overlays.
fn is_there(directory: &Path, (stem, end): (&str, &str)) -> bool {
    let name = [stem, end].concat();
    let path = directory.join(&name);
    if name == JOURNAL {
        return std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
    }
    if FILES.contains(&name.as_str()) {
        return path.symlink_metadata().is_ok_and(|meta| !meta.is_dir());
    }
    if stem == OVERLAYS {
        return directory.join(GATHERED).is_dir() || !overlays(directory).is_empty();
    }
    let Ok(entries) = std::fs::read_dir(path) else { return false };
    entries.flatten().any(|entry| is_of_object(&entry, &[".json", ".npy"]))
}

/// A file of one object, with one of these endings.
fn is_of_object(entry: &DirEntry, endings: &[&str]) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
    name.contains("__obj") && endings.iter().any(|end| name.ends_with(end)) && is_file()
}

/// What [`crate::overlay::OverlayWriter`] finished in `directory`: films, and folders of frames.
fn overlays(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_overlay = |entry: &DirEntry| {
        let is_folder = || entry.file_name().to_string_lossy().contains("__obj");
        is_of_object(entry, &[FILM]) || (is_folder() && entry.path().join(FIRST_FRAME).is_file())
    };
    entries.flatten().filter(is_overlay).map(|entry| entry.path()).collect()
}

/// Moves all overlays into one folder, whose name is the answer.
fn gathered(directory: &Path) -> Result<&'static str> {
    let folder = directory.join(GATHERED);
    let cannot = |what: &Path| {
        format!(
            "cannot move {} into {}; choose another --out-dir",
            what.display(),
            folder.display()
        )
    };
    std::fs::create_dir_all(&folder).with_context(|| cannot(directory))?;
    for overlay in overlays(directory) {
        let Some(name) = overlay.file_name() else { continue };
        std::fs::rename(&overlay, folder.join(name)).with_context(|| cannot(&overlay))?;
    }
    Ok(GATHERED)
}

fn next_number(directory: &Path, kinds: &[(&str, &str)]) -> Result<u32> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot look into {}", directory.display()))?;
    let numbers = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        kinds.iter().find_map(|kind| number_of(*kind, name.to_str()?))
    });
    Ok(numbers.max().map_or(2, |most| most.saturating_add(1)))
}

fn rename(directory: &Path, from: &str, to: &str) -> Result<()> {
    let [from, to] = [from, to].map(|name| directory.join(name));
    std::fs::rename(&from, &to).with_context(|| {
        format!("cannot move {} to {}; choose another --out-dir", from.display(), to.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a run's files, each with its number.
    fn write(directory: &Path, names: &[&str], run: &str) {
        for name in names {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, run).unwrap();
        }
    }

    const MASK: &str = "masks/a__obj0__m.json";
    const LOGITS: &str = "logits/a__obj0__m.npy";
    const SHOWN: &str = "a__obj0__m.mp4";
    const FRAMES: &str = "b__obj1__m/00000.png";
    const TABLE: &str = "sav_benchmark_summary.csv";

    #[test]
    fn what_is_of_one_run_keeps_one_number() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
        assert_eq!(earlier_run(dir).unwrap(), []);
        // The second run saves no masks, the third no logits and no overlays.
        write(dir, &["rows.jsonl", MASK, LOGITS, SHOWN, FRAMES], "1");
        assert_eq!(earlier_run(dir).unwrap().len(), 4);
        write(dir, &["rows.jsonl", LOGITS, SHOWN], "2");
        earlier_run(dir).unwrap();
        write(dir, &["rows.jsonl", MASK], "3");
        let moved = earlier_run(dir).unwrap();
        let names: Vec<&str> = moved.iter().map(|(_, to)| to.as_str()).collect();
        assert_eq!(names, ["rows.previous.jsonl", "masks.previous"]);
        for (run, number) in [("1", "-2"), ("2", "-3"), ("3", "")] {
            let saved = |name: &str| read(name).is_none_or(|found| found == run);
            assert_eq!(read(&format!("rows.previous{number}.jsonl")).unwrap(), run);
            assert!(saved(&format!("masks.previous{number}/a__obj0__m.json")), "{run}");
            assert!(saved(&format!("logits.previous{number}/a__obj0__m.npy")), "{run}");
            assert!(saved(&format!("overlays.previous{number}/{SHOWN}")), "{run}");
        }
        assert_eq!(read("overlays.previous-2/b__obj1__m/00000.png").unwrap(), "1");
        assert_eq!(read("overlays.previous-3/a__obj0__m.mp4").unwrap(), "2");
        for gone in ["masks.previous-3", "logits.previous", "overlays.previous", GATHERED] {
            assert!(!dir.join(gone).exists(), "{gone}");
        }
        let of_a_run = ["rows.jsonl", MASK, LOGITS, SHOWN, "b__obj1__m"];
        assert!(of_a_run.iter().all(|name| !dir.join(name).exists()));
    }

    /// The predecessor's tables have the same names, and no journal.
    #[test]
    fn tables_without_a_journal_are_kept_too() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(dir, &FILES, "predecessor");
        assert_eq!(earlier_run(dir).unwrap().len(), 4);
        write(dir, &["rows.jsonl", TABLE], "1");
        earlier_run(dir).unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        for kind in &KEPT[4..] {
            assert_eq!(read(&previous(*kind, Some(2))), "predecessor");
        }
        assert_eq!(read("sav_benchmark_summary.previous.csv"), "1");
        assert_eq!(read("rows.previous.jsonl"), "1");
        assert!(FILES.iter().all(|name| !dir.join(name).exists()));
        let names: Vec<String> = KEPT.iter().map(|(stem, end)| [*stem, *end].concat()).collect();
        assert!(FILES.iter().all(|name| names.contains(&(*name).to_owned())));
    }

    /// A table that is moved alone, and then the rest of its run, keep one number.
    #[test]
    fn one_file_goes_where_its_run_goes() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(set_aside(&dir.join(TABLE)).unwrap(), None);
        for run in ["1", "2"] {
            write(dir, &["rows.jsonl", TABLE, "other.csv"], run);
            set_aside(&dir.join(TABLE)).unwrap();
            earlier_run(dir).unwrap();
            let to = set_aside(&dir.join("other.csv")).unwrap();
            assert_eq!(to.as_deref(), Some("other.previous.csv"));
        }
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        for stem in ["rows", "sav_benchmark_summary", "other"] {
            let end = if stem == "rows" { "jsonl" } else { "csv" };
            assert_eq!(read(&format!("{stem}.previous.{end}")), "2");
            assert_eq!(read(&format!("{stem}.previous-2.{end}")), "1");
        }
    }

    /// The journal was moved, the masks and one of the overlays were not: they go where their
    /// journal is.
    #[test]
    fn a_crash_in_between_is_made_good() {
        let dir = tempfile::tempdir().unwrap();
        let gathered = format!("{GATHERED}/b__obj1__m.mp4");
        write(dir.path(), &["rows.previous.jsonl", MASK, SHOWN, &gathered], "1");
        earlier_run(dir.path()).unwrap();
        for there in ["masks.previous/a__obj0__m.json", "rows.previous.jsonl"] {
            assert!(dir.path().join(there).exists(), "{there}");
        }
        let films = std::fs::read_dir(dir.path().join("overlays.previous")).unwrap();
        assert_eq!(films.count(), 2);
        assert!(!dir.path().join(GATHERED).exists());
    }

    #[test]
    fn what_is_no_runs_stays_and_names_are_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let others = ["masks/00000.png", "logits/notes.json", "rows.jsonl", "holiday.mp4"];
        write(dir.path(), &others, "");
        // A folder of somebody's that only looks like frames, and one called as all overlays are.
        write(dir.path(), &["a__obj0__notes/read.me", "overlays/a__obj0__m.mp4"], "");
        assert_eq!(earlier_run(dir.path()).unwrap(), []);
        for name in [
            "rows.previous.jsonl",
            "rows.previous-12.jsonl",
            "masks.previous",
            "logits.previous-2",
            "overlays.previous-3",
            "sav_benchmark_summary.previous.csv",
            "sidecar.previous-2.json",
        ] {
            assert!(is_previous(name), "{name}");
        }
        for name in
            ["rows.jsonl", "masks", "masks.previous-x", "masks.previous.json", "rows.previous"]
        {
            assert!(!is_previous(name), "{name}");
        }
    }
}
