/*!
The weights of all blocks on the device, in one piece of memory.
*/

use std::cell::Cell;

use anyhow::{Context, Result};

pub(super) use crate::loaded::Affine;
use cuda::cublaslt::ALIGNMENT;
use cuda::{Gpu, MemoryTag, Stream, View};
use vos::bundle::trunk::{self, BlockWeights};

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

/// Brings all blocks' weights to the device.
///
/// # Errors
/// Too little memory, or another error of the driver.
pub(super) fn load(
    gpu: &Gpu,
    blocks: &[BlockWeights],
    stream: &Stream,
) -> Result<Vec<DeviceBlock>> {
    let pieces = blocks.iter().flat_map(tensors);
    let bytes = pieces.map(|bytes| bytes.len().next_multiple_of(ALIGNMENT)).sum();
    let memory = View::new(&gpu.tagged(MemoryTag::Weights), bytes)?;
    let at = Cell::new(0);
    let put = |bytes: &[u8]| -> Result<View> {
        let view = memory.part(at.get(), bytes.len())?;
        at.set(at.get() + bytes.len().next_multiple_of(ALIGNMENT));
        view.upload(bytes, stream)?;
        Ok(view)
    };
    let both = |layer: trunk::Affine| -> Result<Affine> {
        Ok(Affine { weight: put(layer.weight)?, bias: put(layer.bias)? })
    };
    let since = |start: usize| memory.part(start, at.get() - start);
    let load = |block: &BlockWeights| -> Result<DeviceBlock> {
        let norm1 = both(block.norm1)?;
        let start = at.get();
        let skip = block.skip.map(both).transpose()?;
        let (qkv, proj) = (both(block.qkv)?, both(block.proj)?);
        let around_attention = since(start)?;
        let norm2 = both(block.norm2)?;
        let start = at.get();
        let (up, down) = (both(block.up)?, both(block.down)?);
        let mlp = since(start)?;
        Ok(DeviceBlock { norm1, skip, qkv, proj, norm2, up, down, around_attention, mlp })
    };
    let each = blocks.iter().enumerate().map(|(at, block)| {
        load(block).with_context(|| format!("the weights of the trunk's block {at}"))
    });
    each.collect()
}

fn tensors<'a>(block: &BlockWeights<'a>) -> Vec<&'a [u8]> {
    let BlockWeights { norm1, skip, qkv, proj, norm2, up, down } = *block;
    let all = [Some(norm1), skip, Some(qkv), Some(proj), Some(norm2), Some(up), Some(down)];
    all.into_iter().flatten().flat_map(|layer| [layer.weight, layer.bias]).collect()
}
