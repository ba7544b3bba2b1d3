/*!
Messages between `segtrt inspect` and the child process that opens a plan.
*/

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use runtime::engine::LayerRecord;

/// The child's job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The plan.
    #[serde(serialize_with = "host::child::utf8::path")]
    pub plan: PathBuf,
    /// Directory of TensorRT's libraries, where one is named.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub tensorrt_lib: Option<PathBuf>,
    /// The release that built it, where its manifest says so; no other is asked.
    pub built_by: Option<String>,
}

/// TensorRT's answer about a plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Live {
    /// It opened the plan.
    Opened(Box<LiveEngine>),
    /// It could not, or there is none.
    NotOpened {
        /// Why, in one sentence.
        why: String,
    },
}

/// An opened engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveEngine {
    /// "TensorRT 8.6.0".
    pub tensorrt: String,
    /// The library's file.
    pub library: String,
    /// The engine's name; empty where it has none.
    pub name: String,
    /// Number of optimization profiles.
    pub profiles: usize,
    /// Inputs and outputs in the engine's order.
    pub tensors: Vec<LiveTensor>,
    /// Device memory that a context needs for the worst profile, bytes.
    pub context_bytes: Option<u64>,
    /// The same for each profile, where the release tells (10 on).
    pub profile_bytes: Vec<u64>,
    /// Number of layers after fusion.
    pub layer_count: usize,
    /// The layers; none where TensorRT would not describe them.
    pub layers: Option<Vec<LayerRecord>>,
    /// Why there are none.
    pub layers_missing: Option<String>,
}

/// An input or output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveTensor {
    /// Its name.
    pub name: String,
    /// It is an input.
    pub input: bool,
    /// Its element type; none for one that this program has no name for.
    pub dtype: Option<String>,
    /// Its extents, -1 where profiles differ.
    pub shape: Vec<i64>,
    /// Inputs: its shape in each profile.
    pub profiles: Vec<Vec<i64>>,
    /// It lies in device memory.
    pub on_device: bool,
    /// Its layout, in TensorRT's words.
    pub format: String,
}
