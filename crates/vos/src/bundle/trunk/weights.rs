/*!
The tensors of a trunk's blocks, and of the memory attention's keys, in the trunk's file.
*/

use anyhow::{Context, Result};
use safetensors::tensor::Dtype;

use super::{TrunkBlock, TrunkWeights};
use crate::bundle::memory_key_proj::MemoryKeyProjWeights;
use crate::bundle::tensors::Tensor;

/// A weight and the bias that belongs to it, as little-endian bytes, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerBytes<'a> {
    /// Of a product f16\[columns out, columns in\]; of a normalization f32\[columns\].
    pub weight: &'a [u8],
    /// \[columns out\], f16 or f32.
    pub bias: &'a [u8],
}

/// What one block computes with, d columns in and e out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockWeights<'a> {
    /// f32\[d\], bias f32.
    pub norm1: LayerBytes<'a>,
    /// f16\[e,d\], bias f16; only where d and e differ.
    pub skip: Option<LayerBytes<'a>>,
    /// f16\[3e,d\], bias f16; rows \[q|k|v\]\[head\]\[depth\], those of q times depth^-0.5.
    pub qkv: LayerBytes<'a>,
    /// f16\[e,e\], bias f32.
    pub proj: LayerBytes<'a>,
    /// f32\[e\], bias f32.
    pub norm2: LayerBytes<'a>,
    /// f16\[4e,e\], bias f16.
    pub up: LayerBytes<'a>,
    /// f16\[e,4e\], bias f32.
    pub down: LayerBytes<'a>,
}

/// All tensors of these blocks, each block's in the order of its work.
pub(super) fn tensors(blocks: &[TrunkBlock]) -> Vec<Tensor> {
    let mut all = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let (d, e) = (block.dim, block.dim_out);
        let (half, float) = (Dtype::F16, Dtype::F32);
        let mut put = |layer: &str, shape: &[usize], weight: Dtype, bias: Dtype| {
            let name = |part: &str| format!("blocks.{at}.{layer}.{part}");
            let rows = shape.iter().take(1).copied().collect();
            all.push(Tensor { name: name("weight"), dtype: weight, shape: shape.to_vec() });
            all.push(Tensor { name: name("bias"), dtype: bias, shape: rows });
        };
        put("norm1", &[d], float, float);
        if block.skips() {
            put("skip", &[e, d], half, half);
        }
        put("qkv", &[3 * e, d], half, half);
        put("proj", &[e, e], half, float);
        put("norm2", &[e], float, float);
        put("up", &[4 * e, e], half, half);
        put("down", &[e, 4 * e], half, float);
    }
    all
}

impl TrunkWeights {
    /// Those of the memory attention's keys; none where the file has none.
    ///
    /// # Errors
    /// Some of them are missing.
    pub fn keys(&self) -> Result<Option<MemoryKeyProjWeights>> {
        self.has("keys.weight").then(|| MemoryKeyProjWeights::of(self)).transpose()
    }

    /// Block `at`'s.
    ///
    /// # Errors
    /// There is no such block.
    pub fn block(&self, at: usize) -> Result<BlockWeights<'_>> {
        let affine = |layer: &str| -> Result<LayerBytes<'_>> {
            let get = |part: &str| self.get(&format!("blocks.{at}.{layer}.{part}"));
            Ok(LayerBytes { weight: get("weight")?, bias: get("bias")? })
        };
        let all = || -> Result<BlockWeights<'_>> {
            let skips = self.has(&format!("blocks.{at}.skip.weight"));
            Ok(BlockWeights {
                norm1: affine("norm1")?,
                skip: skips.then(|| affine("skip")).transpose()?,
                qkv: affine("qkv")?,
                proj: affine("proj")?,
                norm2: affine("norm2")?,
                up: affine("up")?,
                down: affine("down")?,
            })
        };
        all().with_context(|| format!("block {at} of the trunk"))
    }
}
