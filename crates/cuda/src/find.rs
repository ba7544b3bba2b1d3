/*!
Where NVIDIA's libraries that come with the CUDA toolkit are looked for: an environment variable, the loader's path, CUDA's
folders, pip's packages; and which of those found is taken.
*/

use std::fmt;
use std::path::{Path, PathBuf};

use dynlib::{Candidate, newest, pip_directories};

/// A library that is opened at run time.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What people call it.
    pub title: &'static str,
    /// Its file's name without the version.
    pub file: &'static str,
    /// Environment variable that names the library, or its folder. Where it is set nothing else is tried.
    pub variable: &'static str,
    /// What the loader is asked for by bare name, newest first.
    pub loader: &'static [&'static str],
    /// Folders below pip's `site-packages` that have it.
    pub pip: &'static [&'static str],
    /// How to get it, and how to do without, as the end of a sentence.
    pub advice: &'static str,
}

/// The places that had no such library; its text says how to get one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// What was looked for.
    pub wanted: &'static Wanted,
    /// In the order in which they were tried, with what was wrong with what was there.
    pub places: Vec<String>,
    /// The user named the place.
    pub named: bool,
}

impl fmt::Display for Searched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { title, file, variable, advice, .. } = self.wanted;
        write!(f, "no {title} ({file}) found; looked in {}", self.places.join(", "))?;
        if self.named {
            return write!(f, "; {variable} names the folder that holds it, or the file");
        }
        write!(f, "; {advice}")
    }
}

/// Why no library was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed {
    /// There is none.
    NotFound(Searched),
    /// The one that the user named cannot be used.
    Unusable {
        /// The file.
        path: PathBuf,
        /// The loader's words, or what it lacks.
        why: String,
    },
}

/// The first library that `open` takes: the one that the variable names, or else any of those found. What `open` says of a library
/// that is simply absent begins with its name, as the loader's words do.
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
            return Err(Missed::Unusable { path: candidate.library, why });
        }
        // There, but of no use: worth a word where nothing else is found.
        if !why.starts_with(&name) {
            searched.places.push(format!("{name} ({why})"));
        }
    }
    Err(Missed::NotFound(searched))
}

/// The number before the dot of a CUDA release ("13.0").
pub fn major(release: &str) -> Option<i32> {
    release.split('.').next()?.parse().ok()
}

/// What is wrong with a library made for CUDA `made_for` beside a driver that knows CUDA `newest` at most, where that is known.
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

    static MADE_UP: Wanted = Wanted {
        title: "made-up library",
        file: "libmadeup.so",
        variable: "SEGTRT_TEST_OF_A_MADE_UP_LIBRARY",
        loader: &["libmadeup.so.2", "libmadeup.so.1"],
        pip: &["nvidia/madeup/lib"],
        advice: "make one up",
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
