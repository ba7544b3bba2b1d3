/*!
The weights of an encoder's trunk on the device, all of them in one piece of memory.
*/

use anyhow::{Context, Result};

use crate::bundle::trunk::{Affine, BlockWeights, Trunk, TrunkWeights};
use crate::gpu::cublaslt::ALIGNMENT;
use crate::gpu::{Gpu, Purpose, Stream, View};

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
}

/// Brings all blocks' weights to the device.
///
/// # Errors
/// Too little memory, or what the driver says.
pub fn load(
    gpu: &Gpu,
    trunk: &Trunk,
    weights: &TrunkWeights,
    stream: &Stream,
) -> Result<Vec<LoadedBlock>> {
    let blocks: Vec<BlockWeights> =
        (0..trunk.blocks.len()).map(|at| weights.block(at)).collect::<Result<_>>()?;
    let pieces = blocks.iter().flat_map(tensors);
    let bytes = pieces.map(|bytes| bytes.len().next_multiple_of(ALIGNMENT)).sum();
    let memory = View::new(&gpu.towards(Purpose::Weights), bytes)?;
    let mut at = 0;
    let mut put = |bytes: &[u8]| -> Result<View> {
        let view = memory.part(at, bytes.len())?;
        at += bytes.len().next_multiple_of(ALIGNMENT);
        view.upload(bytes, stream)?;
        Ok(view)
    };
    let mut both = |Affine { weight, bias }: Affine| -> Result<Loaded> {
        Ok(Loaded { weight: put(weight)?, bias: put(bias)? })
    };
    let load = blocks.into_iter().enumerate().map(|(at, block)| {
        let mut loaded = || -> Result<LoadedBlock> {
            Ok(LoadedBlock {
                norm1: both(block.norm1)?,
                skip: block.skip.map(&mut both).transpose()?,
                qkv: both(block.qkv)?,
                proj: both(block.proj)?,
                norm2: both(block.norm2)?,
                up: both(block.up)?,
                down: both(block.down)?,
            })
        };
        loaded().with_context(|| format!("the weights of the trunk's block {at}"))
    });
    load.collect()
}

fn tensors<'a>(block: &BlockWeights<'a>) -> Vec<&'a [u8]> {
    let BlockWeights { norm1, skip, qkv, proj, norm2, up, down } = *block;
    let all = [Some(norm1), skip, Some(qkv), Some(proj), Some(norm2), Some(up), Some(down)];
    all.into_iter().flatten().flat_map(|layer| [layer.weight, layer.bias]).collect()
}
