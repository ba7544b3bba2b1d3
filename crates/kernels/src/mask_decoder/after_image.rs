/*!
The launches that follow a pass over the image: its tiles are joined, and the tokens go through the
MLP or the heads' inner layers. There are two ways, which the self-test compares and times in turn.
*/

use anyhow::Result;

use super::MaskDecoder;
use super::launches::{HEADS_BLOCKS, Kernels};
use super::scratch::{Scratch, TILE};
use super::weights::{Layer, TokenToImageAttn};
use crate::constants::constant;
use crate::device_weights::Affine;
use crate::int;
use crate::kernel::{Chain, arguments};
use cuda::View;
use vos::bundle::mask_decoder::{ROWS, TOKENS};

/// Blocks of the tokens' MLP: up-projection and down-projection.
const MLP_UP_BLOCKS: u32 = constant!(MaskDecoderTokens, "MLP_UP_BLOCKS");
const MLP_DOWN_BLOCKS: u32 = constant!(MaskDecoderTokens, "MLP_DOWN_BLOCKS");
/// Rows of the heads: objectness, IoU, vectors and object pointers of three masks.
const HEAD_ROWS: u32 = constant!(MaskDecoderHeads, "NETWORKS");

/// How the tokens are computed between the passes over the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// A block for each head and token joins the tiles, and every block of the next kernel projects
    /// all tokens. Else a block for each token does both.
    pub joined: bool,
    pub ahead: Ahead,
}

/// Kernels that start before the kernel in front of them has waited, so that their weights have
/// come when it ends. The others start when it has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    None,
    /// Kernels that compute with tokens alone, behind another such kernel.
    Tokens,
    /// Those over the image too: their blocks then fill multiprocessors while they wait.
    All,
}

impl Way {
    /// What a decoder does; nobody has measured it.
    pub const USUAL: Self = Self { joined: true, ahead: Ahead::Tokens };

    /// The argument `ahead` of a kernel in front of one with tokens alone.
    pub fn ahead_of_tokens(self) -> i32 {
        i32::from(self.ahead != Ahead::None)
    }

    /// The argument `ahead` of a kernel in front of one over the image.
    pub fn ahead_of_image(self) -> i32 {
        i32::from(self.ahead == Ahead::All)
    }
}

/// What is added to what the tokens read from the image, and where the normalized sum goes.
#[derive(Clone, Copy)]
pub(super) struct Queries<'a> {
    pub attn: &'a TokenToImageAttn,
    pub from: &'a View,
    pub to: &'a View,
}

impl MaskDecoder {
    /// From the tiles of a pass over the image to `self.scratch.sum`: output projection, residual,
    /// layer norm, which gives `queries.to`; up-projection, down-projection, residual. The next
    /// layer norm follows in the next kernel.
    pub(super) fn token_mlp(
        &self,
        queries: Queries<'_>,
        layer: &Layer,
        chain: &Chain,
    ) -> Result<()> {
        let Kernels { token_proj_mlp_up, token_mlp_up, token_mlp_down, .. } = &self.model.kernels;
        let Scratch { read, hidden, sum, .. } = &self.scratch;
        let Queries { attn, from, to } = queries;
        let Affine { weight, bias } = &layer.up;
        let ahead = self.way.ahead_of_tokens();
        let grid = (MLP_UP_BLOCKS, 1, 1);
        if self.way.joined {
            self.join_splits(attn, chain)?;
            let (out, norm) = (&attn.out, &attn.norm);
            let args = arguments!(
                ["mask_decoder_token_proj_mlp_up"];
                Views[7]([read, &out.weight, &out.bias, from, &norm.weight, &norm.bias, to]),
                Views[3]([weight, bias, hidden]),
                I32(ahead),
            );
            // SAFETY: the arguments match mask_decoder_token_proj_mlp_up: scratch, and weights whose
            // sizes were checked when they were loaded; `to` does not overlap `from`, which all
            // blocks read.
            unsafe { token_proj_mlp_up.launch(grid, &args, chain) }?;
        } else {
            self.combine_splits(queries, chain)?;
            let args = arguments!(
                ["mask_decoder_token_mlp_up"];
                Views[4]([to, weight, bias, hidden]),
                I32(ahead),
            );
            // SAFETY: the arguments match mask_decoder_token_mlp_up: scratch, and weights whose
            // sizes were checked when they were loaded.
            unsafe { token_mlp_up.launch(grid, &args, chain) }?;
        }
        let Affine { weight, bias } = &layer.down;
        let args = arguments!(
            ["mask_decoder_token_mlp_down"];
            Views[5]([hidden, weight, bias, to, sum]),
            I32(ahead),
        );
        let grid = (MLP_DOWN_BLOCKS, 1, 1);
        // SAFETY: as above, for mask_decoder_token_mlp_down.
        unsafe { token_mlp_down.launch(grid, &args, chain) }
    }

    /// From the tiles of the last pass over the image to the rows of the heads' two inner layers, the
    /// second of `self.scratch.rows`. `queries.to` is written only if the tiles are not joined.
    pub(super) fn head_mlps(&self, queries: Queries<'_>, chain: &Chain) -> Result<()> {
        let Kernels { proj_head_mlps, head_mlps, .. } = &self.model.kernels;
        let Scratch { read, rows: [a, b], .. } = &self.scratch;
        let Queries { attn, from, to } = queries;
        let [first, second] = &self.model.weights.heads.inner;
        let ahead = self.way.ahead_of_tokens();
        let grid = (HEAD_ROWS, HEADS_BLOCKS, 1);
        let layer = |from: &View, Affine { weight, bias }: &Affine, to: &View, first: bool| {
            let args = arguments!(
                ["mask_decoder_head_mlps"];
                Views[4]([from, weight, bias, to]),
                I32(i32::from(first)),
                I32(ahead),
            );
            // SAFETY: the arguments match mask_decoder_head_mlps: scratch, and weights whose sizes
            // were checked when they were loaded.
            unsafe { head_mlps.launch(grid, &args, chain) }
        };
        if self.way.joined {
            self.join_splits(attn, chain)?;
            let (out, norm) = (&attn.out, &attn.norm);
            let args = arguments!(
                ["mask_decoder_proj_head_mlps"];
                Views[6]([read, &out.weight, &out.bias, from, &norm.weight, &norm.bias]),
                Views[3]([&first.weight, &first.bias, a]),
                I32(ahead),
            );
            // SAFETY: as above, for mask_decoder_proj_head_mlps.
            unsafe { proj_head_mlps.launch(grid, &args, chain) }?;
        } else {
            self.combine_splits(queries, chain)?;
            layer(to, first, a, true)?;
        }
        layer(a, second, b, false)
    }

    /// Joins the tiles' partial softmax sums to `self.scratch.read`.
    fn join_splits(&self, attn: &TokenToImageAttn, chain: &Chain) -> Result<()> {
        let Scratch { softmax_stats, partial_values, read, .. } = &self.scratch;
        let args = arguments!(
            ["mask_decoder_join_splits"];
            Views[4]([softmax_stats, partial_values, &attn.value_bias, read]),
            I32(self.tiles()?),
            I32(self.way.ahead_of_tokens()),
        );
        let grid = (ROWS as u32, 1, 1);
        // SAFETY: the arguments match mask_decoder_join_splits: as many tiles as the kernels over
        // the image wrote, a bias whose size was checked when it was loaded, and scratch.
        unsafe { self.model.kernels.join_splits.launch(grid, &args, chain) }
    }

    /// Merges the tiles' partial softmax sums, then applies output projection, residual and layer
    /// norm.
    fn combine_splits(&self, queries: Queries<'_>, chain: &Chain) -> Result<()> {
        let Scratch { softmax_stats, partial_values, .. } = &self.scratch;
        let Queries { attn, from, to } = queries;
        let args = arguments!(
            ["mask_decoder_combine_splits"];
            Views[3]([softmax_stats, partial_values, &attn.value_bias]),
            Views[3]([&attn.out.weight, &attn.out.bias, from]),
            Views[3]([&attn.norm.weight, &attn.norm.bias, to]),
            I32(self.tiles()?),
            I32(self.way.ahead_of_tokens()),
        );
        let grid = (TOKENS as u32, 1, 1);
        // SAFETY: the arguments match mask_decoder_combine_splits: as many tiles as the kernels over
        // the image wrote, weights whose sizes were checked when they were loaded, and tokens of the
        // scratch or the weights.
        unsafe { self.model.kernels.combine_splits.launch(grid, &args, chain) }
    }

    fn tiles(&self) -> Result<i32> {
        int(self.tokens().div_ceil(TILE), "the number of tiles")
    }
}
