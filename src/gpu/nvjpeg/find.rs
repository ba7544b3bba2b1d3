/*!
Where nvJPEG's library is looked for: an environment variable, the loader's path, CUDA's folders, pip's packages.
*/

use std::fmt;
use std::path::{Path, PathBuf};

use crate::trt::{Candidate, newest_library, pip_directories};

/// Environment variable that names the library, or its folder. Where it is set nothing else is tried.
pub const VARIABLE: &str = "SEGTRT_NVJPEG_LIB";

/// The library's name without its version.
const NAME: &str = "libnvjpeg.so";

/// What the loader is asked for by bare name, newest first.
const LOADER_NAMES: [&str; 4] =
    ["libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so.11", "libnvjpeg.so"];

/// Folders below pip's `site-packages` that have it.
const PIP_FOLDERS: [&str; 2] = ["nvidia/nvjpeg/lib", "nvidia/cu13/lib"];

/// The places that had no nvJPEG; its text says how to get one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// In the order in which they were tried, with what was wrong with what was there.
    pub places: Vec<String>,
    /// The user named the place.
    pub named: bool,
}

impl fmt::Display for Searched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no nvJPEG ({NAME}) found; looked in {}", self.places.join(", "))?;
        if self.named {
            return write!(f, "; {VARIABLE} names the folder that holds it, or the file");
        }
        write!(
            f,
            "; it comes with the CUDA toolkit (apt-get install libnvjpeg-13-0 from NVIDIA's repository) and with pip \
             install nvidia-nvjpeg (CUDA 13) or nvidia-nvjpeg-cu12: name its folder with {VARIABLE} where it is not \
             found by itself, or use --decoder turbo"
        )
    }
}

/// Libraries to try, best first, and the places that were looked into.
pub fn search() -> (Vec<Candidate>, Searched) {
    if let Some(place) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return named(Path::new(&place));
    }
    let mut searched = Searched {
        places: vec!["the loader's path (LD_LIBRARY_PATH, ldconfig)".to_owned()],
        named: false,
    };
    let bare = LOADER_NAMES.map(|name| Candidate { library: name.into(), named: false });
    let mut found = Vec::from(bare);
    let pip = pip_directories().into_iter();
    let pip = pip.flat_map(|site| PIP_FOLDERS.map(|folder| site.join(folder)));
    for directory in cuda_directories().into_iter().chain(pip) {
        if let Some(library) = newest_library(&directory, NAME) {
            found.push(Candidate { library, named: false });
        }
        if directory.is_dir() {
            searched.places.push(directory.display().to_string());
        }
    }
    if searched.places.len() == 1 {
        searched.places.push("CUDA's folders and pip's packages, of which none is here".to_owned());
    }
    (found, searched)
}

fn named(place: &Path) -> (Vec<Candidate>, Searched) {
    let library = if place.is_dir() { newest_library(place, NAME) } else { Some(place.to_owned()) };
    let searched = Searched { places: vec![place.display().to_string()], named: true };
    (library.map(|library| Candidate { library, named: true }).into_iter().collect(), searched)
}

/// The libraries' folders of every CUDA toolkit below /usr/local, the newest first, and JetPack's.
fn cuda_directories() -> Vec<PathBuf> {
    let mut toolkits = folders(Path::new("/usr/local"), "cuda");
    // Later versions sort behind earlier ones, and the link `cuda` before all of them.
    toolkits.reverse();
    let mut directories = Vec::new();
    for toolkit in toolkits {
        directories.push(toolkit.join("lib64"));
        let targets = folders(&toolkit.join("targets"), "").into_iter();
        directories.extend(targets.map(|target| target.join("lib")));
    }
    directories.push("/usr/lib/aarch64-linux-gnu".into());
    directories
}

/// The folders in a folder whose names begin with `start`, sorted.
fn folders(directory: &Path, start: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_folder_is_the_only_place() {
        let directory = tempfile::tempdir().unwrap();
        let (found, searched) = named(directory.path());
        assert!(found.is_empty() && searched.named);
        let text = searched.to_string();
        assert!(text.contains(&directory.path().display().to_string()), "{text}");
        assert!(text.contains(VARIABLE), "{text}");
        for name in ["libnvjpeg.so.12", "libnvjpeg.so.13", "libnvjpeg2k.so.14"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let library = directory.path().join("libnvjpeg.so.13");
        assert_eq!(named(directory.path()).0, [Candidate { library, named: true }]);
    }

    #[test]
    fn nothing_found_says_where_it_looked_and_how_to_get_it() {
        let text = Searched { places: vec!["/here".into()], named: false }.to_string();
        for word in ["/here", "pip install", "CUDA toolkit", VARIABLE, "--decoder turbo"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }

    #[test]
    fn folders_are_those_that_begin_so() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["cuda-12.4", "cuda-13.0", "cuda", "other"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        std::fs::write(directory.path().join("cuda.txt"), "").unwrap();
        let found = folders(directory.path(), "cuda");
        assert_eq!(
            found,
            ["cuda", "cuda-12.4", "cuda-13.0"].map(|name| directory.path().join(name))
        );
        assert!(folders(&directory.path().join("none"), "").is_empty());
    }
}
