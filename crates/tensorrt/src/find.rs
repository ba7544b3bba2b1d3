/*!
The search for TensorRT's libraries: a named directory, an environment variable, the loader's path,
pip's packages.

A named place is final: nothing else is tried, so that a program never runs another release than the
one that its user named.
*/

use std::fmt;
use std::path::{Path, PathBuf};

use dynlib::{Candidate, newest, pip_directories};

/// How the user of a program names TensorRT: searches read the variable, error messages quote both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Environment variable with a directory or a library's path.
    pub variable: &'static str,
    /// The program's flag for the same, such as `--tensorrt-lib`.
    pub flag: Option<&'static str>,
}

impl Naming {
    /// The variable `TENSORRT_LIB`, and no flag.
    pub const DEFAULT: Self = Self { variable: "TENSORRT_LIB", flag: None };

    /// Both, joined by a word: "--tensorrt-lib or TENSORRT_LIB".
    fn joined(&self, word: &str) -> String {
        match self.flag {
            Some(flag) => format!("{flag} {word} {}", self.variable),
            None => self.variable.to_owned(),
        }
    }
}

impl Default for Naming {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// "--tensorrt-lib or TENSORRT_LIB".
impl fmt::Display for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.joined("or"))
    }
}

/// Library names without their version, and the parser that goes with each.
const PRODUCTS: [(&str, &str); 2] = [
    ("libnvinfer.so", "libnvonnxparser.so"),
    ("libtensorrt_rtx.so", "libtensorrt_onnxparser_rtx.so"),
];
/// Bare file names for the loader, newest first.
const LOADER_NAMES: [&str; 6] = [
    "libnvinfer.so.11",
    "libnvinfer.so.10",
    "libnvinfer.so.8",
    "libnvinfer.so",
    "libtensorrt_rtx.so.1",
    "libtensorrt_rtx.so",
];
/// Folders of pip packages that carry the libraries.
const PIP_PACKAGES: [&str; 4] = ["tensorrt_libs", "tensorrt", "tensorrt_rtx_libs", "tensorrt_rtx"];

/// The places that had no TensorRT; its text says how to get one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Directories and loader names, in the order they were tried.
    pub places: Vec<String>,
    /// The user named the place.
    pub named: bool,
    /// How the user names one.
    pub naming: Naming,
}

impl fmt::Display for Searched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no TensorRT library (libnvinfer.so or libtensorrt_rtx.so) found")?;
        write!(f, "; looked in {}", self.places.join(", "))?;
        if self.named {
            let names = self.naming.joined("and");
            return write!(f, "; name the directory that holds it, or leave {names} out");
        }
        write!(
            f,
            ". Get it on JetPack: sudo apt install tensorrt; on Debian or Ubuntu: NVIDIA's CUDA \
             apt repository, sudo apt install libnvinfer-bin libnvonnxparsers-dev; with pip: pip \
             install tensorrt-rtx-cu13-libs (RTX GPUs; builds without a GPU) or pip install \
             tensorrt; then name its directory with {} where it is not found by itself",
            self.naming
        )
    }
}

/// Libraries to try, best first, and the places that were searched. `explicit` is a directory or a
/// library.
pub fn search(naming: Naming, explicit: Option<&Path>) -> (Vec<Candidate>, Searched) {
    let variable =
        std::env::var_os(naming.variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(place) = explicit.map(Path::to_owned).or(variable) {
        return named(naming, &place);
    }
    let mut searched = Searched {
        places: vec!["the loader's path (LD_LIBRARY_PATH, ldconfig)".to_owned()],
        named: false,
        naming,
    };
    let mut found: Vec<Candidate> = LOADER_NAMES
        .map(|name| Candidate { library: name.into(), named: false })
        .into_iter()
        .collect();
    for site in pip_directories() {
        searched.places.push(site.path.display().to_string());
        for library in PIP_PACKAGES.iter().filter_map(|name| library_in(&site.path.join(name))) {
            match site.check(&library) {
                Ok(()) => found.push(Candidate { library, named: false }),
                Err(left_out) => searched.places.push(left_out),
            }
        }
    }
    (found, searched)
}

fn named(naming: Naming, place: &Path) -> (Vec<Candidate>, Searched) {
    let library = match place.is_dir() {
        // pip installs into a folder below the site-packages that the user may have named.
        true => library_in(place)
            .or_else(|| PIP_PACKAGES.iter().find_map(|package| library_in(&place.join(package)))),
        false => Some(place.to_owned()),
    };
    let searched = Searched { places: vec![place.display().to_string()], named: true, naming };
    (library.map(|library| Candidate { library, named: true }).into_iter().collect(), searched)
}

/// The newest library of either product in a directory.
fn library_in(directory: &Path) -> Option<PathBuf> {
    PRODUCTS.iter().find_map(|(name, _)| newest(directory, name))
}

/// The parser beside a library, or its bare names for the loader.
pub(super) fn parser_names(library: &Path, major: i32) -> Vec<PathBuf> {
    let file = library.file_name().unwrap_or_default().to_string_lossy();
    let parser = parser_of(file.contains("rtx"));
    let beside = library.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut names: Vec<PathBuf> = Vec::new();
    names.extend(beside.and_then(|directory| newest(directory, parser)));
    names.extend([format!("{parser}.{major}").into(), PathBuf::from(parser)]);
    names
}

/// The parser's file name for a product.
pub(super) fn parser_of(rtx: bool) -> &'static str {
    PRODUCTS[usize::from(rtx)].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_versioned_file_wins() {
        let directory = tempfile::tempdir().unwrap();
        for name in
            ["libnvinfer.so.8", "libnvinfer.so.10", "libnvinfer.so.10.3.0", "libnvinfer.so.txt"]
        {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let found = library_in(directory.path()).unwrap();
        assert_eq!(found, directory.path().join("libnvinfer.so.10.3.0"));
        std::fs::write(directory.path().join("libnvinfer_plugin.so.11"), "").unwrap();
        assert_eq!(library_in(directory.path()), Some(found));
    }

    #[test]
    fn a_named_directory_is_the_only_place() {
        let directory = tempfile::tempdir().unwrap();
        let (found, searched) = search(Naming::DEFAULT, Some(directory.path()));
        assert!(found.is_empty() && searched.named);
        let text = searched.to_string();
        assert!(text.contains(&directory.path().display().to_string()), "{text}");
    }

    #[test]
    fn nothing_found_says_where_it_looked_and_how_to_get_it() {
        let naming = Naming { variable: "THE_LIB", flag: Some("--the-lib") };
        let mut searched =
            Searched { places: vec!["the loader's path".into()], named: false, naming };
        let text = searched.to_string();
        for word in
            ["JetPack", "Debian", "pip install", "with --the-lib or THE_LIB", "the loader's path"]
        {
            assert!(text.contains(word), "{word} in {text}");
        }
        searched.named = true;
        assert!(searched.to_string().ends_with("or leave --the-lib and THE_LIB out"));
        searched.naming = Naming::DEFAULT;
        assert!(searched.to_string().ends_with("or leave TENSORRT_LIB out"));
    }

    #[test]
    fn the_parser_is_sought_beside_its_library() {
        let directory = tempfile::tempdir().unwrap();
        let parser = directory.path().join("libtensorrt_onnxparser_rtx.so.1");
        std::fs::write(&parser, "").unwrap();
        let names = parser_names(&directory.path().join("libtensorrt_rtx.so.1"), 1);
        assert_eq!(names[0], parser);
        assert_eq!(names[1], Path::new("libtensorrt_onnxparser_rtx.so.1"));
        assert_eq!(
            parser_names(Path::new("libnvinfer.so.10"), 10)[0],
            Path::new("libnvonnxparser.so.10")
        );
    }
}
