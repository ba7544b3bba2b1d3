/*!
Finds `ncu`, and runs it.
*/

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::raw_page::errors;
use super::{DRAM, L2, OCCUPANCY, STALLS, TENSOR, TIME};
use host::on_path;

/// Environment variable with the program's path.
pub const VARIABLE: &str = "NCU_CMD";
/// Usual paths: the CUDA toolkit's.
const USUAL: [&str; 2] = ["/usr/local/cuda/bin/ncu", "/usr/local/bin/ncu"];
/// Packages of several releases are here.
const RELEASES: &str = "/opt/nvidia/nsight-compute";
/// Begins the error of a driver that keeps its counters for the administrator.
const REFUSED: &str = "ERR_NVGPUCTRPERM";

/// The program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ncu {
    path: PathBuf,
}

/// What to record.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Regular expression of the kernels' names.
    pub kernels: String,
    /// Most launches; none for all.
    pub launches: Option<u32>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

impl Ncu {
    /// The program in `NCU_CMD`, else on PATH or in the usual places.
    ///
    /// # Errors
    /// There is none; the sentence says how to install it.
    pub fn find() -> Result<Self> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        if let Some(path) = named.map(PathBuf::from) {
            if !path.is_file() {
                bail!("{VARIABLE}={} is no file; name the program ncu", path.display());
            }
            return Ok(Self { path });
        }
        let mut found = on_path::find("ncu");
        found.extend(USUAL.map(PathBuf::from));
        found.extend(releases(Path::new(RELEASES)));
        match found.into_iter().find(|path| path.is_file()) {
            Some(path) => Ok(Self { path }),
            None => bail!(
                "Nsight Compute (ncu) was not found; searched PATH, {} and {RELEASES}. Install it: \
                 sudo apt install nsight-compute (from NVIDIA's apt repository or JetPack's), or \
                 from developer.nvidia.com/nsight-compute; or set {VARIABLE} to its path",
                USUAL.join(", ")
            ),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a program under ncu and returns ncu's output. The program's own output goes to standard
    /// error.
    ///
    /// # Errors
    /// ncu or the program failed, or the driver refuses its counters.
    pub fn record(&self, recording: &Recording) -> Result<String> {
        let folder = tempfile::Builder::new().prefix("segtrt-ncu-").tempdir()?;
        let log = folder.path().join("raw.csv");
        let mut command = Command::new(&self.path);
        command.args(["--csv", "--page", "raw", "--target-processes", "all", "--log-file"]);
        command.arg(&log).arg("--kernel-name").arg(format!("regex:{}", recording.kernels));
        if let Some(launches) = recording.launches {
            command.arg("--launch-count").arg(launches.to_string());
        }
        command.arg("--metrics").arg([TIME, OCCUPANCY, TENSOR, DRAM, L2].join(","));
        command.args(["--section", STALLS]).args(&recording.command);
        log::debug!("{command:?}");
        command.stdin(Stdio::null()).stdout(std::io::stderr());
        let status = command
            .status()
            .with_context(|| format!("cannot run {}; set {VARIABLE}", self.path.display()))?;
        let text = std::fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Some(refusal) = refusal(&text) {
            bail!("{refusal}");
        }
        if !status.success() {
            let errors = errors(&text);
            bail!(
                "{} ended with {status}: {}",
                self.path.display(),
                match errors.is_empty() {
                    true => "the program under it failed; run it without ncu first".to_owned(),
                    false => errors.join("; "),
                }
            );
        }
        Ok(text)
    }

    /// The raw page of a report (.ncu-rep).
    ///
    /// # Errors
    /// ncu cannot read it.
    pub fn import(&self, report: &Path) -> Result<String> {
        let output = Command::new(&self.path)
            .args(["--csv", "--page", "raw", "--import"])
            .arg(report)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}; set {VARIABLE}", self.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let both = format!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
            bail!(
                "{} cannot read {} ({}): {}; read it with the release that wrote it",
                self.path.display(),
                report.display(),
                output.status,
                errors(&both).join("; ")
            );
        }
        Ok(text)
    }
}

/// The sentence for a driver that refuses its counters to this user; none if it does not.
pub fn refusal(text: &str) -> Option<String> {
    text.contains(REFUSED).then(|| {
        format!(
            "the driver refuses the GPU's counters to this user ({REFUSED}). Run segtrt ncu as root \
             (sudo), or let all users read them: put \"options nvidia \
             NVreg_RestrictProfilingToAdminUsers=0\" into /etc/modprobe.d/nvidia.conf and restart \
             the machine. A container needs --cap-add=SYS_ADMIN"
        )
    })
}

/// `<root>/<release>/ncu`, the newest release first.
fn releases(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path().join("ncu")).collect();
    found.sort();
    found.reverse();
    found
}
