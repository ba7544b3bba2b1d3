/*!
The folder of an experiment, and the file with which it resumes.
*/

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::config_file;
use super::spec::{FORMAT, Ran, Spec};
use crate::shard::Shard;
use vos::files::atomic;

const SPEC_FILE: &str = "experiment.json";

/// Two experiments that begin in the same second take turns.
const ATTEMPTS: usize = 5;

/// An experiment's folder.
#[derive(Debug)]
pub struct Folder {
    /// Its absolute path.
    pub path: PathBuf,
    /// What was decided.
    pub spec: Spec,
}

impl Folder {
    /// Makes `parent/nsight_experiment_<platform>_<timestamp>` with its folders and configuration.
    /// The timestamp is taken here, because a name that is taken costs a second.
    ///
    /// # Errors
    /// The folder cannot be made or written to.
    pub fn create(parent: &Path, mut spec: Spec) -> Result<Self> {
        std::fs::create_dir_all(parent).with_context(|| {
            format!("cannot create {}; choose a writable --out-dir", parent.display())
        })?;
        let path = (0..ATTEMPTS).find_map(|_| {
            spec.timestamp = now();
            let name = format!("nsight_experiment_{}_{}", spec.platform.name(), spec.timestamp);
            let path = parent.join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => Some(Ok(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    std::thread::sleep(Duration::from_secs(1));
                    None
                }
                Err(error) => Some(Err(error).with_context(|| {
                    format!("cannot create {}; choose a writable --out-dir", path.display())
                })),
            }
        });
        let path = path.context("folders of this second are all taken; try again")??;
        let path = std::path::absolute(&path)?;
        let folder = Self { path, spec };
        for inner in [folder.outputs(), folder.reports()] {
            std::fs::create_dir_all(&inner)
                .with_context(|| format!("cannot create {}", inner.display()))?;
        }
        let config = config_file::render(&folder.spec);
        atomic::write(&folder.path.join(config_file::FILE_NAME), |out| {
            Ok(out.write_all(config.as_bytes())?)
        })?;
        folder.write_spec()?;
        Ok(folder)
    }

    /// Opens an experiment that was begun.
    ///
    /// # Errors
    /// It is no such folder, or of another version.
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.join(SPEC_FILE);
        let text = std::fs::read_to_string(&file).with_context(|| {
            format!(
                "cannot read {}; name a folder nsight_experiment_… that segtrt experiment made",
                file.display()
            )
        })?;
        let spec: Spec = serde_json::from_str(&text).with_context(|| {
            format!("{} is damaged; begin a new experiment without --resume", file.display())
        })?;
        if spec.format != FORMAT {
            bail!(
                "{} has format {}, this program continues format {FORMAT}; begin a new experiment",
                file.display(),
                spec.format
            );
        }
        Ok(Self { path: std::path::absolute(path)?, spec })
    }

    /// The timed bench's folder.
    pub fn outputs(&self) -> PathBuf {
        self.path.join("profile_outputs")
    }

    /// Where reports of Nsight Systems go.
    pub fn reports(&self) -> PathBuf {
        self.path.join("nsight_reports")
    }

    /// The folder of a shard.
    pub fn shard(&self, shard: Shard) -> PathBuf {
        self.path.join("shards").join(shard.folder())
    }

    /// Notes a step.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(&mut self, ran: Ran) -> Result<()> {
        self.spec.steps.push(ran);
        self.write_spec()
    }

    /// Writes `experiment.json`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_spec(&self) -> Result<()> {
        atomic::write(&self.path.join(SPEC_FILE), |out| {
            serde_json::to_writer_pretty(&mut *out, &self.spec)?;
            Ok(out.write_all(b"\n")?)
        })
    }
}

fn now() -> String {
    jiff::Zoned::now().strftime("%Y%m%d_%H%M%S").to_string()
}
