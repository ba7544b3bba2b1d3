/*!
What nsys said while it recorded, and what it means that there is no report.

nsys writes what it recorded to a `.qdstrm` file, from which a program of its own, the importer, makes the report. It calls it a
success where that program cannot run, and leaves the file.
*/

use std::fmt;
use std::path::{Path, PathBuf};

use crate::nsys::Nsys;

/// What nsys says where its importer ran and failed: the next recording may go through it.
const IMPORT_FAILED: &str = "Importation failed";
/// The importer, in a folder named after the host's processor.
const IMPORTER: (&str, &str) = ("host-linux", "QdstrmImporter");
/// Lines of each kind that are shown.
const SHOWN: usize = 3;
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
        self.errors.iter().chain(&self.printed).any(|line| line.contains(IMPORT_FAILED))
    }
}

/// Its last words.
impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = |lines: &'_ [String]| lines[lines.len().saturating_sub(SHOWN)..].to_vec();
        let words = [last(&self.errors), last(&self.printed)].concat();
        match words.is_empty() {
            true => f.write_str("nothing"),
            false => f.write_str(&words.join("; ")),
        }
    }
}

/// This nsys records and cannot make reports of what it records: no other recording will fare better.
#[derive(Debug, thiserror::Error)]
#[error(
    "nsys {version} cannot make reports here: its importer could not run. It said: {said}. What it recorded is {}. {advice}",
    recording.display()
)]
pub struct NoReports {
    version: String,
    said: String,
    recording: PathBuf,
    advice: String,
}

/// Why a pass that nsys recorded without an error has no report at `wanted`; `beside` is a recording that lies where the
/// report should.
pub(super) fn why_no_report(
    nsys: &Nsys,
    said: &Said,
    wanted: &Path,
    beside: Option<PathBuf>,
) -> anyhow::Error {
    let version = &nsys.version;
    let recording = beside.or_else(|| said.recordings().next());
    match recording {
        Some(recording) if !said.import_failed() => {
            let (version, advice) = (version.clone(), advice(&nsys.path, &recording));
            NoReports { version, said: said.to_string(), recording, advice }.into()
        }
        recording => anyhow::anyhow!(
            "nsys {version} ended without an error and wrote no {}{}. It said: {said}. Is a disk full, or the memory?",
            wanted.display(),
            recording.map_or_else(String::new, |left| format!(", only {}", left.display()))
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
        let told = why_no_report(&nsys(&wanted), &said, &wanted, None);
        assert!(told.downcast_ref::<NoReports>().is_none(), "{told}");
        for recording in [&first, &last] {
            std::fs::write(recording, "recorded").unwrap();
            let told = why_no_report(&nsys(&wanted), &said, &wanted, None);
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
        let told = why_no_report(&nsys(&wanted), &said, &wanted, None);
        assert!(told.downcast_ref::<NoReports>().is_none(), "{told}");
        let told = told.to_string();
        assert!(told.contains("No space left on device") && told.contains("a.qdstrm"), "{told}");
        assert!(!told.contains("unexpected"), "the last {SHOWN} lines: {told}");
        let silent = why_no_report(&nsys(&wanted), &Said::default(), &wanted, None).to_string();
        assert!(silent.contains("a.nsys-rep. It said: nothing."), "{silent}");
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
