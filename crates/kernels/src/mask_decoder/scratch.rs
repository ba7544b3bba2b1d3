/*!
The memory that a mask decoder works in: what lies between its launches.
*/

use anyhow::Result;

use super::{FLOAT, HALF};
use crate::constants::constant;
use cuda::{Gpu, MemoryTag, View};
use vos::bundle::MaskDecoderShape;
use vos::bundle::mask_decoder::{CROSS, HIDDEN, NARROW, ROWS, TOKENS, WIDTH};

/// Image tokens of a block of the kernels over the image: a row of `softmax_stats` and of
/// `partial_values`.
pub(super) const TILE: usize = constant!(MaskDecoderImage, "IMAGE_TILE") as usize;

/// Parts of the hidden columns, which different blocks of the MLP's down-projection sum.
const MLP_DOWN_PARTS: usize = constant!(MaskDecoderTokens, "MLP_DOWN_PARTS") as usize;

#[derive(Debug)]
pub(super) struct Scratch {
    /// Softmax statistics of each tile and row, maximum and sum, f32 `[tiles, 64, 2]`.
    pub softmax_stats: View,
    /// Values weighted by a tile's softmax, f32 `[tiles, 8, 128]`.
    pub partial_values: View,
    /// The tiles joined, heads side by side, f32 `[8, 128]`.
    pub read: View,
    /// Token queries, two buffers used alternately, f32 `[8, 256]`.
    pub queries: [View; 2],
    /// Numbers as two halves each, f16 `[2, 8, 2048]`.
    pub hidden: View,
    /// Input of a layer norm, as sums of two parts, f32 `[2, 8, 256]`.
    pub sum: View,
    /// Heads side by side, f32 `[8, 256]`.
    pub attended: View,
    /// Folded queries of the token-to-image attention, f16 `[64, 256]`.
    pub folded: View,
    /// Folded keys of the image-to-token attention, f16 `[64, 256]`, their bias, f32 `[64]`, and its
    /// folded values, f16 `[256, 64]`.
    pub keys: View,
    pub key_bias: View,
    pub values: View,
    /// The image after its image-to-token attention, f16 `[tokens, 256]`.
    pub image: View,
    /// Rows of the heads, f32 `[8, 256]`.
    pub rows: [View; 2],
    /// Hypernetwork vector of the selected mask, f32 `[32]`.
    pub vector: View,
}

impl Scratch {
    /// For one stream.
    ///
    /// # Errors
    /// Too little memory.
    pub fn new(gpu: &Gpu, shape: MaskDecoderShape) -> Result<Self> {
        let memory = gpu.tagged(MemoryTag::Scratch);
        let floats = |elements: usize| View::new(&memory, FLOAT * elements);
        let halves = |elements: usize| View::new(&memory, HALF * elements);
        let tiles = shape.tokens().div_ceil(TILE);
        let rows = || floats(TOKENS * WIDTH);
        Ok(Self {
            softmax_stats: floats(tiles * ROWS * 2)?,
            partial_values: floats(tiles * TOKENS * CROSS)?,
            read: floats(TOKENS * CROSS)?,
            queries: [rows()?, rows()?],
            hidden: halves(2 * TOKENS * HIDDEN)?,
            sum: floats(MLP_DOWN_PARTS * TOKENS * WIDTH)?,
            attended: rows()?,
            folded: halves(ROWS * WIDTH)?,
            keys: halves(ROWS * WIDTH)?,
            key_bias: floats(ROWS)?,
            values: halves(WIDTH * ROWS)?,
            image: halves(shape.tokens() * WIDTH)?,
            rows: [rows()?, rows()?],
            vector: floats(NARROW)?,
        })
    }
}
