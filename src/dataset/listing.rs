/*!
Folder listings in the order that the predecessor used: by name, code point by code point.
*/

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The sub-directories of `dir`, sorted by name. Names that are not UTF-8 are left out.
pub(super) fn folders(dir: &Path) -> io::Result<Vec<String>> {
    Ok(entries(dir)?.into_iter().filter(|name| dir.join(name).is_dir()).collect())
}

/// The files of `dir` with exactly this suffix, sorted by name. Hidden files are no data.
pub(super) fn files(dir: &Path, suffix: &str) -> io::Result<Vec<PathBuf>> {
    let wanted = |name: &String| Path::new(name).extension() == Some(OsStr::new(suffix));
    Ok(entries(dir)?
        .into_iter()
        .filter(wanted)
        .map(|name| dir.join(name))
        .filter(|path| path.is_file())
        .collect())
}

/// All visible entries of `dir`, sorted by name.
pub(super) fn entries(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        if let Ok(name) = entry?.file_name().into_string()
            && !name.starts_with('.')
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
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
