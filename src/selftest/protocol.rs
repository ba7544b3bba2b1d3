/*!
The messages of a self-test and its workers: one [`Job`] on a worker's standard input, one
JSON line per [`SelftestEvent`] on its standard output.
*/

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::engine_run::Repeats;
use super::record::{EngineRow, PlanKey};

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The engine folder.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub dir: PathBuf,
    /// The bundle to compare with; none for no comparison.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub reference: Option<PathBuf>,
    /// The bundle that parts were built from, for those that the other one has not.
    #[serde(default, serialize_with = "host::child::utf8::optional")]
    pub parts: Option<PathBuf>,
    /// Plans with the numbers of their cases, in order.
    pub todo: Vec<(PlanKey, Vec<usize>)>,
    /// What all folders have in common.
    pub settings: Settings,
}

/// What all folders have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Which GPU, from 0.
    pub device: usize,
    /// How often cases are run for their times.
    pub repeats: Repeats,
    /// Relative error allowed instead of the precision's own.
    pub max_error: Option<f64>,
    /// Seed of the inputs.
    pub seed: u64,
    /// TensorRT's library, where named.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub tensorrt_lib: Option<PathBuf>,
    /// ONNX Runtime's library, where named.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub ort_lib: Option<PathBuf>,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SelftestEvent {
    /// Everything is opened.
    Ready(Opened),
    /// A plan cannot be opened: none of its cases will come.
    NoPlan {
        /// Which.
        plan: PlanKey,
        /// Why.
        reason: String,
    },
    /// A case is done, well or not.
    Case {
        /// Of which plan.
        plan: PlanKey,
        /// Its number.
        case: usize,
        /// Its rows.
        rows: Vec<EngineRow>,
    },
    /// The worker cannot go on.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What the worker runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The GPU's name.
    pub device: String,
    /// Its compute capability, 90 for 9.0.
    pub sm: u32,
    /// Newest CUDA that the driver knows.
    pub driver_cuda: String,
    /// TensorRT's release.
    pub tensorrt: String,
    /// TensorRT's library.
    pub tensorrt_library: PathBuf,
    /// ONNX Runtime's library and its build; none without a reference.
    pub onnxruntime: Option<String>,
}
