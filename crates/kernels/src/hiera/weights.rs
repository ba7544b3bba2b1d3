/*!
The weights of all blocks on the device, in one piece of memory.
*/

use anyhow::{Context, Result};

use super::folded_weights::FoldedBytes;
pub(super) use crate::device_weights::Affine;
use crate::device_weights::DeviceWeights;
use cuda::{Gpu, Stream, View};
use vos::bundle::trunk::{HieraWeights, LayerBytes};

/// The weights of one block.
pub(super) struct DeviceBlock {
    pub norm1: Affine,
    pub skip: Option<Affine>,
    pub qkv: Affine,
    pub proj: Affine,
    pub norm2: Affine,
    pub up: Affine,
    pub down: Affine,
    /// Weights of the GEMMs between the first norm and the second.
    pub around_attention: View,
    /// Weights of the GEMMs after the second norm.
    pub mlp: View,
    /// Those of the GEMM after each norm with the norm's own.
    pub folded: [Option<FoldedWeights>; 2],
}

/// A GEMM's weights with those of the LayerNorm before it, on the device.
pub(super) struct FoldedWeights {
    pub weight: View,
    pub column_sums: View,
    pub bias: View,
    /// They and the next GEMM's, for the L2 cache.
    pub prefetch: View,
}

/// The GEMM after each norm of a block, and the one behind that.
const BEHIND_NORMS: [[&str; 2]; 2] = [["qkv", "proj"], ["up", "down"]];

/// Uploads all blocks' weights; `folded_bytes`: of each block, those after a norm with the norm's.
///
/// # Errors
/// Too little memory, or another error of the driver.
pub(super) fn load(
    gpu: &Gpu,
    blocks: &[HieraWeights],
    folded_bytes: &[[Option<FoldedBytes>; 2]],
    stream: &Stream,
) -> Result<Vec<DeviceBlock>> {
    let mut tensors = Vec::new();
    let none = [None, None];
    for (at, block) in blocks.iter().enumerate() {
        let folded = folded_bytes.get(at).unwrap_or(&none);
        for (layer, LayerBytes { weight, bias }) in layers(block) {
            tensors.push((format!("{at}.{layer}.weight"), weight));
            tensors.push((format!("{at}.{layer}.bias"), bias));
            // Behind the GEMM that follows: prefetches are of one piece, with that one or without.
            let mut norms = BEHIND_NORMS.iter().zip(folded);
            let Some(([first, _], Some(folded))) = norms.find(|([_, last], _)| *last == layer)
            else {
                continue;
            };
            let FoldedBytes { weight, column_sums, bias } = folded;
            tensors.push((format!("{at}.folded.{first}.weight"), weight));
            tensors.push((format!("{at}.folded.{first}.sums"), column_sums));
            tensors.push((format!("{at}.folded.{first}.bias"), bias));
        }
    }
    let weights = DeviceWeights::upload(gpu, &tensors, stream)
        .context("the weights of the trunk's blocks")?;
    let each = blocks.iter().enumerate().map(|(at, block)| {
        let layer = |name: &str| weights.layer(&format!("{at}.{name}"));
        let span = |first: &str, last: &str| {
            weights.span(&format!("{at}.{first}.weight"), &format!("{at}.{last}.bias"))
        };
        let folded = |bytes: &Option<FoldedBytes>, [first, last]: [&str; 2]| {
            let name = |tensor: &str| format!("{at}.folded.{first}.{tensor}");
            let find = |_| -> Result<FoldedWeights> {
                Ok(FoldedWeights {
                    weight: weights.one(&name("weight"))?,
                    column_sums: weights.one(&name("sums"))?,
                    bias: weights.one(&name("bias"))?,
                    prefetch: weights.span(&format!("{at}.{last}.weight"), &name("bias"))?,
                })
            };
            bytes.as_ref().map(find).transpose()
        };
        let [first_norm, second_norm] = folded_bytes.get(at).unwrap_or(&none);
        let [after_first, after_second] = BEHIND_NORMS;
        let first = if block.skip.is_some() { "skip" } else { "qkv" };
        Ok(DeviceBlock {
            norm1: layer("norm1")?,
            skip: block.skip.map(|_| layer("skip")).transpose()?,
            qkv: layer("qkv")?,
            proj: layer("proj")?,
            norm2: layer("norm2")?,
            up: layer("up")?,
            down: layer("down")?,
            around_attention: span(first, "proj")?,
            mlp: span("up", "down")?,
            folded: [folded(first_norm, after_first)?, folded(second_norm, after_second)?],
        })
    });
    each.collect()
}

/// A block's layers in the order of their use, which is their order in memory.
fn layers<'a>(block: &HieraWeights<'a>) -> Vec<(&'static str, LayerBytes<'a>)> {
    let HieraWeights { norm1, skip, qkv, proj, norm2, up, down } = *block;
    let all = [
        ("norm1", Some(norm1)),
        ("skip", skip),
        ("qkv", Some(qkv)),
        ("proj", Some(proj)),
        ("norm2", Some(norm2)),
        ("up", Some(up)),
        ("down", Some(down)),
    ];
    all.into_iter().filter_map(|(name, layer)| Some((name, layer?))).collect()
}
