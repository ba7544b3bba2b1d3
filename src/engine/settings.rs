/*!
What a plan was, or is to be, built with: everything that changes the plan's bytes and that the user can choose.

Two plans of the same graph, TensorRT and GPU with equal settings are interchangeable; that is what reuse rests on.
*/

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::islands::Islands;
use crate::bundle::Role;

/// Arithmetic that a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats, TF32 off.
    Fp32,
    /// Half precision with fp32 islands.
    Fp16,
    /// Halves between the layers of the memory attention and between graphs; encoder, mask decoder and memory encoder compute
    /// in fp32 with TF32 products: masks as near to fp32 as PyTorch's fp16 (8.x, 10.x; the bank must be fused).
    Mixed,
    /// Brain floats with fp32 islands (TensorRT 10, weakly typed).
    Bf16,
    /// Whatever of fp16, bf16, TF32 is fastest; islands stay fp32.
    Best,
}

impl Precision {
    /// The name in file names and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Mixed => "mixed",
            Self::Bf16 => "bf16",
            Self::Best => "best",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How the track step runs while the memory bank is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bank {
    /// The bank is always full-sized; a key bias masks the empty slots.
    Padded,
    /// One profile for each fill level.
    Exact,
    /// As padded, but the track step is cut at its attentions, which this program's own kernels compute.
    Fused,
}

impl Bank {
    /// The name in messages and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Padded => "padded",
            Self::Exact => "exact",
            Self::Fused => "fused",
        }
    }

    /// The graph whose plan a folder has where it was built in this form.
    pub fn role(self) -> Role {
        match self {
            Self::Padded => Role::TrackPadded,
            Self::Exact => Role::Track,
            // Not of the keys, which may be a kernel's.
            Self::Fused => Role::TrackSeg0,
        }
    }

    /// The forms in the order in which a run takes what there is: the cut one, for it was built on purpose, the platform's `usual`
    /// one, then any.
    pub fn by_preference(usual: Option<Self>) -> impl Iterator<Item = Self> {
        [Some(Self::Fused), usual, Some(Self::Padded), Some(Self::Exact)].into_iter().flatten()
    }
}

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
/// Layers in fp32 that were asked for by name, or all of them, may have TF32 products.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Arithmetic asked for.
    pub precision: Precision,
    /// The types are the ONNX file's (11, RTX); else flags allow precisions and islands are pinned (8.x, 10.x).
    pub strongly_typed: bool,
    /// What is kept in fp32.
    pub islands: Islands,
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
    /// Compute capabilities to build for instead of the GPU at hand (TensorRT for RTX).
    pub targets: Vec<u32>,
    /// One per fill level, number of objects and points; empty where all shapes are fixed.
    pub profiles: Vec<ProfileShapes>,
}

#[cfg(test)]
impl Settings {
    /// Level 3, no caps, nothing pinned; for tests.
    pub(crate) fn plain(precision: Precision) -> Self {
        Self {
            precision,
            strongly_typed: false,
            islands: Islands::None,
            fp32_layers: Vec::new(),
            graphs: "fp32".to_owned(),
            opt_level: Some(3),
            timing_runs: None,
            workspace_bytes: 0,
            tactic_bytes: None,
            memory_bytes: None,
            library_tactics: false,
            targets: Vec::new(),
            profiles: Vec::new(),
        }
    }
}
