/*!
The layers of a trunk's blocks, and of the memory attention's keys, in the trunk's file.
*/

use anyhow::{Context, Result};
use safetensors::tensor::Dtype;

use super::Trunk;
use crate::bundle::fused_part::WeightsFile;
use crate::bundle::memory_key_proj::MemoryKeyProjWeights;
use crate::bundle::tensors::Tensor;

/// The weights' file.
pub type TrunkWeights = WeightsFile<Trunk>;

/// A weight and the bias that belongs to it, as little-endian bytes, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerBytes<'a> {
    /// Of a product f16\[columns out, columns in\]; of a normalization f32\[columns\]; of a
    /// depthwise convolution f16\[places, columns\].
    pub weight: &'a [u8],
    /// \[columns out\], f16 or f32.
    pub bias: &'a [u8],
}

/// Types of a weight and its bias.
pub(super) type Types = [Dtype; 2];
pub(super) const FLOAT: Types = [Dtype::F32, Dtype::F32];
pub(super) const HALF: Types = [Dtype::F16, Dtype::F16];
pub(super) const MIXED: Types = [Dtype::F16, Dtype::F32];

/// Tensors of the layers of one block.
pub(super) struct Layers {
    at: usize,
    pub all: Vec<Tensor>,
}

impl Layers {
    /// Of block `at`; none yet.
    pub fn of(at: usize) -> Self {
        Self { at, all: Vec::new() }
    }

    /// Adds a layer whose bias has a value for each of the weight's rows.
    pub fn put(&mut self, layer: &str, shape: &[usize], types: Types) {
        let rows = shape.iter().take(1).copied().collect();
        self.put_with_bias(layer, shape.to_vec(), rows, types);
    }

    /// Adds a layer with a bias of this shape.
    pub fn put_with_bias(
        &mut self,
        layer: &str,
        weight: Vec<usize>,
        bias: Vec<usize>,
        [of_weight, of_bias]: Types,
    ) {
        let name = |part: &str| format!("blocks.{}.{layer}.{part}", self.at);
        let (of, with) = (name("weight"), name("bias"));
        self.all.push(Tensor { name: of, dtype: of_weight, shape: weight });
        self.all.push(Tensor { name: with, dtype: of_bias, shape: bias });
    }
}

impl TrunkWeights {
    /// Those of the memory attention's keys; none where the file has none.
    ///
    /// # Errors
    /// Some of them are missing.
    pub fn keys(&self) -> Result<Option<MemoryKeyProjWeights>> {
        self.has("keys.weight").then(|| MemoryKeyProjWeights::of(self)).transpose()
    }

    /// A layer of block `at`.
    pub(super) fn layer(&self, at: usize, name: &str) -> Result<LayerBytes<'_>> {
        let get = |part: &str| {
            let found = self.get(&format!("blocks.{at}.{name}.{part}"));
            found.with_context(|| format!("block {at} of the trunk"))
        };
        Ok(LayerBytes { weight: get("weight")?, bias: get("bias")? })
    }

    /// The same; none where the block lacks it.
    pub(super) fn layer_if_any(&self, at: usize, name: &str) -> Result<Option<LayerBytes<'_>>> {
        let has = self.has(&format!("blocks.{at}.{name}.weight"));
        has.then(|| self.layer(at, name)).transpose()
    }
}
