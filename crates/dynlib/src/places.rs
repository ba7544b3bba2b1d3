/*!
Where NVIDIA's libraries lie besides the loader's path: folders of pip's packages, and the newest of
several versions.
*/

use std::path::{Path, PathBuf};

use crate::trusted;

/// A library that may be the one that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// A path, or a bare name for the loader.
    pub library: PathBuf,
    /// Named by the user: must open, nothing else is tried.
    pub named: bool,
}

/// `name`, or `name.VERSION` with the highest version.
pub fn newest(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let versioned = entries.flatten().filter_map(|entry| {
        let file = entry.file_name().into_string().ok()?;
        let rest = file.strip_prefix(name)?;
        let version: Vec<u32> =
            rest.split('.').skip(1).map(str::parse).collect::<Result<_, _>>().ok()?;
        (rest.is_empty() || rest.starts_with('.')).then(|| (version, entry.path()))
    });
    versioned.max().map(|(_, path)| path)
}

/// A folder of pip's packages.
pub struct SitePackages {
    /// The folder.
    pub path: PathBuf,
    /// The `.venv` that it is in, where the search came upon that on its way up; none where user or
    /// system name the place.
    walked: Option<PathBuf>,
}

impl SitePackages {
    /// Whether a library in it may be opened.
    ///
    /// # Errors
    /// The library and why it is left out, for the list of places that were searched.
    pub fn check(&self, library: &Path) -> Result<(), String> {
        let Some(environment) = &self.walked else { return Ok(()) };
        trusted::check(library, environment)
            .map_err(|why| format!("{} (left out: {why})", library.display()))
    }
}

/// `site-packages` of the active and nearby virtual environments, of conda, of the user and of the
/// system.
pub fn pip_directories() -> Vec<SitePackages> {
    let environment = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = |prefix: PathBuf| (prefix, false);
    let mut prefixes: Vec<(PathBuf, bool)> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| environment(name).map(PathBuf::from).map(named))
        .collect();
    if let Ok(here) = std::env::current_dir() {
        prefixes.extend(here.ancestors().map(|directory| (directory.join(".venv"), true)));
    }
    prefixes.extend(environment("HOME").map(|home| named(Path::new(&home).join(".local"))));
    prefixes.extend(["/usr/local", "/usr"].map(|prefix| named(prefix.into())));
    let mut directories: Vec<SitePackages> = Vec::new();
    for (prefix, walked) in prefixes {
        let Ok(entries) = std::fs::read_dir(prefix.join("lib")) else { continue };
        let mut pythons: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python3"))
            })
            .collect();
        pythons.sort();
        for python in pythons {
            for packages in ["site-packages", "dist-packages"] {
                let path = python.join(packages);
                if path.is_dir() && directories.iter().all(|known| known.path != path) {
                    directories.push(SitePackages { path, walked: walked.then(|| prefix.clone()) });
                }
            }
        }
    }
    directories
}
