/*!
Which layers of a weakly typed network stay in fp32, where the builder would be free to run them in half precision.

LayerNorm, exponentials written out, coordinate encodings and score heads lose digits there that masks depend on, or
overflow. Layers are chosen by their kind and by the names that the exporter gives its own islands. Softmax nodes are not pinned: kernels accumulate in fp32 inside, and fp32 outside would double the
largest tensor of the network. Rotary angles are tables made at export; rotating by them is harmless in fp16.
*/

use serde::{Deserialize, Serialize};

use crate::trt::{DataType, LayerInfo};

/// How islands are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Islands {
    /// Nothing is pinned: the plan is fp32, or the release keeps the ONNX file's types.
    None,
    /// Normalisations, reductions, exponentials, angles and heads are pinned to fp32.
    Pinned,
}

/// Kinds that move or select numbers and compute none.
const MOVERS: [&str; 14] = [
    "CAST",
    "CONCATENATION",
    "CONSTANT",
    "FILL",
    "GATHER",
    "IDENTITY",
    "PADDING",
    "SCATTER",
    "SELECT",
    "SHAPE",
    "SHUFFLE",
    "SLICE",
    "SQUEEZE",
    "UNSQUEEZE",
];

/// Kinds that lose what masks depend on.
const DELICATE: [&str; 3] = ["NORMALIZATION", "REDUCE", "UNARY"];

/// Parts of names of nodes that turn positions into angles or give scores; the exporter's own fp32 islands.
const DELICATE_NAMES: [&str; 2] = ["/f32_", "/pointer_pos/"];

impl Islands {
    /// Indices of the layers to pin.
    ///
    /// The types that a weakly typed network gives for its tensors do not help: 8.6 says fp32 for what a typed graph
    /// computes in fp16.
    pub fn choose(self, layers: &[LayerInfo]) -> Vec<i32> {
        let chosen = layers.iter().filter(|layer| {
            let kind = layer.kind.as_deref().unwrap_or_default();
            let floats = |kind: &DataType| matches!(kind, DataType::Float | DataType::Half);
            let named = DELICATE_NAMES.iter().any(|part| layer.name.contains(part));
            self == Self::Pinned
                && layer.outputs.iter().flatten().any(floats)
                && (DELICATE.contains(&kind) || named && !MOVERS.contains(&kind))
        });
        chosen.map(|layer| layer.index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(index: i32, name: &str, kind: &str, output: DataType) -> LayerInfo {
        LayerInfo { index, name: name.into(), kind: Some(kind.into()), outputs: vec![Some(output)] }
    }

    #[test]
    fn delicate_kinds_and_named_islands_are_pinned_and_what_only_moves_is_not() {
        let layers = [
            layer(0, "/norm", "NORMALIZATION", DataType::Half),
            layer(1, "/matmul", "MATRIX_MULTIPLY", DataType::Float),
            layer(2, "/softmax", "SOFTMAX", DataType::Float),
            layer(3, "/f32_coords/mul", "ELEMENTWISE", DataType::Float),
            layer(4, "/f32_coords/slice", "SLICE", DataType::Float),
            layer(5, "/f32_labels/add", "ELEMENTWISE", DataType::Int32),
        ];
        assert_eq!(Islands::Pinned.choose(&layers), [0, 3]);
        assert!(Islands::None.choose(&layers).is_empty());
    }
}
