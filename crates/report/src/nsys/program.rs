/*!
Finds the `nsys` program.

On a Jetson and after some installers it is not on PATH, so the usual folders are searched. The
user's choice comes first.
*/

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use host::on_path;
use host::timed_command;

/// Environment variable with the program's path, as in the predecessor.
pub const VARIABLE: &str = "NSYS_CMD";

/// Usual paths: JetPack's and the stand-alone packages' folder, and the usual folder of links.
const USUAL: [&str; 3] =
    ["/opt/nvidia/nsight-systems/bin/nsys", "/usr/local/bin/nsys", "/usr/local/cuda/bin/nsys"];
/// Packages of several releases are here, each with its own `bin`.
const RELEASES: &str = "/opt/nvidia/nsight-systems";
/// Longest wait for a tool to print its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// A working nsys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nsys {
    /// The program.
    pub path: PathBuf,
    /// Its version as printed, such as `2023.4.4.54-234433681190v0`.
    pub version: String,
}

/// Why there is no working nsys.
#[derive(Debug, thiserror::Error)]
pub enum NsysError {
    /// It was not found.
    #[error(
        "Nsight Systems (nsys) was not found; searched {}. Install it on JetPack with: sudo apt \
         install nsight-systems-cli, or nvidia-jetpack; on Debian or Ubuntu from NVIDIA's apt \
         repository: sudo apt install nsight-systems-cli; or from \
         developer.nvidia.com/nsight-systems; if it is still not found, set {VARIABLE} to its \
         path", searched.join(", ")
    )]
    Missing {
        /// The searched places.
        searched: Vec<String>,
    },
    /// The program does not run.
    #[error("{} does not run: {why}; install Nsight Systems again, or set {VARIABLE} to another \
             one", path.display())]
    Broken {
        /// The program.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

impl Nsys {
    /// The program in `NSYS_CMD`, else the first working one on PATH or in the usual places.
    ///
    /// # Errors
    /// [`NsysError`]; if the program in `NSYS_CMD` does not run, no other is tried.
    pub fn find() -> Result<Self, NsysError> {
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        if let Some(named) = variable {
            return Self::at(Path::new(&named));
        }
        let (mut searched, mut broken) = (Vec::new(), None);
        for path in candidates() {
            searched.push(path.display().to_string());
            match Self::at(&path) {
                Ok(found) => return Ok(found),
                Err(error) if path.is_file() => broken = broken.or(Some(error)),
                Err(_) => {}
            }
        }
        Err(broken.unwrap_or(NsysError::Missing { searched }))
    }

    /// The program at `path`.
    ///
    /// # Errors
    /// It does not start, or prints no version.
    pub fn at(path: &Path) -> Result<Self, NsysError> {
        let broken = |why: String| NsysError::Broken { path: path.to_owned(), why };
        let printed = timed_command::run(Command::new(path).arg("--version"), PATIENCE)
            .map_err(|error| broken(error.to_string()))?;
        let line = printed.first_line().unwrap_or_default().to_owned();
        if !printed.status.success() {
            return Err(broken(format!("--version ended with {}: {line}", printed.status)));
        }
        // "NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0"
        let version = line.rsplit(' ').next().unwrap_or_default();
        if !version.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(broken(format!("--version gave {line:?}, expected a version")));
        }
        Ok(Self { path: path.to_owned(), version: version.to_owned() })
    }

    /// Whether `nsys profile` has a flag; releases differ.
    pub fn profile_knows(&self, flag: &str) -> bool {
        let help =
            timed_command::run(Command::new(&self.path).args(["profile", "--help"]), PATIENCE);
        help.is_ok_and(|help| help.out.contains(flag) || help.err.contains(flag))
    }
}

/// All candidates in the order in which they are tried.
fn candidates() -> Vec<PathBuf> {
    let mut found = on_path::find("nsys");
    if found.is_empty() {
        // So that the message has the name instead of every folder of PATH.
        found.push(PathBuf::from("nsys"));
    }
    found.extend(USUAL.map(PathBuf::from));
    found.extend(releases(Path::new(RELEASES)));
    found
}

/// `<root>/<release>/bin/nsys`, the newest release first.
fn releases(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join("bin/nsys"))
        .filter(|p| p.is_file())
        .collect();
    found.sort();
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process writes the script: a file that this one has open for writing while another
    /// test forks cannot be run.
    fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod +x "$0""#;
        let written = Command::new("sh").args(["-c", write]).arg(&path).arg(text).status();
        assert!(written.unwrap().success());
        path
    }

    #[test]
    fn the_version_is_the_last_word_and_anything_else_is_no_nsys() {
        let dir = tempfile::tempdir().unwrap();
        let good =
            script(dir.path(), "good", "echo NVIDIA Nsight Systems version 2024.5.1.113-1v0");
        assert_eq!(Nsys::at(&good).unwrap().version, "2024.5.1.113-1v0");
        let other = script(dir.path(), "other", "echo hello");
        let error = Nsys::at(&other).unwrap_err().to_string();
        assert!(error.contains("\"hello\"") && error.contains(VARIABLE), "{error}");
        let failing = script(dir.path(), "failing", "echo no libraries >&2; exit 127");
        let error = Nsys::at(&failing).unwrap_err().to_string();
        assert!(error.contains("no libraries") && error.contains("127"), "{error}");
        assert!(Nsys::at(&dir.path().join("none")).is_err());
    }

    #[test]
    fn the_newest_release_is_tried_first() {
        let dir = tempfile::tempdir().unwrap();
        for release in ["2023.4.4", "2024.5.1"] {
            script(dir.path(), &format!("{release}/bin/nsys"), "true");
        }
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        let found = releases(dir.path());
        assert_eq!(found[0], dir.path().join("2024.5.1/bin/nsys"));
        assert_eq!(found.len(), 2);
    }
}
