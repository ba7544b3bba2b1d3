/*!
The memory that a memory encoder works in: what lies between its launches.
*/

use anyhow::Result;

use super::{FLOAT, HALF};
use crate::constants::constant;
use cuda::{Gpu, MemoryTag, View};
use vos::bundle::MemoryEncoderShape;
use vos::bundle::memory_encoder::{DEPTH, LATENTS, STEPS, WIDTH};

/// Tokens of a split of `perceiver_1d_cross_attn`: a line of `sums` and of `parts`.
pub(super) const SPLIT: usize = constant!(Perceiver1d, "SPLIT") as usize;

#[derive(Debug)]
pub(super) struct Scratch {
    /// The mask behind its second and third convolution, f16 `[4 grid, 4 grid, 16]` and `[2 grid, 2
    /// grid, 64]`.
    pub narrow: View,
    pub wide: View,
    /// Tokens, and what their neighbours say, f16 `[tokens, 256]`.
    pub x: View,
    pub y: View,
    pub latents: Option<LatentScratch>,
}

#[derive(Debug)]
pub(super) struct LatentScratch {
    /// What the latents read, f16 `[tokens, 64]`.
    pub memory: View,
    /// Of each split and latent the largest score and the sum of what it leads, f32 `[splits, 256,
    /// 2]`; values by them, f32 `[splits, 256, 64]`.
    pub sums: View,
    pub parts: View,
    /// Latents behind the first MLP of a layer and behind the second, f32 `[256, 64]`.
    pub mixed: View,
    pub latents: View,
    /// What they ask each other, f16 `[256, 192]`, and all tokens in the second layer, f16 `[256,
    /// 64]`.
    pub qkv: View,
    pub queries: View,
}

impl Scratch {
    /// For one stream.
    ///
    /// # Errors
    /// Too little memory.
    pub fn new(gpu: &Gpu, shape: MemoryEncoderShape) -> Result<Self> {
        let memory = gpu.tagged(MemoryTag::Scratch);
        let halves = |elements: usize| View::new(&memory, HALF * elements);
        let floats = |elements: usize| View::new(&memory, FLOAT * elements);
        let tokens = shape.tokens();
        let [_, narrow, wide, _] = STEPS;
        let latents = || -> Result<LatentScratch> {
            let splits = tokens.div_ceil(SPLIT);
            Ok(LatentScratch {
                memory: halves(tokens * DEPTH)?,
                sums: floats(splits * LATENTS * 2)?,
                parts: floats(splits * LATENTS * DEPTH)?,
                mixed: floats(LATENTS * DEPTH)?,
                latents: floats(LATENTS * DEPTH)?,
                qkv: halves(LATENTS * 3 * DEPTH)?,
                queries: halves(LATENTS * DEPTH)?,
            })
        };
        Ok(Self {
            narrow: halves(16 * tokens * narrow)?,
            wide: halves(4 * tokens * wide)?,
            x: halves(tokens * WIDTH)?,
            y: halves(tokens * WIDTH)?,
            latents: shape.latents.then(latents).transpose()?,
        })
    }
}
