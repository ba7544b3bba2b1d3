/*!
The launches of a mask decoder, kernel by kernel. Buffer sizes are checked earlier: per-frame
buffers in `enqueue`, weights when they are loaded. The scratch has the decoder's shape.

Folded query: the query times the key projection, so that the kernel reads the image without
projecting keys.
*/

use anyhow::Result;

use super::scratch::{Scratch, TILE};
use super::weights::{Layer, QueryKeyProj, TokenToImageAttn};
use super::{MaskDecoder, MaskDecoderOutputs, Model};
use crate::constants::constant;
use crate::device_weights::Affine;
use crate::images::Topic;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::{blocks, int};
use cuda::{Gpu, View};
use vos::bundle::mask_decoder::{CROSS, HEADS, HIDDEN, MASKS, NARROW, ROWS, TOKENS, WIDTH};

/// Image tokens of a block of `mask_decoder_upscale_masks`.
const MASK_TILE: usize = constant!(MaskDecoderUpscale, "TILE") as usize;
/// Dynamic shared memory of the kernels over the image, bytes.
const READ_SHARED: u32 = constant!(MaskDecoderImage, "READ_SHARED");
const WRITE_SHARED: u32 = constant!(MaskDecoderImage, "WRITE_SHARED");
// The smallest limit of a block's shared memory from sm 80 on: 99 KiB.
const _: () = assert!(WRITE_SHARED <= 99 * 1024);
/// Blocks of the tokens' MLP: up-projection and down-projection.
const MLP_UP_BLOCKS: u32 = constant!(MaskDecoderTokens, "MLP_UP_BLOCKS");
const MLP_DOWN_BLOCKS: u32 = constant!(MaskDecoderTokens, "MLP_DOWN_BLOCKS");
/// Blocks along a row of the heads' inner layers, and of the output heads.
const HEADS_BLOCKS: u32 =
    constant!(MaskDecoderHeads, "WIDTH") / constant!(MaskDecoderHeads, "PART");
/// Pixels of one image token after the first upscaling, a block each.
const PIXELS: u32 = 4;
/// Rows of the heads: objectness, IoU, vectors and object pointers of three masks.
const HEAD_ROWS: u32 = constant!(MaskDecoderHeads, "NETWORKS");

// The sources have the sizes of the network.
const _: () = {
    assert!(constant!(MaskDecoderImage, "IMAGE_WIDTH") as usize == WIDTH);
    assert!(constant!(MaskDecoderImage, "TOKENS") as usize == TOKENS);
    assert!(constant!(MaskDecoderImage, "HEAD") as usize == CROSS / HEADS);
    assert!(constant!(MaskDecoderTokens, "TOKENS") as usize == TOKENS);
    assert!(constant!(MaskDecoderTokens, "WIDTH") as usize == WIDTH);
    assert!(constant!(MaskDecoderTokens, "HIDDEN") as usize == HIDDEN);
    assert!(constant!(MaskDecoderTokens, "HEADS") as usize == HEADS);
    assert!(constant!(MaskDecoderTokens, "INNER") as usize == CROSS);
    assert!(constant!(MaskDecoderTokens, "ROWS") as usize == ROWS);
    assert!(constant!(MaskDecoderHeads, "WIDTH") as usize == WIDTH);
    assert!(constant!(MaskDecoderHeads, "MASKS") as usize == MASKS - 1);
    assert!(constant!(MaskDecoderHeads, "VECTOR") as usize == NARROW);
};

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
        let of = |name: &str, shared: u32| modules.kernel(name, shared);
        Ok(Self {
            token_to_image_attn: of("mask_decoder_token_to_image_attn", READ_SHARED)?,
            image_to_token_attn: of("mask_decoder_image_to_token_attn", WRITE_SHARED)?,
            combine_splits: of("mask_decoder_combine_splits", 0)?,
            token_mlp_up: of("mask_decoder_token_mlp_up", 0)?,
            token_mlp_down: of("mask_decoder_token_mlp_down", 0)?,
            fold_self_attn: of("mask_decoder_fold_self_attn", 0)?,
            token_self_attn: of("mask_decoder_token_self_attn", 0)?,
            fold_token_to_image: of("mask_decoder_fold_token_to_image", 0)?,
            head_mlps: of("mask_decoder_head_mlps", 0)?,
            head_outputs: of("mask_decoder_head_outputs", 0)?,
            upscale_masks: of("mask_decoder_upscale_masks", 0)?,
        })
    }
}

impl MaskDecoder {
    /// Token-to-image attention of layer 0, split over image tiles. Its queries do not depend on the
    /// frame.
    pub(super) fn token_to_image_attn(
        &self,
        image: &View,
        attn: &TokenToImageAttn,
        chain: &Chain,
    ) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Scratch { softmax_stats, partial_values, .. } = &self.scratch;
        let tokens = self.tokens();
        let args = arguments!(
            ["mask_decoder_token_to_image_attn"];
            View(image),
            View(&weights.positions),
            View(&weights.folded),
            View(&attn.values),
            View(softmax_stats),
            View(partial_values),
            I32(int(tokens, "the number of tokens")?),
        );
        let grid = (blocks(tokens, TILE)?, 1, 1);
        // SAFETY: the arguments match mask_decoder_token_to_image_attn. Sizes are checked: the image
        // in `enqueue`, the weights when they are loaded; `softmax_stats` and `partial_values` have
        // room for every tile of the launch.
        unsafe { kernels.token_to_image_attn.launch(grid, &args, chain) }
    }

    /// Image-to-token attention of `layer`, fused with the partial token-to-image attention of
    /// `next`.
    pub(super) fn image_to_token_attn(
        &self,
        image: &View,
        layer: &Layer,
        next: &TokenToImageAttn,
        chain: &Chain,
    ) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Scratch {
            softmax_stats,
            partial_values,
            folded,
            keys,
            key_bias,
            values,
            image: out,
            ..
        } = &self.scratch;
        let tokens = self.tokens();
        let args = arguments!(
            ["mask_decoder_image_to_token_attn"];
            View(image),
            View(&weights.positions),
            View(keys),
            View(key_bias),
            View(values),
            View(&layer.image_to_token.out.bias),
            View(&layer.image_to_token.norm.weight),
            View(&layer.image_to_token.norm.bias),
            View(out),
            View(folded),
            View(&next.values),
            View(softmax_stats),
            View(partial_values),
            I32(int(tokens, "the number of tokens")?),
        );
        let grid = (blocks(tokens, TILE)?, 1, 1);
        // SAFETY: as in `token_to_image_attn`; `image` is checked in `enqueue`, or is the scratch's
        // image, which has the same size.
        unsafe { kernels.image_to_token_attn.launch(grid, &args, chain) }
    }

    /// Merges the tiles' partial softmax sums, then applies output projection, residual and layer
    /// norm.
    pub(super) fn combine_splits(
        &self,
        attn: &TokenToImageAttn,
        queries: &View,
        out: &View,
        chain: &Chain,
    ) -> Result<()> {
        let Scratch { softmax_stats, partial_values, .. } = &self.scratch;
        let tiles = self.tokens().div_ceil(TILE);
        let args = arguments!(
            ["mask_decoder_combine_splits"];
            View(softmax_stats),
            View(partial_values),
            View(&attn.value_bias),
            View(&attn.out.weight),
            View(&attn.out.bias),
            View(queries),
            View(&attn.norm.weight),
            View(&attn.norm.bias),
            View(out),
            I32(int(tiles, "the number of tiles")?),
        );
        let grid = (TOKENS as u32, 1, 1);
        // SAFETY: the arguments match mask_decoder_combine_splits: as many tiles as the kernels over
        // the image wrote, weights whose sizes were checked when they were loaded, and tokens of the
        // scratch or the weights.
        unsafe { self.model.kernels.combine_splits.launch(grid, &args, chain) }
    }

    /// The tokens' MLP: up-projection, down-projection, residual add. The layer norm follows in the
    /// next kernel.
    pub(super) fn token_mlp(&self, layer: &Layer, queries: &View, chain: &Chain) -> Result<()> {
        let Kernels { token_mlp_up, token_mlp_down, .. } = &self.model.kernels;
        let Scratch { hidden, sum, .. } = &self.scratch;
        let Affine { weight, bias } = &layer.up;
        let args =
            arguments!(["mask_decoder_token_mlp_up"]; Views[4]([queries, weight, bias, hidden]));
        let grid = (MLP_UP_BLOCKS, 1, 1);
        // SAFETY: the arguments match mask_decoder_token_mlp_up: scratch, and weights whose sizes
        // were checked when they were loaded.
        unsafe { token_mlp_up.launch(grid, &args, chain) }?;
        let Affine { weight, bias } = &layer.down;
        let args = arguments!(
            ["mask_decoder_token_mlp_down"];
            Views[5]([hidden, weight, bias, queries, sum]),
        );
        let grid = (MLP_DOWN_BLOCKS, 1, 1);
        // SAFETY: as above, for mask_decoder_token_mlp_down.
        unsafe { token_mlp_down.launch(grid, &args, chain) }
    }

    /// Arguments shared by the two kernels that fold the tokens' keys and values into the
    /// image-to-token attention.
    pub(super) fn folding<'a>(&'a self, layer: &'a Layer, queries: &'a View) -> [&'a View; 15] {
        let Scratch { sum, keys, key_bias, values, .. } = &self.scratch;
        let attn = &layer.image_to_token;
        [
            sum,
            &layer.norm3.weight,
            &layer.norm3.bias,
            &self.model.weights.tokens,
            &attn.key.weight,
            &attn.key.bias,
            &attn.value.weight,
            &attn.value.bias,
            &attn.query.weight,
            &attn.query.bias,
            &attn.out.weight,
            queries,
            keys,
            key_bias,
            values,
        ]
    }

    /// After layer 0: layer norm, keys and values for the image, and self-attention of layer 1.
    pub(super) fn fold_self_attn(&self, queries: &View, chain: &Chain) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Affine { weight, bias } = &weights.self_attn.qkv;
        let args = arguments!(
            ["mask_decoder_fold_self_attn"];
            Views[15](self.folding(&weights.layers[0], queries)),
            Views[3]([weight, bias, &self.scratch.attended]),
        );
        let grid = (2 * TOKENS as u32, 1, 1);
        // SAFETY: the arguments match mask_decoder_fold_self_attn: scratch, and weights whose sizes
        // were checked when they were loaded.
        unsafe { kernels.fold_self_attn.launch(grid, &args, chain) }
    }

    /// Output projection, residual and norm of layer 1's self-attention; then the folded queries of
    /// its token-to-image attention.
    pub(super) fn token_self_attn(&self, queries: &View, out: &View, chain: &Chain) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Scratch { attended, folded, .. } = &self.scratch;
        let (self_attn, QueryKeyProj { query, key }) = (&weights.self_attn, &weights.query_key);
        let views = [
            attended,
            &self_attn.out.weight,
            &self_attn.out.bias,
            queries,
            &self_attn.norm.weight,
            &self_attn.norm.bias,
            &weights.tokens,
            &query.weight,
            &query.bias,
            key,
            out,
            folded,
        ];
        let args = arguments!(["mask_decoder_token_self_attn"]; Views[12](views));
        let grid = (TOKENS as u32, 1, 1);
        // SAFETY: the arguments match mask_decoder_token_self_attn: scratch, and weights whose sizes
        // were checked when they were loaded; `out` does not overlap `queries`, which all blocks
        // read.
        unsafe { kernels.token_self_attn.launch(grid, &args, chain) }
    }

    /// After layer 1: layer norm, keys and values for the image, and the folded queries of the last
    /// token-to-image attention.
    pub(super) fn fold_token_to_image(&self, queries: &View, chain: &Chain) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let QueryKeyProj { query, key } = &weights.last_query_key;
        let args = arguments!(
            ["mask_decoder_fold_token_to_image"];
            Views[15](self.folding(&weights.layers[1], queries)),
            Views[4]([&query.weight, &query.bias, key, &self.scratch.folded]),
        );
        let grid = (2 * TOKENS as u32, 1, 1);
        // SAFETY: the arguments match mask_decoder_fold_token_to_image: scratch, and weights whose
        // sizes were checked when they were loaded.
        unsafe { kernels.fold_token_to_image.launch(grid, &args, chain) }
    }

    /// Output heads: objectness, predicted IoUs, hypernetwork vector, object pointer.
    pub(super) fn head_outputs(
        &self,
        decoded: &View,
        outputs: &MaskDecoderOutputs,
        chain: &Chain,
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
            // SAFETY: the arguments match mask_decoder_head_mlps: scratch, and weights whose sizes
            // were checked when they were loaded.
            unsafe { kernels.head_mlps.launch(grid, &args, chain) }?;
        }
        let args = arguments!(
            ["mask_decoder_head_outputs"];
            View(b),
            View(&heads.score),
            View(&heads.iou),
            View(&heads.hyper),
            View(&heads.pointer),
            View(&heads.no_pointer),
            View(&outputs.iou),
            View(&outputs.ious),
            View(&outputs.pointer),
            View(&outputs.score),
            View(vector),
            I32(i32::from(shape.iou_sigmoid)),
        );
        let grid = (HEADS_BLOCKS, 1, 1);
        // SAFETY: as above, for mask_decoder_head_outputs; `enqueue` checked the outputs.
        unsafe { kernels.head_outputs.launch(grid, &args, chain) }
    }

    /// Mask logits: the upscaled image times the hypernetwork vector of the selected mask.
    pub(super) fn upscale_masks(
        &self,
        [hr0, hr1]: [&View; 2],
        outputs: &MaskDecoderOutputs,
        chain: &Chain,
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
            View(&outputs.score),
            View(&outputs.low),
            I32(int(shape.grid, "the side of the map")?),
        );
        let grid = (blocks(self.tokens(), MASK_TILE)?, PIXELS, 1);
        // SAFETY: the arguments match mask_decoder_upscale_masks. Sizes are checked: features and
        // outputs in `enqueue`, the weights when they are loaded; the scratch has the same shape.
        unsafe { kernels.upscale_masks.launch(grid, &args, chain) }
    }
}
