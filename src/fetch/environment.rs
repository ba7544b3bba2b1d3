/*!
The exporter's Python environment: made once, made anew when a list of requirements changes.
*/

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use sha2::{Digest, Sha256};

use host::{shell, timed_command};

/// Pythons that the requirements have wheels for, by preference.
const PYTHONS: [&str; 4] = ["python3", "python3.13", "python3.12", "python3.11"];
/// Packages of PyTorch without CUDA; the export needs no GPU.
const TORCH_INDEX: &str = "https://download.pytorch.org/whl/cpu";
/// Lists of requirements, by their paths in the sources.
const LISTS: [&str; 3] =
    ["onnx/requirements.txt", "pytorch/requirements-sam2.txt", "pytorch/requirements-edgetam.txt"];
/// Seconds that a Python may take to say its version.
const ANSWER: Duration = Duration::from_secs(20);

/// A Python that can export, and EdgeTAM's code.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The interpreter.
    pub python: PathBuf,
    /// Folder of EdgeTAM's package; `None` leaves it to the exporter.
    pub edgetam: Option<PathBuf>,
}

/// Makes the environment in `folder` unless it is there. `sources` has the lists of requirements.
/// pip's output goes to the terminal.
///
/// # Errors
/// No Python of a fitting version, or a command that failed, with the command.
pub fn prepare(folder: &Path, sources: &Path) -> Result<Environment> {
    let environment =
        Environment { python: folder.join("bin/python"), edgetam: Some(folder.join("edgetam")) };
    let stamp = folder.join("requirements.sha256");
    let wanted = hash_of_lists(sources)?;
    if environment.python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|was| was == wanted)
    {
        return Ok(environment);
    }
    let base = base_python()?;
    eprintln!(
        "preparing the exporter's Python environment in {} (PyTorch without CUDA, about 1.5 GB)",
        folder.display()
    );
    if let Some(above) = folder.parent() {
        std::fs::create_dir_all(above)
            .with_context(|| format!("cannot make the folder {}", above.display()))?;
    }
    step(Command::new(base).args(["-m", "venv", "--clear"]).arg(folder))?;
    let list = |at: usize| sources.join(LISTS[at]);
    let pip = || {
        let mut pip = Command::new(&environment.python);
        pip.args(["-m", "pip", "install", "--disable-pip-version-check"]);
        pip
    };
    step(pip().arg("-r").arg(list(0)).args(["--extra-index-url", TORCH_INDEX]))?;
    // Its build asks for PyTorch and would compile a CUDA extension that nothing here uses.
    let build = ["--no-build-isolation", "--no-deps", "-r"];
    step(pip().args(["setuptools", "wheel"]))?;
    step(pip().args(build).arg(list(1)).env("SAM2_BUILD_CUDA", "0"))?;
    let edgetam = ["--no-deps", "--upgrade", "--target"];
    step(pip().args(edgetam).arg(folder.join("edgetam")).arg("-r").arg(list(2)))?;
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(environment)
}

fn hash_of_lists(sources: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for list in LISTS {
        let path = sources.join(list);
        let text =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        hash.update(text);
    }
    Ok(format!("{:x}", hash.finalize()))
}

/// The first Python that is new enough and has venv.
fn base_python() -> Result<&'static str> {
    let check = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))";
    let fits = |python: &&str| {
        let ran = timed_command::run(Command::new(python).args(["-c", check]), ANSWER);
        ran.is_ok_and(|ran| ran.status.success())
    };
    PYTHONS.into_iter().find(fits).ok_or_else(|| {
        anyhow!(
            "the export needs Python 3.11 or newer with venv, and none of {} is; install one \
             (sudo apt-get install python3-venv, or python3.11-venv), name a Python that has the \
             exporter's packages with --python FILE, or fetch the checkpoint alone with \
             --checkpoint-only and export it on another machine",
            PYTHONS.join(", ")
        )
    })
}

/// Runs one command, its output on standard error.
pub(super) fn step(command: &mut Command) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let line = shell::line(words.iter().map(String::as_str));
    command.stdin(std::process::Stdio::null()).stdout(std::io::stderr());
    // Another project's packages must not mix with these.
    command.env_remove("PYTHONPATH").env_remove("PYTHONHOME").env("PYTHONNOUSERSITE", "1");
    let status = match command.status() {
        Ok(status) => status,
        Err(error) => bail!("cannot run {line}: {error}"),
    };
    ensure!(status.success(), "{line} failed ({status}); its messages are above");
    Ok(())
}
