/*!
What a plan was, or is to be, built with: everything that changes the plan's bytes and that the user
can choose.

Two plans of the same graph, TensorRT and GPU with equal settings are interchangeable; that is what
reuse rests on.
*/

use serde::{Deserialize, Serialize};

use super::fp32_pins::Fp32Pins;
use vos::precision::Precision;

/// Exact shapes of the inputs with open extents, for one optimization profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileShapes {
    /// What it is for ("1 object, 7 memories, 16 pointers").
    pub label: String,
    /// Input name and whole shape, in the graph's order.
    pub shapes: Vec<(String, Vec<i64>)>,
}

/// Everything chosen for a build.
///
/// Layers in fp32 that the user named, or all of them, may use TF32 matmuls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Arithmetic asked for.
    pub precision: Precision,
    /// The types are the ONNX file's (11, RTX); else flags allow precisions and pinned layers are
    /// pinned (8.x, 10.x).
    pub strongly_typed: bool,
    /// What is kept in fp32.
    pub fp32_pins: Fp32Pins,
    /// Parts of the names of further layers that are kept in fp32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fp32_layers: Vec<String>,
    /// Precision of the bundle whose graphs are built.
    pub graphs: String,
    /// Builder optimization level; none where the release has none (8.5).
    pub opt_level: Option<u8>,
    /// Runs over which a tactic's time is averaged; none for TensorRT's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing_runs: Option<u8>,
    /// Cap of the workspace, bytes.
    pub workspace_bytes: u64,
    /// Cap of the memory in which tactics are timed, bytes; none: TensorRT's default.
    pub tactic_bytes: Option<u64>,
    /// Cap of all device memory of the build, bytes.
    pub memory_bytes: Option<u64>,
    /// Tactics may come from cuBLAS and cuDNN too.
    pub library_tactics: bool,
    /// Only tactics and kernels that every GPU from Ampere (sm 80) on can run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ampere_plus: bool,
    /// Compute capabilities to build for instead of the GPU at hand (TensorRT for RTX).
    pub targets: Vec<u32>,
    /// One per fill level, number of objects and points; empty where all shapes are fixed.
    pub profiles: Vec<ProfileShapes>,
}

#[cfg(any(test, feature = "fixtures"))]
impl Settings {
    /// Level 3, no caps, nothing pinned; for tests.
    pub fn plain(precision: Precision) -> Self {
        Self {
            precision,
            strongly_typed: false,
            fp32_pins: Fp32Pins::None,
            fp32_layers: Vec::new(),
            graphs: "fp32".to_owned(),
            opt_level: Some(3),
            timing_runs: None,
            workspace_bytes: 0,
            tactic_bytes: None,
            memory_bytes: None,
            library_tactics: false,
            ampere_plus: false,
            targets: Vec::new(),
            profiles: Vec::new(),
        }
    }
}
