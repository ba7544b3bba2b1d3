/*!
nsys's messages while it records, and the reason of a missing report.

nsys writes its recording to a `.qdstrm` file, from which a separate program, the importer, makes
the report. If the importer cannot run, nsys reports success and leaves the file.
*/

use std::fmt;
use std::path::{Path, PathBuf};

use report::nsys::Nsys;

/// nsys's message after its importer ran and failed; the next recording may succeed.
const IMPORT_FAILED: &str = "Importation failed";
/// The importer, in a folder named after the host's processor.
const IMPORTER: (&str, &str) = ("host-linux", "QdstrmImporter");
/// Most lines in an error.
const SHOWN: usize = 4;
/// Parts of lines with the importer's cause, the most reliable first. The other lines of a failed
/// import are a dump of its structures.
const CAUSES: [&str; 7] =
    ["tag_message", "exception::what", "nable to", "annot", "ailed", "xception", "rror"];
/// Parts of the message about a CUDA newer than nsys: "Unknown runtime API function index: 473".
const NEWER_CUDA: [&str; 2] = ["Unknown ", " API function index"];
/// Most links from the name of nsys to the program.
const LINKS: usize = 8;

/// nsys's lines without the worker's events.
#[derive(Clone, Debug, Default)]
pub(super) struct NsysMessages {
    /// Lines of standard error, which the worker uses too.
    pub errors: Vec<String>,
    /// Lines of standard output.
    pub printed: Vec<String>,
}

impl NsysMessages {
    /// Existing recordings that its lines name, the last one first.
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

    /// Whether CUDA has calls that this nsys does not know, so that it cannot import the recording.
    fn names_newer_cuda(&self) -> bool {
        self.sentences().iter().any(|line| NEWER_CUDA.iter().all(|part| line.contains(part)))
    }

    /// Writes all lines to a file, because the cause may be in any of them.
    pub fn keep(&self, path: &Path) -> std::io::Result<()> {
        let mut text = self.lines().collect::<Vec<_>>().join("\n");
        text.push('\n');
        std::fs::write(path, text)
    }

    /// All lines in order.
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.errors.iter().chain(&self.printed).map(String::as_str)
    }

    /// Lines that may contain a cause, without braces and the progress bar. A cause is one line of
    /// the dump with its line breaks written as `\n`.
    fn sentences(&self) -> Vec<&str> {
        let parts = self.lines().flat_map(|line| line.split("\\n"));
        let trimmed = parts.map(|part| part.trim_matches(|c: char| c.is_whitespace() || c == '"'));
        let is_bar = |part: &str| part.starts_with('[') && part.contains("%") && part.contains(']');
        let tells = |part: &&str| part.chars().any(char::is_alphanumeric) && !is_bar(part);
        trimmed.filter(tells).collect()
    }
}

/// The lines with causes, or the last lines without any.
impl fmt::Display for NsysMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentences = self.sentences();
        let rank = |line: &str| CAUSES.iter().position(|cause| line.contains(cause));
        let mut causes: Vec<usize> =
            (0..sentences.len()).filter(|&at| rank(sentences[at]).is_some()).collect();
        causes.sort_by_key(|&at| rank(sentences[at]));
        causes.truncate(SHOWN);
        // In their original order.
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

/// This nsys records but cannot make reports, so further recordings would fail too.
#[derive(Debug, thiserror::Error)]
#[error(
    "nsys {version} cannot make reports here: {why}. Its messages: {messages}.{files} \
         {advice}"
)]
pub struct NoReports {
    version: String,
    why: &'static str,
    messages: String,
    files: String,
    advice: String,
}

/// Why a pass that nsys recorded without an error has no report at `wanted`. `beside` is a
/// recording in place of the report, `words` the file with all of nsys's messages.
pub(super) fn why_no_report(
    nsys: &Nsys,
    messages: &NsysMessages,
    wanted: &Path,
    beside: Option<PathBuf>,
    words: Option<&Path>,
) -> anyhow::Error {
    let version = nsys.version.clone();
    let recording = beside.or_else(|| messages.recordings().next());
    let recorded = recording.as_ref();
    let mut files =
        recorded.map_or_else(String::new, |left| format!(" The recording: {}.", left.display()));
    if let Some(words) = words {
        files.push_str(&format!(" All of its messages: {}.", words.display()));
    }
    let no_reports = |why, advice| NoReports {
        version: version.clone(),
        why,
        messages: messages.to_string(),
        files: files.clone(),
        advice,
    };
    match &recording {
        _ if messages.names_newer_cuda() => {
            let why = "it does not know all calls of this machine's CUDA driver, which is newer";
            let advice = "Install a newer Nsight Systems (developer.nvidia.com/nsight-systems) and \
                          set NSYS_CMD=/path/to/nsys";
            no_reports(why, advice.to_owned()).into()
        }
        Some(recording) if !messages.import_failed() => {
            no_reports("its importer could not run", advice(&nsys.path, recording)).into()
        }
        _ => anyhow::anyhow!(
            "nsys {version} ended without an error and wrote no {}. Its messages: \
             {messages}.{files} If they name no cause, check for a full disk or memory.",
            wanted.display(),
        ),
    }
}

/// The command to type.
fn advice(nsys: &Path, recording: &Path) -> String {
    match importer(nsys) {
        Some(importer) => format!(
            "Find missing libraries with: ldd {0} | grep 'not found'. Install them and record \
             again, or import this recording: {0} -i {1}",
            importer.display(),
            recording.display()
        ),
        None => format!(
            "Look for {1} in a folder {0}-… of its installation ({2}): ldd …/{1} | grep 'not \
             found' lists missing libraries; without that folder install the complete Nsight \
             Systems",
            IMPORTER.0,
            IMPORTER.1,
            nsys.display()
        ),
    }
}

/// The importer of an nsys: `../host-linux-x64/QdstrmImporter` from the program's folder or from
/// that of a link to it.
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
        let mut messages = NsysMessages {
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
        let text = why_no_report(&nsys(&wanted), &messages, &wanted, None, None);
        assert!(text.downcast_ref::<NoReports>().is_none(), "{text}");
        for recording in [&first, &last] {
            std::fs::write(recording, "recorded").unwrap();
            let text = why_no_report(&nsys(&wanted), &messages, &wanted, None, None);
            assert!(text.downcast_ref::<NoReports>().is_some(), "{text}");
            let text = text.to_string();
            assert!(text.contains(&format!("recording: {}", recording.display())), "{text}");
            assert!(text.contains("Unable to retrieve the importer version"), "{text}");
            assert!(text.contains("QdstrmImporter in a folder host-linux-"), "{text}");
        }
        // It ran, and the next recording may go through it.
        messages.errors = lines(&[
            "Importer error status: Importation failed.",
            "Import Failed with unexpected exception",
            "Dynamic exception type",
            "std::exception::what: ProtobufSerializeException",
            "Failed to create 'a.qdstrm': No space left on device.",
        ]);
        let text = why_no_report(&nsys(&wanted), &messages, &wanted, None, None);
        assert!(text.downcast_ref::<NoReports>().is_none(), "{text}");
        let text = text.to_string();
        assert!(text.contains("No space left on device") && text.contains("a.qdstrm"), "{text}");
        let silent = why_no_report(&nsys(&wanted), &NsysMessages::default(), &wanted, None, None)
            .to_string();
        assert!(silent.contains("a.nsys-rep. Its messages: nothing."), "{silent}");
    }

    /// The sentence is one that the importer holds (`Unknown %1% API function index: %2%`); the
    /// dump around it is made up after its form.
    #[test]
    fn the_cause_is_found_in_the_importers_dump() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = dir.path().join("a.nsys-rep");
        let messages = NsysMessages {
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
        messages.keep(&words).unwrap();
        let kept = std::fs::read_to_string(&words).unwrap();
        assert_eq!(kept.lines().count(), 11, "{kept}");
        let text = why_no_report(&nsys(&wanted), &messages, &wanted, None, Some(&words));
        assert!(text.downcast_ref::<NoReports>().is_some(), "{text}");
        let text = text.to_string();
        for part in ["function index: 473", "which is newer", "NSYS_CMD", "a.nsys.txt"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("};") && !text.contains("8%"), "{text}");
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
        // Debian's packages have it next to the link, NVIDIA's next to the program.
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
