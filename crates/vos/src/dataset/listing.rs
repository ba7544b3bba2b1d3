/*!
Folder listings in the order that the predecessor used: by name, code point by code point.
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

/// The files of `dir` with exactly this suffix, sorted by name. Hidden files are no data.
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

/// The name of a listed file or folder. What is no UTF-8 in it becomes U+FFFD: tables hold text
/// alone, and nothing that is there may be missing from them without a word.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The names of listed folders, each once.
pub(super) fn names(paths: &[PathBuf]) -> Vec<String> {
    let mut seen = HashSet::new();
    paths.iter().map(|path| name(path)).filter(|name| seen.insert(name.clone())).collect()
}

/// Whether the name of a listed file or folder is no text.
pub(super) fn not_utf8(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_str().is_none())
}

/// Refuses the entry of `dir` for which `video` stands where its own name is no UTF-8.
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

/// The non-empty lines of a manifest, stripped, in file order.
pub(super) fn manifest(path: &Path) -> io::Result<Vec<String>> {
    let text = std::fs::read_to_string(path)?;
    let text = text.trim_start_matches('\u{feff}');
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect())
}

/// Whether `name` is the plain name of a file or folder, without any way out of its parent.
pub(super) fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}
