/*!
The search for a library of the CUDA toolkit: an environment variable, the loader's path, CUDA's
folders, pip's packages. The first usable one is taken.
*/

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Candidate, newest, pip_directories};

/// A library of the CUDA toolkit, and the phrases that error messages use for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its common name: "nvJPEG".
    pub title: &'static str,
    /// Its file name without a version: "libnvjpeg.so".
    pub file: &'static str,
    /// Environment variable that names the library or its folder. If it is set, nothing else is
    /// tried.
    pub variable: &'static str,
    /// Bare file names for the loader, newest first.
    pub loader: &'static [&'static str],
    /// Folders below pip's `site-packages` that have it.
    pub pip: &'static [&'static str],
    /// Where to get it, as a clause after a semicolon.
    pub advice: &'static str,
    /// How to do without it, as an imperative.
    pub without: &'static str,
}

/// The places that had no such library. The text says how to get one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// The library.
    pub wanted: &'static Wanted,
    /// In the order of the search. A library that was found and rejected has its reason in
    /// brackets.
    pub places: Vec<String>,
    /// The user named the place.
    pub named: bool,
}

impl fmt::Display for Searched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { title, file, variable, advice, without, .. } = self.wanted;
        write!(f, "no {title} ({file}) found; looked in {}", self.places.join(", "))?;
        if self.named {
            return write!(f, "; {variable} names the folder that holds it, or the file");
        }
        write!(f, "; {advice}, or {without}")
    }
}

/// Why no library was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed {
    /// There is none.
    NotFound(Searched),
    /// The one that the user named cannot be used.
    Unusable {
        /// The library that was wanted.
        wanted: &'static Wanted,
        /// The file.
        path: PathBuf,
        /// The loader's message, or the missing symbol.
        why: String,
    },
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(searched) => searched.fmt(f),
            Self::Unusable { wanted, path, why } => {
                let Wanted { title, variable, without, .. } = wanted;
                let path = path.display();
                write!(
                    f,
                    "{path} cannot be used as {title}: {why}; {variable} names another one, or {without}"
                )
            }
        }
    }
}

impl std::error::Error for Missed {}

/// The first library that `open` accepts. If the variable is set, only the library that it names is
/// tried.
///
/// `open` gets a path or a bare file name. Its message for an absent file begins with that name, as
/// the loader's messages do; other messages are kept for the list of places.
///
/// # Errors
/// No library was accepted.
pub fn first<T>(
    wanted: &'static Wanted,
    open: impl Fn(&Path) -> Result<T, String>,
) -> Result<T, Missed> {
    let (candidates, mut searched) = search(wanted);
    for candidate in candidates {
        let name = candidate.library.display().to_string();
        let why = match open(&candidate.library) {
            Ok(library) => return Ok(library),
            Err(why) => why,
        };
        if candidate.named {
            return Err(Missed::Unusable { wanted, path: candidate.library, why });
        }
        // It exists but is of no use: its owner learns why if nothing else is found.
        if !why.starts_with(&name) {
            searched.places.push(format!("{name} ({why})"));
        }
    }
    Err(Missed::NotFound(searched))
}

/// The major number of a CUDA release ("13.0").
pub fn major(release: &str) -> Option<i32> {
    release.split('.').next()?.parse().ok()
}

/// Refuses a library built for CUDA `made_for` if the driver supports CUDA `newest` at most.
///
/// # Errors
/// Why it cannot run, as a clause.
pub fn too_new(made_for: i32, newest: Option<i32>) -> Result<(), String> {
    match newest {
        Some(newest) if made_for > newest => {
            Err(format!("it is made for CUDA {made_for}, the driver knows CUDA {newest}"))
        }
        _ => Ok(()),
    }
}

/// Libraries to try, best first, and the places that were looked into.
fn search(wanted: &'static Wanted) -> (Vec<Candidate>, Searched) {
    if let Some(place) = std::env::var_os(wanted.variable).filter(|value| !value.is_empty()) {
        return named(wanted, Path::new(&place));
    }
    let places = vec!["the loader's path (LD_LIBRARY_PATH, ldconfig)".to_owned()];
    let mut searched = Searched { wanted, places, named: false };
    let bare = wanted.loader.iter();
    let mut found: Vec<Candidate> =
        bare.map(|name| Candidate { library: name.into(), named: false }).collect();
    let mut look_into = |directory: &Path, check: &dyn Fn(&Path) -> Result<(), String>| {
        if directory.is_dir() {
            searched.places.push(directory.display().to_string());
        }
        let Some(library) = newest(directory, wanted.file) else { return };
        match check(&library) {
            Ok(()) => found.push(Candidate { library, named: false }),
            Err(left_out) => searched.places.push(left_out),
        }
    };
    cuda_directories().iter().for_each(|directory| look_into(directory, &|_| Ok(())));
    for site in pip_directories() {
        let folders = wanted.pip.iter().map(|folder| site.path.join(folder));
        folders.for_each(|folder| look_into(&folder, &|library| site.check(library)));
    }
    if searched.places.len() == 1 {
        searched.places.push("CUDA's folders and pip's packages, of which none is here".to_owned());
    }
    (found, searched)
}

fn named(wanted: &'static Wanted, place: &Path) -> (Vec<Candidate>, Searched) {
    let library = match place.is_dir() {
        true => newest(place, wanted.file),
        false => Some(place.to_owned()),
    };
    let searched = Searched { wanted, places: vec![place.display().to_string()], named: true };
    (library.map(|library| Candidate { library, named: true }).into_iter().collect(), searched)
}

/// The libraries' folders of every CUDA toolkit below /usr/local, the newest first, and JetPack's.
fn cuda_directories() -> Vec<PathBuf> {
    let mut toolkits = folders(Path::new("/usr/local"), "cuda");
    // Later versions sort after earlier ones, and the link `cuda` before all of them.
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

    static MADE_UP: Wanted = Wanted {
        title: "made-up library",
        file: "libmadeup.so",
        variable: "A_MADE_UP_LIBRARY",
        loader: &["libmadeup.so.2", "libmadeup.so.1"],
        pip: &["nvidia/madeup/lib"],
        advice: "make one up",
        without: "go without",
    };

    #[test]
    fn a_named_folder_is_the_only_place() {
        let directory = tempfile::tempdir().unwrap();
        let (found, searched) = named(&MADE_UP, directory.path());
        assert!(found.is_empty() && searched.named);
        let text = searched.to_string();
        assert!(text.contains(&directory.path().display().to_string()), "{text}");
        assert!(text.contains(MADE_UP.variable) && !text.contains("make one up"), "{text}");
        for name in ["libmadeup.so.12", "libmadeup.so.13", "libmadeup2k.so.14"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let library = directory.path().join("libmadeup.so.13");
        assert_eq!(named(&MADE_UP, directory.path()).0, [Candidate { library, named: true }]);
    }

    #[test]
    fn nothing_found_says_where_it_looked_what_was_wrong_and_how_to_get_it() {
        let absent = |path: &Path| match path.ends_with("libmadeup.so.1") {
            true => Err::<(), _>("it is broken".to_owned()),
            false => Err(format!("{}: no such file", path.display())),
        };
        let Err(Missed::NotFound(searched)) = first(&MADE_UP, absent) else { panic!("found") };
        let text = searched.to_string();
        for word in ["the loader's path", "libmadeup.so.1 (it is broken)", "make one up"] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(!text.contains("libmadeup.so.2"), "absent, so not worth a word: {text}");
    }

    #[test]
    fn the_first_that_opens_is_taken() {
        let open = |path: &Path| match path.to_str() {
            Some("libmadeup.so.2") => too_new(14, major("13.0")).map(|()| 2),
            _ => too_new(13, major("13.0")).map(|()| 1),
        };
        assert_eq!(first(&MADE_UP, open), Ok(1));
        assert_eq!(too_new(14, None), Ok(()));
        let why = too_new(14, major("13.0")).unwrap_err();
        assert_eq!(why, "it is made for CUDA 14, the driver knows CUDA 13");
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
