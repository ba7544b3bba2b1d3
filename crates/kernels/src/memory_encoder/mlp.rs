/*!
Which kernel computes the MLPs of the ConvNeXt blocks: Hopper's, tiles of 128 tokens
(`cuda/memory_encoder_convnext_128.cu`) on GPUs of few multiprocessors, or else tiles of 32
(`launches.rs`).
*/

use anyhow::{Result, ensure};

use crate::constants::constant;
use crate::images::Topic;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::mlp::{Activation, HopperMlp, MlpOperands};
use crate::{blocks, int};
use cuda::Gpu;
use vos::bundle::memory_encoder::{DEPTH, HIDDEN, WIDTH};

use super::blocks::MIX_TILE;

/// Tokens of a block.
const TOKENS: usize = constant!(MemoryEncoderConvnext128, "TILE_128_TOKENS") as usize;
const SHARED: u32 = constant!(MemoryEncoderConvnext128, "TILE_128_SHARED");
const _: () = {
    // The smallest limit of a block's shared memory from sm 80 on.
    assert!(SHARED <= 99 * 1024);
    assert!(constant!(MemoryEncoderConvnext128, "WIDTH") as usize == WIDTH);
    assert!(constant!(MemoryEncoderConvnext128, "HIDDEN") as usize == HIDDEN);
    assert!(constant!(MemoryEncoderConvnext128, "MEMORY") as usize == DEPTH);
};

/// A kernel that computes an MLP in place of the kernels with tiles of 32 tokens.
#[derive(Debug)]
pub(super) enum Mlp {
    Hopper(HopperMlp),
    Tiles128(Tile128Mlp),
}

impl Mlp {
    /// The one for so many tokens; none where tiles of 32 are better, or the driver refuses it.
    pub fn load_if_useful(gpu: &Gpu, tokens: usize) -> Option<Self> {
        let hopper = HopperMlp::load_if_useful(gpu, tokens).map(Self::Hopper);
        hopper.or_else(|| {
            let processors = gpu.multiprocessors().ok()? as usize;
            if !tiles_of_128(gpu.facts().sm, processors, tokens) {
                return None;
            }
            match Tile128Mlp::load(gpu) {
                Ok(mlp) => Some(Self::Tiles128(mlp)),
                Err(error) => {
                    log::warn!("the MLP in tiles of 128 tokens cannot be used: {error:#}");
                    None
                }
            }
        })
    }

    /// Enqueues it as the next launch of a chain. No allocation; may be recorded.
    ///
    /// # Errors
    /// An MLP that the kernel does not take, or an error of the driver.
    pub fn enqueue(&self, operands: &MlpOperands<'_>, chain: &Chain<'_>) -> Result<()> {
        match self {
            Self::Hopper(mlp) => mlp.enqueue(operands, chain),
            Self::Tiles128(mlp) => mlp.enqueue(operands, chain),
        }
    }
}

/// Whether tiles of 128 tokens are done earlier than tiles of 32, by count.
///
/// Either kind has one block on a multiprocessor, which reads 1 MB of weights. The tensor cores need
/// 16 384 clocks for 32 tokens and 65 536 for 128, with 1024 multiply-adds a clock (sm 80, 87, 90).
/// The bytes cost the small tile more: 32 768 clocks at 32 bytes a clock. So a wave of large tiles
/// is as long as two of small ones. On an H200 it took as long as 3.1 (docs/results/kernels.md), so
/// three and a half are assumed.
/// With 256 multiply-adds a clock (sm 86, 89, 120) they are the limit of both, and it is four.
fn tiles_of_128(sm: u32, processors: usize, tokens: usize) -> bool {
    let waves = |tile: usize| tokens.div_ceil(tile).div_ceil(processors);
    // In halves of a small tile's wave.
    let large = if [86, 89, 120].contains(&sm) { 8 } else { 7 };
    large * waves(TOKENS) <= 2 * waves(MIX_TILE)
}

/// The loaded kernel with tiles of 128 tokens.
#[derive(Debug)]
pub(super) struct Tile128Mlp(Kernel);

impl Tile128Mlp {
    /// # Errors
    /// The driver refuses the PTX.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        let topics = [Topic::MemoryEncoderConvnext128];
        let modules = Modules::load(gpu, &topics, "the memory encoder's MLP")?;
        Ok(Self(modules.kernel("memory_encoder_convnext_mlp_128", SHARED)?))
    }

    fn enqueue(&self, operands: &MlpOperands<'_>, chain: &Chain<'_>) -> Result<()> {
        let MlpOperands {
            tokens,
            hidden,
            activation,
            x,
            up,
            down,
            residual,
            out,
            norms,
            ref memory,
        } = *operands;
        ensure!(
            norms.up_sums.is_none() && norms.of_result.is_none(),
            "the memory encoder's MLP computes no norm"
        );
        ensure!(
            hidden == HIDDEN && activation == Activation::Gelu,
            "an MLP of {hidden} hidden columns with {activation:?} is not the memory encoder's"
        );
        let memory = memory.as_ref();
        let args = arguments!(
            ["memory_encoder_convnext_mlp_128"];
            View(x),
            View(residual),
            View(&up.weight),
            View(&up.bias),
            View(&down.weight),
            View(&down.bias),
            View(out),
            Optional(memory.map(|memory| &memory.product.weight)),
            Optional(memory.map(|memory| &memory.product.bias)),
            Optional(memory.map(|memory| memory.score)),
            Optional(memory.map(|memory| memory.absent)),
            I32(int(tokens, "the number of tokens")?),
        );
        // SAFETY: the arguments are memory_encoder_convnext_mlp_128's own, weights that were
        // measured where they were loaded and scratch of the same shape; the score and the memory
        // were measured in `MemoryEncoder::enqueue`, unless the memory is the scratch's. A lane
        // reads no tokens of the residual but those that it writes, before it writes them.
        unsafe { self.0.launch((blocks(tokens, TOKENS)?, 1, 1), &args, chain) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_multiprocessors_have_large_tiles() {
        // Images of 1024 pixels on Orin (16 and 8 multiprocessors): 8 waves of 32 tokens or two of
        // 128, and 16 or four.
        assert!(tiles_of_128(87, 16, 4096) && tiles_of_128(87, 8, 4096));
        // Of 512 pixels: two or one, and four or one.
        assert!(!tiles_of_128(87, 16, 1024) && tiles_of_128(87, 8, 1024));
        // An RTX 3090, an A100 and an H200 have one or two waves of 32 tokens, none less of 128.
        for (sm, processors) in [(86, 82), (80, 108), (90, 132)] {
            assert!(!tiles_of_128(sm, processors, 4096) && !tiles_of_128(sm, processors, 1024));
        }
        // Where the tensor cores are the limit, as many tokens cost as much: 5 waves or two, 8 or
        // two.
        assert!(!tiles_of_128(86, 28, 4096) && tiles_of_128(86, 16, 4096));
        assert!(!tiles_of_128(87, 16, 32));
    }
}
