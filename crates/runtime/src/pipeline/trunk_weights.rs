/*!
The weights of an encoder's trunk on the device, all of them in one piece of memory.
*/

use std::cell::Cell;

use anyhow::{Context, Result};

use cuda::cublaslt::ALIGNMENT;
use cuda::{Gpu, MemoryTag, Stream, View};
use vos::bundle::trunk::{Affine, BlockWeights};

/// What scales and what is added: of a norm, or of a product.
pub struct Loaded {
    pub weight: View,
    pub bias: View,
}

/// The weights of one block.
pub struct LoadedBlock {
    pub norm1: Loaded,
    pub skip: Option<Loaded>,
    pub qkv: Loaded,
    pub proj: Loaded,
    pub norm2: Loaded,
    pub up: Loaded,
    pub down: Loaded,
    /// All that is read from the first norm's end to the second's beginning: products around the attention.
    pub around_attention: View,
    /// All behind the second norm.
    pub behind_norm: View,
}

/// Brings all blocks' weights to the device.
///
/// # Errors
/// Too little memory, or what the driver says.
pub fn load(gpu: &Gpu, blocks: &[BlockWeights], stream: &Stream) -> Result<Vec<LoadedBlock>> {
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
    let both = |Affine { weight, bias }: Affine| -> Result<Loaded> {
        Ok(Loaded { weight: put(weight)?, bias: put(bias)? })
    };
    let since = |start: usize| memory.part(start, at.get() - start);
    let load = |block: &BlockWeights| -> Result<LoadedBlock> {
        let norm1 = both(block.norm1)?;
        let start = at.get();
        let skip = block.skip.map(both).transpose()?;
        let (qkv, proj) = (both(block.qkv)?, both(block.proj)?);
        let around_attention = since(start)?;
        let norm2 = both(block.norm2)?;
        let start = at.get();
        let (up, down) = (both(block.up)?, both(block.down)?);
        let behind_norm = since(start)?;
        Ok(LoadedBlock { norm1, skip, qkv, proj, norm2, up, down, around_attention, behind_norm })
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
