/*!
What nsys said while it recorded, and what it means that there is no report.

nsys writes what it recorded to a `.qdstrm` file, from which a program of its own, the importer, makes the report. It calls it a
success where that program cannot run, and leaves the file.
*/

use std::fmt;
use std::path::{Path, PathBuf};

use report::nsys::Nsys;

/// What nsys says where its importer ran and failed: the next recording may go through it.
const IMPORT_FAILED: &str = "Importation failed";
/// The importer, in a folder named after the host's processor.
const IMPORTER: (&str, &str) = ("host-linux", "QdstrmImporter");
/// Lines that are shown.
const SHOWN: usize = 4;
/// What the lines have in which the importer names a cause, the surest first; the rest of a failed import is a dump of its own
/// structures, dozens of lines of braces.
const CAUSES: [&str; 7] =
    ["tag_message", "exception::what", "nable to", "annot", "ailed", "xception", "rror"];
/// Calls of a CUDA newer than nsys: "Unknown runtime API function index: 473".
const NEWER_CUDA: [&str; 2] = ["Unknown ", " API function index"];
/// Links from the name of nsys to the program that are followed.
const LINKS: usize = 8;

/// The lines that nsys wrote, less the worker's events.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// To standard error, where the worker writes too.
    pub errors: Vec<String>,
    /// To standard output.
    pub printed: Vec<String>,
}

impl Said {
    /// The recordings that its lines name and that are there, the last one first.
    fn recordings(&self) -> impl Iterator<Item = PathBuf> {
        let lines = self.errors.iter().rev().chain(self.printed.iter().rev());
        // "Generating '/tmp/nsys-report-ca72.qdstrm'", or the path alone.
        let paths = lines.flat_map(|line| line.split('\'').map(str::trim));
        let named = paths.filter(|path| path.ends_with(".qdstrm")).map(PathBuf::from);
        named.filter(|path| path.is_file())
    }

    fn import_failed(&self) -> bool {
        self.lines().any(|line| line.contains(IMPORT_FAILED))
    }

    /// Whether CUDA has calls that this nsys does not know, so that it cannot make sense of what it recorded.
    fn names_newer_cuda(&self) -> bool {
        self.sentences().iter().any(|line| NEWER_CUDA.iter().all(|part| line.contains(part)))
    }

    /// Writes all of it to a file: the cause may stand where nobody looks for it.
    pub fn keep(&self, path: &Path) -> std::io::Result<()> {
        let mut text = self.lines().collect::<Vec<_>>().join("\n");
        text.push('\n');
        std::fs::write(path, text)
    }

    /// All of it, as it came.
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.errors.iter().chain(&self.printed).map(String::as_str)
    }

    /// What may tell something: not braces, not the bar of progress. A cause stands in one line of the dump, with its line
    /// breaks written as `\n`.
    fn sentences(&self) -> Vec<&str> {
        let parts = self.lines().flat_map(|line| line.split("\\n"));
        let trimmed = parts.map(|part| part.trim_matches(|c: char| c.is_whitespace() || c == '"'));
        let is_bar = |part: &str| part.starts_with('[') && part.contains("%") && part.contains(']');
        let tells = |part: &&str| part.chars().any(char::is_alphanumeric) && !is_bar(part);
        trimmed.filter(tells).collect()
    }
}

/// The lines that name causes; where none does, its last words.
impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentences = self.sentences();
        let rank = |line: &str| CAUSES.iter().position(|cause| line.contains(cause));
        let mut causes: Vec<usize> =
            (0..sentences.len()).filter(|&at| rank(sentences[at]).is_some()).collect();
        causes.sort_by_key(|&at| rank(sentences[at]));
        causes.truncate(SHOWN);
        // In the order in which they were said.
        causes.sort_unstable();
        let words: Vec<&str> = match causes.is_empty() {
            true => sentences[sentences.len().saturating_sub(SHOWN)..].to_vec(),
            false => causes.into_iter().map(|at| sentences[at]).collect(),
        };
        match words.is_empty() {
            true => f.write_str("nothing"),
            false => f.write_str(&words.join("; ")),
        }
    }
}

/// This nsys records and cannot make reports of what it records: no other recording will fare better.
#[derive(Debug, thiserror::Error)]
#[error("nsys {version} cannot make reports here: {why}. It said: {said}.{told} {advice}")]
pub struct NoReports {
    version: String,
    why: &'static str,
    said: String,
    told: String,
    advice: String,
}

/// Why a pass that nsys recorded without an error has no report at `wanted`; `beside` is a recording that lies where the
/// report should, `words` the file in which all that nsys said is kept.
pub(super) fn why_no_report(
    nsys: &Nsys,
    said: &Said,
    wanted: &Path,
    beside: Option<PathBuf>,
    words: Option<&Path>,
) -> anyhow::Error {
    let version = nsys.version.clone();
    let recording = beside.or_else(|| said.recordings().next());
    let recorded = recording.as_ref();
    let mut told = recorded
        .map_or_else(String::new, |left| format!(" What it recorded is {}.", left.display()));
    if let Some(words) = words {
        told.push_str(&format!(" All of its words: {}.", words.display()));
    }
    let no_reports = |why, advice| NoReports {
        version: version.clone(),
        why,
        said: said.to_string(),
        told: told.clone(),
        advice,
    };
    match &recording {
        _ if said.names_newer_cuda() => {
            let why = "it does not know all calls of this machine's CUDA driver, which is newer";
            let advice = "Install a newer Nsight Systems (developer.nvidia.com/nsight-systems) and name it: NSYS_CMD=/path/to/nsys";
            no_reports(why, advice.to_owned()).into()
        }
        Some(recording) if !said.import_failed() => {
            no_reports("its importer could not run", advice(&nsys.path, recording)).into()
        }
        _ => anyhow::anyhow!(
            "nsys {version} ended without an error and wrote no {}. It said: {said}.{told} Where that tells \
             nothing: is a disk full, or the memory?",
            wanted.display(),
        ),
    }
}

/// What to type.
fn advice(nsys: &Path, recording: &Path) -> String {
    match importer(nsys) {
        Some(importer) => format!(
            "What the importer lacks: ldd {0} | grep 'not found'. With that installed, record again, or make this report alone: \
             {0} -i {1}",
            importer.display(),
            recording.display()
        ),
        None => format!(
            "Look for {1} in a folder {0}-… of its installation ({2}): ldd …/{1} | grep 'not found' says what to install; where \
             there is none, install the whole of Nsight Systems",
            IMPORTER.0,
            IMPORTER.1,
            nsys.display()
        ),
    }
}

/// The importer of an nsys: `../host-linux-x64/QdstrmImporter` from the program's folder or from that of a link to it.
fn importer(nsys: &Path) -> Option<PathBuf> {
    let mut names = vec![std::path::absolute(nsys).ok()?];
    for _ in 0..LINKS {
        let at = names.last()?;
        match std::fs::read_link(at) {
            Ok(next) => names.push(at.parent()?.join(next)),
            Err(_) => break,
        }
    }
    names.extend(nsys.canonicalize());
    names.iter().find_map(|name| {
        let around = std::fs::read_dir(name.parent()?.join("..")).ok()?.flatten();
        let is_host = |name: &str| name.starts_with(IMPORTER.0);
        let hosts = around.filter(|entry| entry.file_name().to_str().is_some_and(is_host));
        let mut found =
            hosts.map(|host| host.path().join(IMPORTER.1)).filter(|path| path.is_file());
        found.next().map(|path| path.canonicalize().unwrap_or(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn nsys(path: &Path) -> Nsys {
        Nsys { path: path.to_owned(), version: "2023.4.4".to_owned() }
    }

    /// The lines are those of nsys 2023.4.4 whose importer lacks a library.
    #[test]
    fn an_importer_that_cannot_run_is_told_from_one_that_failed() {
        let dir = tempfile::tempdir().unwrap();
        let (first, last) =
            (dir.path().join("nsys-report-ca72.qdstrm"), dir.path().join("a.qdstrm"));
        let wanted = dir.path().join("a.nsys-rep");
        let mut said = Said {
            errors: lines(&[
                "Importer error status: An unknown error occurred.",
                "Unable to retrieve the importer version: skipping importation of the QDSTRM file.",
            ]),
            printed: vec![
                format!("Generating '{}'", first.display()),
                "Generated:".to_owned(),
                last.display().to_string(),
            ],
        };
        // A recording that is named and not there is none.
        let told = why_no_report(&nsys(&wanted), &said, &wanted, None, None);
        assert!(told.downcast_ref::<NoReports>().is_none(), "{told}");
        for recording in [&first, &last] {
            std::fs::write(recording, "recorded").unwrap();
            let told = why_no_report(&nsys(&wanted), &said, &wanted, None, None);
            assert!(told.downcast_ref::<NoReports>().is_some(), "{told}");
            let told = told.to_string();
            assert!(told.contains(&format!("recorded is {}", recording.display())), "{told}");
            assert!(told.contains("Unable to retrieve the importer version"), "{told}");
            assert!(told.contains("QdstrmImporter in a folder host-linux-"), "{told}");
        }
        // It ran, and the next recording may go through it.
        said.errors = lines(&[
            "Importer error status: Importation failed.",
            "Import Failed with unexpected exception",
            "Dynamic exception type",
            "std::exception::what: ProtobufSerializeException",
            "Failed to create 'a.qdstrm': No space left on device.",
        ]);
        let told = why_no_report(&nsys(&wanted), &said, &wanted, None, None);
        assert!(told.downcast_ref::<NoReports>().is_none(), "{told}");
        let told = told.to_string();
        assert!(told.contains("No space left on device") && told.contains("a.qdstrm"), "{told}");
        let silent =
            why_no_report(&nsys(&wanted), &Said::default(), &wanted, None, None).to_string();
        assert!(silent.contains("a.nsys-rep. It said: nothing."), "{silent}");
    }

    /// The sentence is one that the importer holds (`Unknown %1% API function index: %2%`); the dump around it is made up after its form.
    #[test]
    fn the_cause_is_found_in_the_importers_dump() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = dir.path().join("a.nsys-rep");
        let said = Said {
            errors: lines(&[
                "Importer error status: Importation failed.",
                "**** Analysis failed with:",
                "Error {",
                "Type: RuntimeError",
                "SubError {",
                "Items {",
                r#"Value: "/build/QuadD/TraceProcessEvent.cpp(45): Throw in function GetCudaCallbackName\nDynamic exception type: boost::exception_detail\nstd::exception::what: InvalidArgumentException\n[QuadDCommon::tag_message*] = Unknown runtime API function index: 473\n""#,
                "}",
                "};",
            ]),
            printed: lines(&["[1/2] [8%                          ] a.nsys-rep", "Generated:"]),
        };
        let words = dir.path().join("a.nsys.txt");
        said.keep(&words).unwrap();
        let kept = std::fs::read_to_string(&words).unwrap();
        assert_eq!(kept.lines().count(), 11, "{kept}");
        let told = why_no_report(&nsys(&wanted), &said, &wanted, None, Some(&words));
        assert!(told.downcast_ref::<NoReports>().is_some(), "{told}");
        let told = told.to_string();
        for part in ["function index: 473", "which is newer", "NSYS_CMD", "a.nsys.txt"] {
            assert!(told.contains(part), "{part} in {told}");
        }
        assert!(!told.contains("};") && !told.contains("8%"), "{told}");
    }

    #[cfg(unix)]
    #[test]
    fn the_importer_is_found_from_the_program_and_from_links_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let place = |path: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        let (program, link) = (place("lib/target-linux-x64/nsys"), place("share/bin/nsys"));
        std::fs::write(&program, "").unwrap();
        std::os::unix::fs::symlink("../../lib/target-linux-x64/nsys", &link).unwrap();
        let outer = place("bin/nsys");
        std::os::unix::fs::symlink(&link, &outer).unwrap();
        assert_eq!(importer(&outer), None);
        // Debian's packages have it beside the link, NVIDIA's beside the program.
        for place_of in
            ["share/host-linux-x64/QdstrmImporter", "lib/host-linux-armv8/QdstrmImporter"]
        {
            let path = place(place_of);
            std::fs::write(&path, "").unwrap();
            assert_eq!(importer(&outer), Some(path.clone()));
            assert_eq!(importer(&link), Some(path.clone()));
            std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
    }
}
