/*!
`manifest.toml`: what an exported bundle of ONNX graphs is and what it was made from.

The exporter (`onnx/export.py`) writes it and everything else reads it, so that no
shape, colour constant or bank size is written down twice.
*/

use std::fmt;

use serde::{Deserialize, Serialize};

use super::mask_decoder::MaskDecoderPart;
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
    /// Which network, at which size and precision.
    pub model: Model,
    /// Where the weights came from.
    pub weights: Weights,
    /// Shapes and constants that the host side must keep to.
    pub contract: Contract,
    /// Exporter and library versions.
    pub export: Export,
    /// The graphs, one ONNX file each.
    #[serde(rename = "graph")]
    pub graphs: Vec<Graph>,
    /// The blocks between the encoder's two parts, which this program computes itself; none where
    /// TensorRT computes all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk: Option<Trunk>,
    /// The track step's mask decoder, which this program may compute itself, behind [`Role::TrackImage`]; none where engines alone compute it.
    #[serde(rename = "decoder", default, skip_serializing_if = "Option::is_none")]
    pub mask_decoder: Option<MaskDecoderPart>,
    /// The memory graph, which this program may compute itself; none where an engine alone computes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_encoder: Option<MemoryEncoderPart>,
}

/// Which network the graphs hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Model {
    /// `edgetam`, `sam2.1_tiny`, …
    pub name: String,
    /// Rules that the tracker follows.
    pub family: Family,
    /// Side of the square network input, pixels.
    pub imgsz: usize,
    /// `fp32` or `fp16`.
    pub precision: String,
    /// Number of trained scalars.
    #[serde(default)]
    pub parameters: u64,
}

/// The two families of trackers (`export.md` §3.8 lists where they differ).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// SAM 2.1: pointers carry their age.
    #[serde(rename = "sam2.1")]
    Sam21,
    /// EdgeTAM: pointers carry no age; a perceiver shrinks each memory.
    #[serde(rename = "edgetam")]
    EdgeTam,
}

/// Where the weights came from.
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
    /// File laid over random weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_file: Option<String>,
    /// SHA-256 of that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_sha256: Option<String>,
    /// How many tensors were taken from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_tensors: Option<u64>,
}

/// Shapes and constants of the graphs that the host side must keep to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contract {
    /// Side of the feature map, `imgsz / 16`.
    pub grid: usize,
    /// Side of the low-resolution logits, `4 * grid`.
    pub low_size: usize,
    /// Channels of the feature map.
    pub feature_channels: usize,
    /// Tokens of one memory frame.
    pub memory_tokens: usize,
    /// Channels of one memory token.
    pub memory_channels: usize,
    /// Channels of one object pointer.
    pub pointer_channels: usize,
    /// Memory frames that the track step attends to at most.
    pub max_memories: usize,
    /// Object pointers that the track step attends to at most.
    pub max_pointers: usize,
    /// Whether the track step takes the pointers' ages.
    pub pointer_times: bool,
    /// Mean of each RGB channel on the 0..1 scale.
    pub mean: [f32; 3],
    /// Standard deviation of each RGB channel on the 0..1 scale.
    pub std: [f32; 3],
}

/// Exporter and library versions; free keys beside the required ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Export {
    /// Name and version of the exporter.
    pub exporter: String,
    /// ONNX opset of the graphs.
    pub opset: u32,
    /// Versions of the libraries that shaped the graphs.
    #[serde(flatten)]
    pub versions: toml::Table,
}

/// One ONNX file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Graph {
    /// What it does.
    pub role: Role,
    /// File name beside the manifest.
    pub file: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// 2 × multiply-accumulates at batch 1, one object, full bank, one point.
    #[serde(default)]
    pub flops: u64,
    /// Inputs in graph order.
    #[serde(rename = "input", default)]
    pub inputs: Vec<Tensor>,
    /// Outputs in graph order.
    #[serde(rename = "output", default)]
    pub outputs: Vec<Tensor>,
}

/// One input or output of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    /// Name in the graph.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents; symbolic axes are B objects, P points, F memories, N pointers.
    pub shape: Vec<Axis>,
}

/// Element types at the graphs' boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 32-bit integer.
    I32,
}

/// One extent of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Axis {
    /// Fixed.
    Fixed(usize),
    /// Free within its range, by name.
    Symbol(String),
}

/// "mem f16[B,F,512,64]".
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = match self.dtype {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::I32 => "i32",
        };
        let extent = |axis: &Axis| match axis {
            Axis::Fixed(extent) => extent.to_string(),
            Axis::Symbol(symbol) => symbol.clone(),
        };
        let extents: Vec<String> = self.shape.iter().map(extent).collect();
        write!(f, "{} {dtype}[{}]", self.name, extents.join(","))
    }
}

impl Graph {
    /// The input called `name`.
    pub fn input(&self, name: &str) -> Option<&Tensor> {
        self.inputs.iter().find(|tensor| tensor.name == name)
    }
}

impl Manifest {
    /// The graph with this role.
    pub fn graph(&self, role: Role) -> Option<&Graph> {
        self.graphs.iter().find(|graph| graph.role == role)
    }

    /// The parts of the encoder in order; none where it is there in one piece alone.
    pub fn encoder_parts(&self) -> Vec<&Graph> {
        Role::CUTS.into_iter().map_while(|role| self.graph(role)).collect()
    }

    /// The segments of the track step in order; none where it is there in one piece alone.
    pub fn segments(&self) -> Vec<&Graph> {
        Role::SEGMENTS.into_iter().map_while(|role| self.graph(role)).collect()
    }

    /// Graphs that other bundles of the same network may have cut otherwise, or not at all: the
    /// encoder's parts, and what stands in front of a mask decoder of this program's.
    pub fn own_cuts(&self) -> Vec<&Graph> {
        self.encoder_parts().into_iter().chain(self.graph(Role::TrackImage)).collect()
    }

    /// One phrase that says whose weights these are, for people and for the sidecar.
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
