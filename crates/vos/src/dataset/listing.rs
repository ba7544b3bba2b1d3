/*!
Folder listings in the predecessor's order: by name, code point by code point.
*/

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::ClipError;

/// The sub-directories of `dir`, sorted by name.
pub(super) fn folders(dir: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(entries(dir)?.into_iter().filter(|path| path.is_dir()).collect())
}

/// The files of `dir` with exactly this suffix, sorted by name, without hidden files.
pub(super) fn files(dir: &Path, suffix: &str) -> io::Result<Vec<PathBuf>> {
    let wanted = |path: &PathBuf| path.extension() == Some(OsStr::new(suffix)) && path.is_file();
    Ok(entries(dir)?.into_iter().filter(wanted).collect())
}

/// All visible entries of `dir`, sorted by name.
pub(super) fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    Ok(paths)
}

/// The name of a listed file or folder. Bytes that are not UTF-8 become U+FFFD, because tables hold
/// only text and must not omit a file silently.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The names of listed folders, each once.
pub(super) fn names(paths: &[PathBuf]) -> Vec<String> {
    let mut seen = HashSet::new();
    paths.iter().map(|path| name(path)).filter(|name| seen.insert(name.clone())).collect()
}

/// Whether the name of a listed file or folder is not UTF-8.
pub(super) fn not_utf8(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_str().is_none())
}

/// Refuses an entry of `dir` whose name is not UTF-8 and was listed as `video`.
///
/// # Errors
/// [`ClipError::NotUtf8`] with the entry.
pub(super) fn refuse_other_than_utf8(dir: &Path, video: &str) -> Result<(), ClipError> {
    if !video.contains(char::REPLACEMENT_CHARACTER) || dir.join(video).exists() {
        return Ok(());
    }
    let stands_for = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        not_utf8(path) && (name(path) == video || stem == video)
    };
    match entries(dir).unwrap_or_default().into_iter().find(stands_for) {
        Some(path) => Err(ClipError::NotUtf8 { path }),
        None => Ok(()),
    }
}

/// The first few names in a folder, for messages.
pub(super) fn summary(dir: &Path) -> String {
    let names: Vec<String> = match entries(dir) {
        Ok(paths) => paths.iter().map(|path| name(path)).collect(),
        Err(error) => return format!("nothing readable ({error})"),
    };
    match names.as_slice() {
        [] => "an empty folder".into(),
        names if names.len() <= 6 => names.join(", "),
        names => format!("{} and {} more", names[..6].join(", "), names.len() - 6),
    }
}

/// The non-empty lines of a manifest, stripped, in file order.
pub(super) fn manifest(path: &Path) -> io::Result<Vec<String>> {
    let text = std::fs::read_to_string(path)?;
    let text = text.trim_start_matches('\u{feff}');
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect())
}

/// Whether `name` is the plain name of a file or folder inside its parent.
pub(super) fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}
