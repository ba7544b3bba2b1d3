/*!
`manifest.toml`: the graphs of an exported bundle, their shapes and constants, and their origin.

The exporter (`onnx/export.py`) writes it, and everything else reads shapes, colour constants and
bank sizes from it.
*/

use serde::{Deserialize, Serialize};

pub use super::graph::{Axis, Contract, DType, Graph, Tensor};
use super::mask_decoder::MaskDecoderPart;
use super::memory_attention::MemoryAttentionPart;
use super::memory_encoder::MemoryEncoderPart;
use super::role::Role;
use super::trunk::Trunk;

/// The manifest format that this program reads.
pub const FORMAT: u32 = 1;

/// The whole `manifest.toml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this layout, [`FORMAT`].
    pub format: u32,
    /// The network, its size and precision.
    pub model: Model,
    /// Origin of the weights.
    pub weights: Weights,
    /// Shapes and constants for the host code.
    pub contract: Contract,
    /// Exporter and library versions.
    pub export: Export,
    /// The graphs, one ONNX file each.
    #[serde(rename = "graph")]
    pub graphs: Vec<Graph>,
    /// The blocks between the encoder's two parts, which custom CUDA kernels compute; none if
    /// TensorRT computes the whole encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk: Option<Trunk>,
    /// The track step's mask decoder, which custom CUDA kernels may compute after
    /// [`Role::TrackImage`]; none if only engines compute it.
    #[serde(alias = "decoder", default, skip_serializing_if = "Option::is_none")]
    pub mask_decoder: Option<MaskDecoderPart>,
    /// What lies between the track step's attentions, which custom CUDA kernels may compute; none if
    /// only engines compute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_attention: Option<MemoryAttentionPart>,
    /// The memory encoder, which custom CUDA kernels may compute; none if only an engine computes
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_encoder: Option<MemoryEncoderPart>,
}

/// The network of the graphs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Model {
    /// `edgetam`, `sam2.1_tiny`, …
    pub name: String,
    /// The family, whose rules the tracker follows.
    pub family: Family,
    /// Side of the square network input, pixels.
    pub imgsz: usize,
    /// `fp32` or `fp16`.
    pub precision: String,
    /// Number of trained scalars.
    #[serde(default)]
    pub parameters: u64,
}

/// The two families of trackers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// SAM 2.1: pointers carry their age.
    #[serde(rename = "sam2.1")]
    Sam21,
    /// EdgeTAM: pointers carry no age; a perceiver shrinks each memory.
    #[serde(rename = "edgetam")]
    EdgeTam,
}

/// Origin of the weights.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Weights {
    /// `checkpoint` or `random`.
    pub source: String,
    /// File name of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_file: Option<String>,
    /// SHA-256 of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_sha256: Option<String>,
    /// Seed of random weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// File with tensors that replace random weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_file: Option<String>,
    /// SHA-256 of that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_sha256: Option<String>,
    /// Number of tensors from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_tensors: Option<u64>,
}

/// Exporter and library versions; other keys are allowed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Export {
    /// Name and version of the exporter.
    pub exporter: String,
    /// ONNX opset of the graphs.
    pub opset: u32,
    /// Versions of the libraries that affect the graphs.
    #[serde(flatten)]
    pub versions: toml::Table,
}

impl Manifest {
    /// The graph with this role.
    pub fn graph(&self, role: Role) -> Option<&Graph> {
        self.graphs.iter().find(|graph| graph.role == role)
    }

    /// The parts of the encoder in order; empty if it is only in one piece.
    pub fn encoder_parts(&self) -> Vec<&Graph> {
        Role::CUTS.into_iter().map_while(|role| self.graph(role)).collect()
    }

    /// The segments of the track step in order; empty if it is only in one piece.
    pub fn segments(&self) -> Vec<&Graph> {
        Role::SEGMENTS.into_iter().map_while(|role| self.graph(role)).collect()
    }

    /// Graphs that other bundles of the same network may lack or cut at other places: the encoder's
    /// parts, and the graph before a custom mask decoder.
    pub fn cut_graphs(&self) -> Vec<&Graph> {
        self.encoder_parts().into_iter().chain(self.graph(Role::TrackImage)).collect()
    }

    /// A phrase about the origin of the weights, for people and for the sidecar.
    pub fn weights_phrase(&self) -> String {
        let w = &self.weights;
        let base = match (w.source.as_str(), &w.checkpoint_file, w.seed) {
            ("checkpoint", Some(file), _) => format!("checkpoint {file}"),
            ("random", _, Some(seed)) => format!("random weights, seed {seed}"),
            (other, ..) => other.to_owned(),
        };
        match (&w.overlay_file, w.overlay_tensors) {
            (Some(file), Some(n)) => format!("{base}, {n} tensors from {file}"),
            (Some(file), None) => format!("{base}, overlaid with {file}"),
            _ => base,
        }
    }
}
