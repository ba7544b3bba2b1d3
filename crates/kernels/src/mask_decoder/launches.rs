/*!
The launches of a mask decoder, kernel by kernel. Views are measured before: those of a frame where
it is enqueued, weights where they are loaded, and the scratch is made for the decoder's own shape.
*/

use anyhow::Result;

use super::scratch::{Scratch, TILE};
use super::weights::{Asking, Layer, Read};
use super::{Answer, MaskDecoder, Model};
use crate::device_weights::Affine;
use crate::images::Topic;
use crate::kernel::{Kernel, Modules, arguments};
use crate::{blocks, int};
use cuda::{Gpu, Stream, View};
use vos::bundle::mask_decoder::TOKENS;

/// Image tokens of a block of the kernel that upscales, as in `cuda/mask_decoder_upscale.cu`.
pub(super) const MASK_TILE: usize = 64;
/// Threads of the kernels over the image, and of those that compute with tokens.
pub(super) const IMAGE_THREADS: u32 = 128;
pub(super) const TOKEN_THREADS: u32 = 256;
/// Dynamic shared memory of the kernels over the image, bytes: two tiles of tokens as halves, and a
/// third where tokens are written.
pub(super) const READ_SHARED: u32 = 65_536;
pub(super) const WRITE_SHARED: u32 = 98_304;
/// Blocks of the products between tokens and the hidden layer.
pub(super) const HIDDEN_BLOCKS: u32 = 64;
pub(super) const NARROW_BLOCKS: u32 = 32;
/// Blocks along a row of the heads' inner layers, and of the answer.
pub(super) const HEADS_BLOCKS: u32 = 4;
pub(super) const ANSWER_BLOCKS: u32 = 4;
/// Pixels that a token becomes in the first upscaling, a block each.
pub(super) const PIXELS: u32 = 4;
/// Rows that the heads compute with: score, IoU, three masks' vectors and pointers.
pub(super) const HEAD_ROWS: u32 = 8;

#[derive(Debug)]
pub(super) struct Kernels {
    token_to_image_attn: Kernel,
    image_to_token_attn: Kernel,
    combine_splits: Kernel,
    token_mlp_up: Kernel,
    token_mlp_down: Kernel,
    fold_self_attn: Kernel,
    token_self_attn: Kernel,
    fold_token_to_image: Kernel,
    head_mlps: Kernel,
    head_outputs: Kernel,
    upscale_masks: Kernel,
}

/// Modules of the mask decoder's kernels.
pub(super) const MODULES: [Topic; 4] = [
    Topic::MaskDecoderImage,
    Topic::MaskDecoderTokens,
    Topic::MaskDecoderUpscale,
    Topic::MaskDecoderHeads,
];

impl Kernels {
    /// Loads all of them.
    ///
    /// # Errors
    /// The driver refuses the PTX.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        let modules = Modules::load(gpu, &MODULES, "the mask decoder")?;
        let of = |name: &str, threads: u32, shared: u32| modules.kernel(name, threads, shared);
        Ok(Self {
            token_to_image_attn: of(
                "mask_decoder_token_to_image_attn",
                IMAGE_THREADS,
                READ_SHARED,
            )?,
            image_to_token_attn: of(
                "mask_decoder_image_to_token_attn",
                IMAGE_THREADS,
                WRITE_SHARED,
            )?,
            combine_splits: of("mask_decoder_combine_splits", TOKEN_THREADS, 0)?,
            token_mlp_up: of("mask_decoder_token_mlp_up", TOKEN_THREADS, 0)?,
            token_mlp_down: of("mask_decoder_token_mlp_down", TOKEN_THREADS, 0)?,
            fold_self_attn: of("mask_decoder_fold_self_attn", TOKEN_THREADS, 0)?,
            token_self_attn: of("mask_decoder_token_self_attn", TOKEN_THREADS, 0)?,
            fold_token_to_image: of("mask_decoder_fold_token_to_image", TOKEN_THREADS, 0)?,
            head_mlps: of("mask_decoder_head_mlps", TOKEN_THREADS, 0)?,
            head_outputs: of("mask_decoder_head_outputs", TOKEN_THREADS, 0)?,
            upscale_masks: of("mask_decoder_upscale_masks", IMAGE_THREADS, 0)?,
        })
    }
}

impl MaskDecoder {
    /// Layer 0's reading, whose folded queries are constants.
    pub(super) fn token_to_image_attn(
        &self,
        image: &View,
        read: &Read,
        stream: &Stream,
    ) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Scratch { sums, parts, .. } = &self.scratch;
        let tokens = self.tokens();
        let args = arguments!(
            ["mask_decoder_token_to_image_attn"];
            View(image),
            View(&weights.positions),
            View(&weights.folded),
            View(&read.values),
            View(sums),
            View(parts),
            I32(int(tokens, "the number of tokens")?),
        );
        let grid = (blocks(tokens, TILE)?, 1, 1);
        // SAFETY: the arguments are mask_decoder_token_to_image_attn's own; the image was measured
        // in `enqueue`, the weights where they were loaded, and sums and parts have room for every
        // tile of the launch.
        unsafe { kernels.token_to_image_attn.launch(grid, &args, stream) }
    }

    /// The image reads what a layer's tokens became, and is read by `next`.
    pub(super) fn image_to_token_attn(
        &self,
        image: &View,
        layer: &Layer,
        next: &Read,
        stream: &Stream,
    ) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Scratch { sums, parts, folded, keys, key_bias, values, image: out, .. } = &self.scratch;
        let tokens = self.tokens();
        let args = arguments!(
            ["mask_decoder_image_to_token_attn"];
            View(image),
            View(&weights.positions),
            View(keys),
            View(key_bias),
            View(values),
            View(&layer.write.out.bias),
            View(&layer.write.norm.weight),
            View(&layer.write.norm.bias),
            View(out),
            View(folded),
            View(&next.values),
            View(sums),
            View(parts),
            I32(int(tokens, "the number of tokens")?),
        );
        let grid = (blocks(tokens, TILE)?, 1, 1);
        // SAFETY: as in `token_to_image_attn`; `image` is what `enqueue` measured or the scratch's own, which has
        // the same size.
        unsafe { kernels.image_to_token_attn.launch(grid, &args, stream) }
    }

    /// All tiles' sums to what the tokens are behind a reading.
    pub(super) fn combine_splits(
        &self,
        read: &Read,
        queries: &View,
        out: &View,
        stream: &Stream,
    ) -> Result<()> {
        let Scratch { sums, parts, .. } = &self.scratch;
        let tiles = self.tokens().div_ceil(TILE);
        let args = arguments!(
            ["mask_decoder_combine_splits"];
            View(sums),
            View(parts),
            View(&read.value_bias),
            View(&read.out.weight),
            View(&read.out.bias),
            View(queries),
            View(&read.norm.weight),
            View(&read.norm.bias),
            View(out),
            I32(int(tiles, "the number of tiles")?),
        );
        let grid = (TOKENS as u32, 1, 1);
        // SAFETY: the arguments are mask_decoder_combine_splits's own: as many tiles as the kernels
        // over the image wrote, weights that were measured where they were loaded, and tokens of
        // the scratch or the weights.
        unsafe { self.model.kernels.combine_splits.launch(grid, &args, stream) }
    }

    /// The hidden layer of the tokens' MLP, and back to the sum in front of the norm behind it.
    pub(super) fn token_mlp(&self, layer: &Layer, queries: &View, stream: &Stream) -> Result<()> {
        let Kernels { token_mlp_up, token_mlp_down, .. } = &self.model.kernels;
        let Scratch { hidden, sum, .. } = &self.scratch;
        let Affine { weight, bias } = &layer.up;
        let args =
            arguments!(["mask_decoder_token_mlp_up"]; Views[4]([queries, weight, bias, hidden]));
        let grid = (HIDDEN_BLOCKS, 1, 1);
        // SAFETY: the arguments are mask_decoder_token_mlp_up's own, weights that were measured
        // where they were loaded and scratch.
        unsafe { token_mlp_up.launch(grid, &args, stream) }?;
        let Affine { weight, bias } = &layer.down;
        let args = arguments!(["mask_decoder_token_mlp_down"]; Views[5]([hidden, weight, bias, queries, sum]));
        let grid = (NARROW_BLOCKS, 1, 1);
        // SAFETY: as above, mask_decoder_token_mlp_down's own.
        unsafe { token_mlp_down.launch(grid, &args, stream) }
    }

    /// What both kernels take that fold what the image reads.
    pub(super) fn folding<'a>(&'a self, layer: &'a Layer, queries: &'a View) -> [&'a View; 15] {
        let Scratch { sum, keys, key_bias, values, .. } = &self.scratch;
        let write = &layer.write;
        [
            sum,
            &layer.norm3.weight,
            &layer.norm3.bias,
            &self.model.weights.tokens,
            &write.key.weight,
            &write.key.bias,
            &write.value.weight,
            &write.value.bias,
            &write.query.weight,
            &write.query.bias,
            &write.out.weight,
            queries,
            keys,
            key_bias,
            values,
        ]
    }

    /// Behind layer 0: `queries` and what the image reads of them, and what layer 1's tokens attend
    /// to among each other.
    pub(super) fn fold_self_attn(&self, queries: &View, stream: &Stream) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Affine { weight, bias } = &weights.among.qkv;
        let args = arguments!(
            ["mask_decoder_fold_self_attn"];
            Views[15](self.folding(&weights.layers[0], queries)),
            Views[3]([weight, bias, &self.scratch.attended]),
        );
        let grid = (2 * TOKENS as u32, 1, 1);
        // SAFETY: the arguments are mask_decoder_fold_self_attn's own, weights that were measured
        // where they were loaded and scratch.
        unsafe { kernels.fold_self_attn.launch(grid, &args, stream) }
    }

    /// In layer 1, behind the tokens' attention to each other: `out` of `queries`, and what they
    /// ask the image with.
    pub(super) fn token_self_attn(
        &self,
        queries: &View,
        out: &View,
        stream: &Stream,
    ) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Scratch { attended, folded, .. } = &self.scratch;
        let (among, Asking { query, key }) = (&weights.among, &weights.asking);
        let views = [
            attended,
            &among.out.weight,
            &among.out.bias,
            queries,
            &among.norm.weight,
            &among.norm.bias,
            &weights.tokens,
            &query.weight,
            &query.bias,
            key,
            out,
            folded,
        ];
        let args = arguments!(["mask_decoder_token_self_attn"]; Views[12](views));
        let grid = (TOKENS as u32, 1, 1);
        // SAFETY: the arguments are mask_decoder_token_self_attn's own, weights that were measured
        // where they were loaded and scratch; `out` is other memory than `queries`, which all
        // blocks read.
        unsafe { kernels.token_self_attn.launch(grid, &args, stream) }
    }

    /// Behind layer 1: `queries` and what the image reads of them, and what the last reading asks.
    pub(super) fn fold_token_to_image(&self, queries: &View, stream: &Stream) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Asking { query, key } = &weights.last_asking;
        let args = arguments!(
            ["mask_decoder_fold_token_to_image"];
            Views[15](self.folding(&weights.layers[1], queries)),
            Views[4]([&query.weight, &query.bias, key, &self.scratch.folded]),
        );
        let grid = (2 * TOKENS as u32, 1, 1);
        // SAFETY: the arguments are mask_decoder_fold_token_to_image's own, weights that were
        // measured where they were loaded and scratch.
        unsafe { kernels.fold_token_to_image.launch(grid, &args, stream) }
    }

    /// What is read from the decoded tokens.
    pub(super) fn head_outputs(
        &self,
        decoded: &View,
        answer: &Answer,
        stream: &Stream,
    ) -> Result<()> {
        let Model { kernels, weights, shape } = &*self.model;
        let Scratch { rows: [a, b], vector, .. } = &self.scratch;
        let heads = &weights.heads;
        for (at, (from, to)) in [(decoded, a), (a, b)].into_iter().enumerate() {
            let Affine { weight, bias } = &heads.inner[at];
            let args = arguments!(
                ["mask_decoder_head_mlps"];
                    View(from),
                    View(weight),
                    View(bias),
                    View(to),
                    I32(i32::from(at == 0)),
            );
            let grid = (HEAD_ROWS, HEADS_BLOCKS, 1);
            // SAFETY: the arguments are mask_decoder_head_mlps' own, weights that were measured
            // where they were loaded and scratch.
            unsafe { kernels.head_mlps.launch(grid, &args, stream) }?;
        }
        let args = arguments!(
            ["mask_decoder_head_outputs"];
            View(b),
            View(&heads.score),
            View(&heads.iou),
            View(&heads.hyper),
            View(&heads.pointer),
            View(&heads.no_pointer),
            View(&answer.iou),
            View(&answer.ious),
            View(&answer.pointer),
            View(&answer.score),
            View(vector),
            I32(i32::from(shape.probable)),
        );
        let grid = (ANSWER_BLOCKS, 1, 1);
        // SAFETY: as above, mask_decoder_head_outputs's own; the answer was measured in `enqueue`.
        unsafe { kernels.head_outputs.launch(grid, &args, stream) }
    }

    /// The image upscaled, times the vector of the mask that was chosen.
    pub(super) fn upscale_masks(
        &self,
        [hr0, hr1]: [&View; 2],
        answer: &Answer,
        stream: &Stream,
    ) -> Result<()> {
        let Model { kernels, weights, shape } = &*self.model;
        let (masks, scratch) = (&weights.masks, &self.scratch);
        let args = arguments!(
            ["mask_decoder_upscale_masks"];
            View(&scratch.image),
            View(hr0),
            View(hr1),
            View(&masks.first.weight),
            View(&masks.first.bias),
            View(&masks.norm.weight),
            View(&masks.norm.bias),
            View(&masks.second.weight),
            View(&masks.second.bias),
            View(&scratch.vector),
            View(&answer.score),
            View(&answer.low),
            I32(int(shape.grid, "the side of the map")?),
        );
        let grid = (blocks(self.tokens(), MASK_TILE)?, PIXELS, 1);
        // SAFETY: the arguments are mask_decoder_upscale_masks' own; features and answer were
        // measured in `enqueue`, the weights where they were loaded, and the scratch is of the same
        // shape.
        unsafe { kernels.upscale_masks.launch(grid, &args, stream) }
    }
}
