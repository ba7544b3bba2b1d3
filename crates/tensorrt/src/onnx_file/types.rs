/*!
The description of an ONNX file as plain data.
*/

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

/// A node of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnnxNode {
    /// Its name; exporters may leave it empty.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// The operator's domain; empty for ONNX's default.
    pub domain: String,
}

/// Element type of a tensor: the number in `TensorProto.DataType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OnnxType(pub u64);

impl OnnxType {
    /// 64-bit integers.
    pub const I64: Self = Self(7);
    /// Brain floats.
    pub const BF16: Self = Self(16);

    /// Name and size of an element in bits; texts have no size of their own.
    fn facts(self) -> Option<(&'static str, u64)> {
        Some(match self.0 {
            1 => ("f32", 32),
            2 => ("u8", 8),
            3 => ("i8", 8),
            4 => ("u16", 16),
            5 => ("i16", 16),
            6 => ("i32", 32),
            7 => ("i64", 64),
            8 => ("text", 0),
            9 => ("bool", 8),
            10 => ("f16", 16),
            11 => ("f64", 64),
            12 => ("u32", 32),
            13 => ("u64", 64),
            14 => ("complex64", 64),
            15 => ("complex128", 128),
            16 => ("bf16", 16),
            17 => ("f8e4m3fn", 8),
            18 => ("f8e4m3fnuz", 8),
            19 => ("f8e5m2", 8),
            20 => ("f8e5m2fnuz", 8),
            21 => ("u4", 4),
            22 => ("i4", 4),
            23 => ("f4e2m1", 4),
            _ => return None,
        })
    }

    /// Bytes of so many elements.
    pub fn bytes(self, elements: u64) -> u64 {
        self.facts().map_or(0, |(_, bits)| elements.saturating_mul(bits).div_ceil(8))
    }
}

impl fmt::Display for OnnxType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.facts() {
            Some((name, _)) => f.pad(name),
            None => f.pad(&format!("type {}", self.0)),
        }
    }
}

impl Serialize for OnnxType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One extent of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum OnnxExtent {
    /// Fixed.
    Fixed(u64),
    /// Open, under this name.
    Named(String),
    /// Open and nameless.
    Open,
}

impl fmt::Display for OnnxExtent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(extent) => write!(f, "{extent}"),
            Self::Named(name) => write!(f, "{name}"),
            Self::Open => write!(f, "?"),
        }
    }
}

/// An input or output of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OnnxTensor {
    /// Its name.
    pub name: String,
    /// Its element type; none for sequences, maps and the like.
    pub dtype: Option<OnnxType>,
    /// Its extents; none where even their number is open.
    pub shape: Option<Vec<OnnxExtent>>,
}

/// Weights and other constants of one element type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OnnxWeights {
    /// How many tensors.
    pub tensors: u64,
    /// How many elements they have.
    pub elements: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// The description of an ONNX file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnnxSummary {
    /// Version of the file format.
    pub ir_version: u64,
    /// Program that wrote it, with its version.
    pub producer: String,
    /// Opset of the default domain.
    pub opset: Option<i64>,
    /// Opsets of other domains.
    pub other_opsets: Vec<(String, i64)>,
    /// The graph's name.
    pub graph: String,
    /// The graph's nodes in file order.
    pub nodes: Vec<OnnxNode>,
    /// Nodes of subgraphs (bodies of loops and branches).
    pub inner_nodes: Vec<OnnxNode>,
    /// Inputs in file order, without those that have a weight as their default.
    pub inputs: Vec<OnnxTensor>,
    /// Outputs in file order.
    pub outputs: Vec<OnnxTensor>,
    /// Weights and constants by element type, those in other files included.
    pub weights: BTreeMap<OnnxType, OnnxWeights>,
    /// Files beside this one that hold weights.
    pub external_files: Vec<String>,
}
