/*!
Folders of the files that belong to the program without being inside it: bundles, the exporter, ONNX
Runtime.

Each has the layout of the sources (`onnx/bundles`, `onnx/export.py`, `pytorch/run.py`), and a
folder `lib` for libraries.
*/

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

/// Names the folder of `segtrt setup` and `segtrt fetch`.
pub const VARIABLE: &str = "SEGTRT_SHARE";

/// Bundles, in each of the folders.
pub const BUNDLES: &str = "onnx/bundles";

/// Set while archives are compiled: nobody else has the sources where they lay.
const SOURCES: Option<&str> = match option_env!("SEGTRT_NO_SOURCES") {
    Some(_) => None,
    None => Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
};

/// Everybody may write.
const BY_ALL: u32 = 0o002;

/// The folder that `setup` and `fetch` write: `SEGTRT_SHARE`, else `segtrt` in the user's folder
/// for data. `None` without a home.
pub fn of_user() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    user_folder(set(VARIABLE), set("XDG_DATA_HOME"), set("HOME"))
}

fn user_folder(
    named: Option<OsString>,
    data: Option<OsString>,
    home: Option<OsString>,
) -> Option<PathBuf> {
    // The specification of the XDG folders has relative ones ignored.
    let data = data.map(PathBuf::from).filter(|data| data.is_absolute());
    let data = data.or_else(|| home.map(|home| PathBuf::from(home).join(".local/share")));
    named.map(PathBuf::from).or_else(|| data.map(|data| data.join("segtrt")))
}

/// `../share/segtrt` of the executable.
pub fn of_program() -> Option<PathBuf> {
    let program = env::current_exe().ok()?.canonicalize().ok()?;
    Some(program.parent()?.parent()?.join("share/segtrt"))
}

/// The sources that this program was compiled from, if they are still there and nobody else may
/// change them.
pub fn of_sources() -> Option<PathBuf> {
    let sources = Path::new(SOURCES?).canonicalize().ok()?;
    let facts = sources.metadata().ok()?;
    let ours = [0, Uid::effective().as_raw()].contains(&facts.uid());
    (ours && facts.mode() & BY_ALL == 0).then_some(sources)
}

/// All folders, in the order of the search.
pub fn folders() -> Vec<PathBuf> {
    [of_user(), of_program(), of_sources()].into_iter().flatten().collect()
}

/// Where bundles are looked for: in `given`, or, if that is empty, in `onnx/bundles` here and in
/// each folder that has bundles.
pub fn bundle_roots(given: &[PathBuf]) -> Vec<PathBuf> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let mut roots = vec![PathBuf::from(BUNDLES)];
    let there = folders().into_iter().map(|folder| folder.join(BUNDLES));
    roots.extend(there.filter(|root| root.is_dir()));
    once_each(roots)
}

/// A folder under two names is searched once, under the first.
fn once_each(mut roots: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    roots.retain(|root| seen.insert(root.canonicalize().unwrap_or_else(|_| root.clone())));
    roots
}

/// A file of the sources by its path there: in the working folder, else in the first folder that
/// has it, else as it was.
pub fn resolve(path: &Path) -> PathBuf {
    if path.is_absolute() || path.exists() {
        return path.to_owned();
    }
    let there = folders().into_iter().map(|folder| folder.join(path));
    there.into_iter().find(|found| found.exists()).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_folder_is_the_named_one_else_that_of_data() {
        let folder = |named: Option<&str>, data: Option<&str>, home: Option<&str>| {
            user_folder(named.map(Into::into), data.map(Into::into), home.map(Into::into))
        };
        assert_eq!(folder(Some("x"), Some("/d"), Some("/h")), Some("x".into()));
        assert_eq!(folder(None, Some("/d"), Some("/h")), Some("/d/segtrt".into()));
        assert_eq!(folder(None, Some("d"), Some("/h")), Some("/h/.local/share/segtrt".into()));
        assert_eq!(folder(None, None, None), None);
    }

    #[test]
    fn roots_that_are_named_are_the_only_ones() {
        assert_eq!(bundle_roots(&["a".into(), "b".into()]), [Path::new("a"), Path::new("b")]);
    }

    #[test]
    fn the_sources_bundles_are_found_from_any_folder_and_once() {
        // Tests run in this crate's folder.
        assert!(!Path::new(BUNDLES).exists());
        let roots = bundle_roots(&[]);
        let demo = |root: &&PathBuf| root.join("edgetam_mini_256_fp32/manifest.toml").is_file();
        assert!(roots.iter().any(|root| demo(&root)), "{roots:?}");
        let twice = vec!["../../onnx".into(), "../../onnx/../onnx".into(), "missing".into()];
        assert_eq!(once_each(twice), [Path::new("../../onnx"), Path::new("missing")]);
    }

    #[test]
    fn a_file_of_the_sources_is_found_from_any_folder() {
        assert!(resolve(Path::new("pytorch/run.py")).is_file());
        assert_eq!(resolve(Path::new("no/such")), Path::new("no/such"));
        assert_eq!(resolve(Path::new("/no/such")), Path::new("/no/such"));
    }
}
