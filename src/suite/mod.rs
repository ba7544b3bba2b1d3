/*!
Suites: several benches of the same clips under different conditions, and one table of them all.

The predecessor had three, each a script with its experiments written in; these are here by their
names, and a file in the same form makes another.
*/

mod built_in;
mod combine;
mod file;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
pub use combine::{ExperimentTable, combine};

use vos::strides::Strides;

/// A list of experiments with a name for their common table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// As it was asked for.
    pub name: String,
    /// File name of the table of all experiments.
    pub summary: String,
    /// In the order in which they run.
    pub experiments: Vec<Experiment>,
}

/// One bench of a suite: what differs from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Its folder, and the column `experiment_name`.
    pub name: String,
    /// The column `experiment_description`.
    pub description: String,
    /// Side of the network input in pixels; the bench's own where none is named.
    pub imgsz: Option<usize>,
    /// Frames that are fed and scored.
    pub strides: Strides,
}

impl Suite {
    /// The suite of that name, or the one that the file of that name describes.
    ///
    /// # Errors
    /// Neither a known name nor a file, or a file that is no suite.
    pub fn find(text: &str) -> Result<Self> {
        if let Some(suite) = built_in::find(text) {
            return Ok(suite);
        }
        let path = Path::new(text);
        if path.is_file() {
            return file::read(path);
        }
        bail!(
            "{text:?} is no suite; expected {}, or a TOML file with [[experiment]] tables \
             (docs/reference/suites.md)",
            built_in::NAMES.join(", ")
        )
    }

    /// Where `experiment` leaves its files.
    pub fn folder(&self, root: &Path, experiment: &Experiment) -> PathBuf {
        root.join(&experiment.name)
    }
}
