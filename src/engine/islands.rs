/*!
Which layers of a weakly typed network stay in fp32, where the builder would be free to run them in half precision.

LayerNorm, exponentials written out, coordinate encodings and score heads lose digits there that masks depend on, or
overflow. A typed fp16 graph says itself what must be fp32, by its casts; an fp32 graph does not, and layers are chosen
by their kind. Softmax nodes are not pinned: kernels accumulate in fp32 inside, and fp32 outside would double the
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
    /// A typed graph: what computes floats in fp32 there is pinned to fp32.
    Typed,
    /// An fp32 graph: normalisations, reductions, exponentials and angles are pinned.
    ByKind,
}

/// Kinds that move or select numbers and compute none.
const MOVERS: [&str; 15] = [
    "CAST",
    "CONCATENATION",
    "CONSTANT",
    "FILL",
    "GATHER",
    "IDENTITY",
    "PADDING",
    "RESIZE",
    "SCATTER",
    "SELECT",
    "SHAPE",
    "SHUFFLE",
    "SLICE",
    "SQUEEZE",
    "UNSQUEEZE",
];

/// Kinds that an fp32 graph must keep in fp32.
const DELICATE: [&str; 3] = ["NORMALIZATION", "REDUCE", "UNARY"];

/// Parts of names of nodes that turn positions into angles or give scores; the exporter's own fp32 islands.
const DELICATE_NAMES: [&str; 2] = ["/f32_", "/pointer_pos/"];

impl Islands {
    /// Indices of the layers to pin.
    pub fn choose(self, layers: &[LayerInfo]) -> Vec<i32> {
        let chosen = layers.iter().filter(|layer| {
            let kind = layer.kind.as_deref().unwrap_or_default();
            let floats = || layer.outputs.iter().flatten().any(|kind| *kind == DataType::Float);
            match self {
                Self::None => false,
                Self::Typed => !MOVERS.contains(&kind) && floats(),
                Self::ByKind => {
                    let named = DELICATE_NAMES.iter().any(|part| layer.name.contains(part));
                    floats() && (DELICATE.contains(&kind) || named && !MOVERS.contains(&kind))
                }
            }
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
    fn a_typed_graph_pins_what_it_computes_in_fp32_and_nothing_that_only_moves() {
        let layers = [
            layer(0, "/norm", "NORMALIZATION", DataType::Float),
            layer(1, "/matmul", "MATRIX_MULTIPLY", DataType::Half),
            layer(2, "/cast", "CAST", DataType::Float),
            layer(3, "/index", "ELEMENTWISE", DataType::Int32),
            layer(4, "/f32_head", "MATRIX_MULTIPLY", DataType::Float),
        ];
        assert_eq!(Islands::Typed.choose(&layers), [0, 4]);
        assert!(Islands::None.choose(&layers).is_empty());
    }

    #[test]
    fn an_fp32_graph_pins_by_kind_and_name() {
        let layers = [
            layer(0, "/norm", "NORMALIZATION", DataType::Float),
            layer(1, "/matmul", "MATRIX_MULTIPLY", DataType::Float),
            layer(2, "/softmax", "SOFTMAX", DataType::Float),
            layer(3, "/f32_coords/mul", "ELEMENTWISE", DataType::Float),
            layer(4, "/f32_coords/slice", "SLICE", DataType::Float),
        ];
        assert_eq!(Islands::ByKind.choose(&layers), [0, 3]);
    }
}
