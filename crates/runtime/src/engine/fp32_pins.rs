/*!
Which layers of a weakly typed network stay in fp32, where the builder would be free to run them in
half precision.

Coordinate encodings, score heads and exponentials written out lose digits there that masks depend
on, or overflow; they are chosen by the names that the exporter gives them. What is not pinned, and
why:

- LayerNormalization nodes: TensorRT's layer computes mean and variance in fp32 whatever its inputs
  are (`INormalizationLayer::setComputePrecision`). With normalisations, reductions and unary
  operators (GELU's erf among them) pinned, the regions that 8.6's Myelin makes of transformers ran
  in fp32: on an H200 the track step took four times as long.
- Softmax nodes: kernels accumulate in fp32 inside; fp32 outside would double the largest tensor of
  the network.
- Rotary embeddings: the angles are tables made at export; rotating by them is harmless in fp16.
*/

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use tensorrt::{DataType, LayerInfo};

/// What becomes of the pinned layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fp32Pins {
    /// Nothing is pinned; for fp32 plans, and where the release keeps the ONNX file's types.
    None,
    /// Pinned layers run in fp32 where TensorRT has an implementation.
    Preferred,
    /// Pinned layers run in fp32, or the build fails.
    Pinned,
    /// Whatever computes runs in fp32, products in TF32; halves are only stored between graphs.
    /// Finds the graph whose half-precision arithmetic a mask suffers from, and mends it at some
    /// cost.
    Whole,
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

/// Parts of names of nodes that need fp32: the exporter's own pinned layers (angles of coordinates,
/// heads that give scores), and the perceiver's softmax, which is written out.
const DELICATE_NAMES: [&str; 5] = ["/f32_", "/pointer_pos/", "/Exp", "/ReduceSum", "/ReduceMax"];

impl Fp32Pins {
    /// Indices of the layers to pin; `more`: parts of the names of further ones.
    ///
    /// The types that a weakly typed network gives for its tensors do not help: 8.6 says fp32 for
    /// what a typed graph computes in fp16.
    pub fn choose(self, layers: &[LayerInfo], more: &[String]) -> Vec<i32> {
        let chosen = layers.iter().filter(|layer| {
            let kind = layer.kind.as_deref().unwrap_or_default();
            let floats = |kind: &DataType| matches!(kind, DataType::Float | DataType::Half);
            let named = DELICATE_NAMES.iter().any(|part| layer.name.contains(part))
                || more.iter().any(|part| layer.name.contains(part.as_str()));
            self != Self::None
                && layer.outputs.iter().flatten().any(floats)
                && (named || self == Self::Whole)
                && !MOVERS.contains(&kind)
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
    fn named_layers_are_pinned_and_norms_softmax_and_what_only_moves_are_not() {
        let layers = [
            layer(0, "/layers.0/norm1/LayerNormalization", "NORMALIZATION", DataType::Half),
            layer(1, "/matmul", "MATRIX_MULTIPLY", DataType::Float),
            layer(2, "/softmax", "SOFTMAX", DataType::Float),
            layer(3, "/f32_coords/mul", "ELEMENTWISE", DataType::Float),
            layer(4, "/f32_coords/slice", "SLICE", DataType::Float),
            layer(5, "/f32_labels/add", "ELEMENTWISE", DataType::Int32),
            layer(6, "/perceiver/Exp", "UNARY", DataType::Half),
            layer(7, "/blocks.0/act/Erf", "UNARY", DataType::Half),
        ];
        assert_eq!(Fp32Pins::Pinned.choose(&layers, &[]), [3, 6]);
        assert_eq!(Fp32Pins::Preferred.choose(&layers, &[]), [3, 6]);
        assert_eq!(Fp32Pins::Pinned.choose(&layers, &["blocks.0".to_owned()]), [3, 6, 7]);
        assert_eq!(Fp32Pins::Whole.choose(&layers, &[]), [0, 1, 2, 3, 6, 7]);
        assert!(Fp32Pins::None.choose(&layers, &[]).is_empty());
    }
}
