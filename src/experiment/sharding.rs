/*!
The shards of an experiment and their devices, as stored in `experiment.json`.
*/

use serde::{Deserialize, Serialize};

/// An experiment in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sharding {
    /// How many.
    pub shards: usize,
    /// What runs them.
    pub by: By,
}

/// What runs the shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A GPU of this host each, by the driver's count at the start.
    Devices(Vec<usize>),
    /// An array of jobs.
    Slurm(SlurmJobs),
}

/// The jobs of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlurmJobs {
    /// Further words for sbatch.
    pub args: Vec<String>,
    /// What was submitted, in order.
    #[serde(default)]
    pub submissions: Vec<Submission>,
}

/// One array of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Slurm's number of it.
    pub job: String,
    /// Its tasks: numbers of shards.
    pub tasks: Vec<usize>,
}
