/*!
The weights of all blocks on the device, in one piece of memory.
*/

use anyhow::{Context, Result};

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
}

/// Uploads all blocks' weights.
///
/// # Errors
/// Too little memory, or another error of the driver.
pub(super) fn load(
    gpu: &Gpu,
    blocks: &[HieraWeights],
    stream: &Stream,
) -> Result<Vec<DeviceBlock>> {
    let mut tensors = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        for (layer, LayerBytes { weight, bias }) in layers(block) {
            tensors.push((format!("{at}.{layer}.weight"), weight));
            tensors.push((format!("{at}.{layer}.bias"), bias));
        }
    }
    let weights = DeviceWeights::upload(gpu, &tensors, stream)
        .context("the weights of the trunk's blocks")?;
    let each = blocks.iter().enumerate().map(|(at, block)| {
        let layer = |name: &str| weights.layer(&format!("{at}.{name}"));
        let span = |first: &str, last: &str| {
            weights.span(&format!("{at}.{first}.weight"), &format!("{at}.{last}.bias"))
        };
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
