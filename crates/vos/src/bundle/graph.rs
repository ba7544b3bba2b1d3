/*!
Graphs of a bundle with their tensors, and the constants that the host code shares with them.

The fused parts check their shapes against these types; only the manifest above them knows the
parts.
*/

use std::fmt;

use serde::{Deserialize, Serialize};

use super::role::Role;

/// Shapes and constants of the graphs for the host code.
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
    /// Most memory frames of the track step.
    pub max_memories: usize,
    /// Most object pointers of the track step.
    pub max_pointers: usize,
    /// Whether the track step takes the ages of pointers.
    pub pointer_times: bool,
    /// Mean of each RGB channel on the 0..1 scale.
    pub mean: [f32; 3],
    /// Standard deviation of each RGB channel on the 0..1 scale.
    pub std: [f32; 3],
}

/// One ONNX file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Graph {
    /// Its role.
    pub role: Role,
    /// Its file name.
    pub file: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// 2 × multiply-accumulates for batch 1, one object, a full bank and one point.
    #[serde(default)]
    pub flops: u64,
    /// Bytes of inputs, weights and outputs of all convolutions and matmuls, in the bundle's
    /// precision, without attention scores; none in bundles of older exports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Fewest kernel launches: one for each convolution, matmul or attention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<u64>,
    /// Most bytes of results that are needed at the same time, without weights and scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_bytes: Option<u64>,
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

/// Element types of graph inputs and outputs.
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
    /// Variable within its range, by name.
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
