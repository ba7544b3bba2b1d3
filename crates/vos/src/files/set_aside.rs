/*!
Moves the files of an earlier run in a folder aside before another run begins there, so that they
are neither lost nor taken for the new run's.

Tables and sidecar would be overwritten, and may be the predecessor's, which have the same names.
Masks, logits and overlays are a file for each object: old files of other objects would stay among
the new ones without a mark. So all of them are moved together with the journal: masks, logits and
thumbnails with their folders, overlays, which are in the run folder itself, into a folder.
*/

use std::ffi::OsStr;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{JOURNAL, SIDECAR, profile_csv, stats_json, summary_csv};
use crate::overlay::{FILM, FIRST_FRAME, THUMBNAILS};

/// Name of an earlier run's journal after another run has begun in its folder.
pub const PREVIOUS_NAME: &str = "rows.previous.jsonl";
/// The folder with the masks of a run, a file for each object.
pub const MASKS: &str = "masks";
/// Folder of saved logits below an output folder.
pub const LOGITS: &str = "logits";

/// Moved files and folders, as the beginning and the end of the name. The journal comes first:
/// without a journal nothing in the folder is resumed, so a crash in between mixes nothing.
const KEPT: [(&str, &str); 9] = [
    ("rows", ".jsonl"),
    (MASKS, ""),
    (LOGITS, ""),
    (OVERLAYS, ""),
    (THUMBNAILS, ""),
    ("sav_benchmark_summary", ".csv"),
    ("profile_summary", ".csv"),
    ("profile_stats", ".json"),
    ("sidecar", ".json"),
];

/// The entries of [`KEPT`] that are one file, of either program.
const FILES: [&str; 4] =
    [summary_csv::FILE_NAME, profile_csv::FILE_NAME, stats_json::FILE_NAME, SIDECAR];

/// Name of the folder for moved overlays.
const OVERLAYS: &str = "overlays";
/// The folder in which overlays are collected one by one. It gets its name when it is complete, so
/// that after a crash the next run finds them together.
const GATHERED: &str = ".segtrt-overlays";

/// The name of a moved file, with a number if it is not from the latest run.
fn previous((stem, end): (&str, &str), number: Option<u32>) -> String {
    let number = number.map(|number| format!("-{number}")).unwrap_or_default();
    format!("{stem}.previous{number}{end}")
}

/// The number of a moved file from before the latest run.
fn number_of((stem, end): (&str, &str), name: &str) -> Option<u32> {
    name.strip_prefix(stem)?.strip_prefix(".previous-")?.strip_suffix(end)?.parse().ok()
}

/// Whether a file or folder with this name was moved aside.
pub fn is_previous(name: &str) -> bool {
    KEPT.into_iter().any(|kind| name == previous(kind, None) || number_of(kind, name).is_some())
}

/// Moves the files of an earlier run in `directory` to `rows.previous.jsonl`, `masks.previous`,
/// `sav_benchmark_summary.previous.csv` and so on. Files with such names get `…previous-2…` or the
/// next free number, the same for all files of one run. Returns each old name with the new one.
///
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

/// Moves one file like [`earlier_run`] and returns its new name; `None` without such a file.
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

/// Moves those of `names` that are in `directory`, which one command wrote, like [`set_aside`] but
/// with a common number. Returns a sentence about them; `None` without any.
///
/// # Errors
/// The folder cannot be read or changed.
pub fn set_aside_together(directory: &Path, names: &[&str]) -> Result<Option<String>> {
    let kinds: Vec<_> =
        names.iter().map(|name| name.split_at(name.rfind('.').unwrap_or(name.len()))).collect();
    let mut moved = Vec::new();
    for (kind, name) in kinds.iter().zip(names) {
        if directory.join(name).symlink_metadata().is_err() {
            continue;
        }
        if moved.is_empty() && kinds.iter().any(|kind| has_previous(directory, *kind)) {
            make_room(directory, &kinds)?;
        }
        let to = previous(*kind, None);
        rename(directory, name, &to)?;
        moved.push(((*name).to_owned(), to));
    }
    Ok(sentence(directory, &moved))
}

fn has_previous(directory: &Path, kind: (&str, &str)) -> bool {
    directory.join(previous(kind, None)).exists()
}

/// Gives the last moved files a common number.
fn make_room(directory: &Path, kinds: &[(&str, &str)]) -> Result<()> {
    let number = next_number(directory, kinds)?;
    for kind in kinds.iter().filter(|kind| has_previous(directory, **kind)) {
        rename(directory, &previous(*kind, None), &previous(*kind, Some(number)))?;
    }
    Ok(())
}

/// A sentence about the moved files; `None` without any.
pub(super) fn sentence(directory: &Path, moved: &[(String, String)]) -> Option<String> {
    let each: Vec<String> =
        moved.iter().map(|(from, to)| format!("{from} is kept in {to}")).collect();
    let rows = moved.iter().any(|(from, _)| from == JOURNAL);
    let rest = if rows { "; --resume would have gone on with its rows" } else { "" };
    (!each.is_empty())
        .then(|| format!("{} held results: {}{rest}", directory.display(), each.join(", ")))
}

/// Whether there are rows or a table; or a folder of this name with a run's file, because a foreign
/// folder must not be touched; or overlays.
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
    entries.flatten().any(|entry| is_of_object(&entry, &[".json", ".npy", ".jpg"]))
}

/// Whether it is a file of one object with one of these endings.
fn is_of_object(entry: &DirEntry, endings: &[&str]) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
    name.contains("__obj") && endings.iter().any(|end| name.ends_with(end)) && is_file()
}

/// Finished overlays of [`crate::overlay::OverlayWriter`] in `directory`: films, and folders of
/// frames.
fn overlays(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let is_overlay = |entry: &DirEntry| {
        let is_folder = || entry.file_name().to_string_lossy().contains("__obj");
        is_of_object(entry, &[FILM]) || (is_folder() && entry.path().join(FIRST_FRAME).is_file())
    };
    entries.flatten().filter(is_overlay).map(|entry| entry.path()).collect()
}

/// Moves all overlays into one folder and returns its name.
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
        .with_context(|| format!("cannot list {}", directory.display()))?;
    let numbers = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        kinds.iter().find_map(|kind| number_of(*kind, name.to_str()?))
    });
    Ok(numbers.max().map_or(2, |most| most.saturating_add(1)))
}

fn rename(directory: &Path, from: &str, to: &str) -> Result<()> {
    let [from, to] = [from, to].map(|name| directory.join(name));
    std::fs::rename(&from, &to).with_context(|| {
        format!("cannot move {} to {}; choose another output folder", from.display(), to.display())
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
    const THUMBNAIL: &str = "thumbnails/a__obj0__m__00000.jpg";
    const FRAMES: &str = "b__obj1__m/00000.png";
    const TABLE: &str = "sav_benchmark_summary.csv";

    #[test]
    fn what_is_of_one_run_keeps_one_number() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
        assert_eq!(earlier_run(dir).unwrap(), []);
        // The second run saves no masks, the third neither logits nor overlays.
        write(dir, &["rows.jsonl", MASK, LOGITS, SHOWN, FRAMES, THUMBNAIL], "1");
        assert_eq!(earlier_run(dir).unwrap().len(), 5);
        write(dir, &["rows.jsonl", LOGITS, SHOWN, THUMBNAIL], "2");
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
            let thumbnail = format!("thumbnails.previous{number}/a__obj0__m__00000.jpg");
            assert_eq!(read(&thumbnail).as_deref(), (run != "3").then_some(run));
        }
        assert_eq!(read("overlays.previous-2/b__obj1__m/00000.png").unwrap(), "1");
        assert_eq!(read("overlays.previous-3/a__obj0__m.mp4").unwrap(), "2");
        for gone in ["masks.previous-3", "logits.previous", "overlays.previous", GATHERED] {
            assert!(!dir.join(gone).exists(), "{gone}");
        }
        let of_a_run = ["rows.jsonl", MASK, LOGITS, SHOWN, THUMBNAIL, "b__obj1__m"];
        assert!(of_a_run.iter().all(|name| !dir.join(name).exists()));
    }

    /// The predecessor's tables have the same names and no journal.
    #[test]
    fn tables_without_a_journal_are_kept_too() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(dir, &FILES, "predecessor");
        assert_eq!(earlier_run(dir).unwrap().len(), 4);
        write(dir, &["rows.jsonl", TABLE], "1");
        earlier_run(dir).unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        for file in FILES {
            let kind = file.split_at(file.rfind('.').unwrap());
            assert_eq!(read(&previous(kind, Some(2))), "predecessor");
        }
        assert_eq!(read("sav_benchmark_summary.previous.csv"), "1");
        assert_eq!(read("rows.previous.jsonl"), "1");
        assert!(FILES.iter().all(|name| !dir.join(name).exists()));
        let names: Vec<String> = KEPT.iter().map(|(stem, end)| [*stem, *end].concat()).collect();
        assert!(FILES.iter().all(|name| names.contains(&(*name).to_owned())));
    }

    /// A table that is moved alone and the rest of its run get the same number.
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

    #[test]
    fn what_was_written_together_keeps_one_number() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let names = ["lines.jsonl", "frames", "film.mp4"];
        assert_eq!(set_aside_together(dir, &names).unwrap(), None);
        write(dir, &["lines.jsonl", "frames/0.png", "film.mp4"], "1");
        set_aside_together(dir, &names).unwrap();
        write(dir, &["lines.jsonl", "frames/0.png"], "2");
        let told = set_aside_together(dir, &names).unwrap().unwrap();
        assert!(told.ends_with(
            "held results: lines.jsonl is kept in lines.previous.jsonl, frames is kept in \
             frames.previous"
        ));
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        for file in ["lines.previous-2.jsonl", "frames.previous-2/0.png", "film.previous-2.mp4"] {
            assert_eq!(read(file), "1", "{file}");
        }
        assert_eq!(
            (read("lines.previous.jsonl"), read("frames.previous/0.png")),
            ("2".into(), "2".into())
        );
        assert!(!dir.join("film.previous.mp4").exists());
    }

    /// The journal was moved, the masks and one of the overlays were not: they follow their
    /// journal.
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
        let others = [
            "masks/00000.png",
            "logits/notes.json",
            "rows.jsonl",
            "holiday.mp4",
            "thumbnails/cat.jpg",
        ];
        write(dir.path(), &others, "");
        // A foreign folder that only looks like frames, and one with the name of the overlays'
        // folder.
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
