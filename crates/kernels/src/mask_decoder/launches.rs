/*!
The launches of a mask decoder, kernel by kernel. Views are measured before: those of a frame where it is enqueued, weights where they are
loaded, and the scratch is made for the decoder's own shape.
*/

use anyhow::{Context, Result};

use super::super::images::{self, Topic};
use super::super::loaded::Affine;
use super::super::{blocks, int};
use super::scratch::{Scratch, TILE};
use super::weights::{Asking, Layer, Read};
use super::{Answer, MaskDecoder, Model};
use cuda::module::{Arg, Function, Launch};
use cuda::{Gpu, Stream, View};
use vos::bundle::mask_decoder::TOKENS;

/// Image tokens of a block of the kernel that upscales, as in `cuda/decoder_masks.cu`.
pub(super) const MASK_TILE: usize = 64;
/// Threads of the kernels over the image, and of those that compute with tokens.
pub(super) const IMAGE_THREADS: u32 = 128;
pub(super) const TOKEN_THREADS: u32 = 256;
/// Dynamic shared memory of the kernels over the image, bytes: two tiles of tokens as halves, and a third where tokens are written.
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
    read: Function,
    write: Function,
    gather: Function,
    hidden: Function,
    narrow: Function,
    fold_attend: Function,
    turn: Function,
    fold_read: Function,
    heads: Function,
    answer: Function,
    masks: Function,
}

impl Kernels {
    /// Loads all of them.
    ///
    /// # Errors
    /// The driver refuses the PTX.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        let topics =
            [Topic::DecoderImage, Topic::DecoderTokens, Topic::DecoderHeads, Topic::DecoderMasks];
        let (modules, form) = images::load(gpu, &topics)?;
        log::debug!("the mask decoder's kernels from {form}");
        let of = |topic: Topic, name: &str| -> Result<Function> {
            let found = modules.iter().find(|(about, _)| *about == topic);
            let (_, module) = found.with_context(|| format!("no kernels about {topic:?}"))?;
            Ok(module.function(name)?)
        };
        let tokens = |name: &str| of(Topic::DecoderTokens, name);
        Ok(Self {
            read: of(Topic::DecoderImage, "decoder_read")?.with_shared(READ_SHARED)?,
            write: of(Topic::DecoderImage, "decoder_write")?.with_shared(WRITE_SHARED)?,
            gather: tokens("decoder_gather")?,
            hidden: tokens("decoder_hidden")?,
            narrow: tokens("decoder_narrow")?,
            fold_attend: tokens("decoder_fold_attend")?,
            turn: tokens("decoder_turn")?,
            fold_read: tokens("decoder_fold_read")?,
            heads: of(Topic::DecoderHeads, "decoder_heads")?,
            answer: of(Topic::DecoderHeads, "decoder_answer")?,
            masks: of(Topic::DecoderMasks, "decoder_masks")?,
        })
    }
}

impl MaskDecoder {
    /// Layer 0's reading, whose folded queries are constants.
    pub(super) fn read(&self, image: &View, read: &Read, stream: &Stream) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Scratch { sums, parts, .. } = &self.scratch;
        let tokens = self.tokens();
        let args = [
            Arg::View(image),
            Arg::View(&weights.positions),
            Arg::View(&weights.folded),
            Arg::View(&read.values),
            Arg::View(sums),
            Arg::View(parts),
            Arg::I32(int(tokens, "the number of tokens")?),
        ];
        let launch = Launch { grid: (blocks(tokens, TILE)?, 1, 1), threads: IMAGE_THREADS };
        // SAFETY: the arguments are decoder_read's own; the image was measured in `enqueue`, the weights where they were loaded, and sums
        // and parts have room for every tile of the launch.
        Ok(unsafe { kernels.read.launch(launch, &args, stream) }?)
    }

    /// The image reads what a layer's tokens became, and is read by `next`.
    pub(super) fn write(
        &self,
        image: &View,
        layer: &Layer,
        next: &Read,
        stream: &Stream,
    ) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Scratch { sums, parts, folded, keys, key_bias, values, image: out, .. } = &self.scratch;
        let tokens = self.tokens();
        let args = [
            Arg::View(image),
            Arg::View(&weights.positions),
            Arg::View(keys),
            Arg::View(key_bias),
            Arg::View(values),
            Arg::View(&layer.write.out.bias),
            Arg::View(&layer.write.norm.weight),
            Arg::View(&layer.write.norm.bias),
            Arg::View(out),
            Arg::View(folded),
            Arg::View(&next.values),
            Arg::View(sums),
            Arg::View(parts),
            Arg::I32(int(tokens, "the number of tokens")?),
        ];
        let launch = Launch { grid: (blocks(tokens, TILE)?, 1, 1), threads: IMAGE_THREADS };
        // SAFETY: as in `read`; `image` is what `enqueue` measured or the scratch's own, which has the same size.
        Ok(unsafe { kernels.write.launch(launch, &args, stream) }?)
    }

    /// All tiles' sums to what the tokens are behind a reading.
    pub(super) fn gather(
        &self,
        read: &Read,
        queries: &View,
        out: &View,
        stream: &Stream,
    ) -> Result<()> {
        let Scratch { sums, parts, .. } = &self.scratch;
        let tiles = self.tokens().div_ceil(TILE);
        let args = [
            Arg::View(sums),
            Arg::View(parts),
            Arg::View(&read.value_bias),
            Arg::View(&read.out.weight),
            Arg::View(&read.out.bias),
            Arg::View(queries),
            Arg::View(&read.norm.weight),
            Arg::View(&read.norm.bias),
            Arg::View(out),
            Arg::I32(int(tiles, "the number of tiles")?),
        ];
        let launch = Launch { grid: (TOKENS as u32, 1, 1), threads: TOKEN_THREADS };
        // SAFETY: the arguments are decoder_gather's own: as many tiles as the kernels over the image wrote, weights that were measured
        // where they were loaded, and tokens of the scratch or the weights.
        Ok(unsafe { self.model.kernels.gather.launch(launch, &args, stream) }?)
    }

    /// The hidden layer of the tokens' MLP, and back to the sum in front of the norm behind it.
    pub(super) fn widen(&self, layer: &Layer, queries: &View, stream: &Stream) -> Result<()> {
        let Kernels { hidden: widen, narrow, .. } = &self.model.kernels;
        let Scratch { hidden, sum, .. } = &self.scratch;
        let Affine { weight, bias } = &layer.up;
        let args = [queries, weight, bias, hidden].map(Arg::View);
        let launch = Launch { grid: (HIDDEN_BLOCKS, 1, 1), threads: TOKEN_THREADS };
        // SAFETY: the arguments are decoder_hidden's own, weights that were measured where they were loaded and scratch.
        unsafe { widen.launch(launch, &args, stream) }?;
        let Affine { weight, bias } = &layer.down;
        let args = [hidden, weight, bias, queries, sum].map(Arg::View);
        let launch = Launch { grid: (NARROW_BLOCKS, 1, 1), threads: TOKEN_THREADS };
        // SAFETY: as above, decoder_narrow's own.
        Ok(unsafe { narrow.launch(launch, &args, stream) }?)
    }

    /// What both kernels take that fold what the image reads.
    pub(super) fn folding<'a>(&'a self, layer: &'a Layer, queries: &'a View) -> [Arg<'a>; 15] {
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
        .map(Arg::View)
    }

    /// Behind layer 0: `queries` and what the image reads of them, and what layer 1's tokens attend to among each other.
    pub(super) fn fold_attend(&self, queries: &View, stream: &Stream) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Affine { weight, bias } = &weights.among.qkv;
        let mut args = self.folding(&weights.layers[0], queries).to_vec();
        args.extend([weight, bias, &self.scratch.attended].map(Arg::View));
        let launch = Launch { grid: (2 * TOKENS as u32, 1, 1), threads: TOKEN_THREADS };
        // SAFETY: the arguments are decoder_fold_attend's own, weights that were measured where they were loaded and scratch.
        Ok(unsafe { kernels.fold_attend.launch(launch, &args, stream) }?)
    }

    /// In layer 1, behind the tokens' attention to each other: `out` of `queries`, and what they ask the image with.
    pub(super) fn turn(&self, queries: &View, out: &View, stream: &Stream) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Scratch { attended, folded, .. } = &self.scratch;
        let (among, Asking { query, key }) = (&weights.among, &weights.asking);
        let args = [
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
        ]
        .map(Arg::View);
        let launch = Launch { grid: (TOKENS as u32, 1, 1), threads: TOKEN_THREADS };
        // SAFETY: the arguments are decoder_turn's own, weights that were measured where they were loaded and scratch; `out` is other
        // memory than `queries`, which all blocks read.
        Ok(unsafe { kernels.turn.launch(launch, &args, stream) }?)
    }

    /// Behind layer 1: `queries` and what the image reads of them, and what the last reading asks.
    pub(super) fn fold_read(&self, queries: &View, stream: &Stream) -> Result<()> {
        let Model { kernels, weights, .. } = &*self.model;
        let Asking { query, key } = &weights.last_asking;
        let mut args = self.folding(&weights.layers[1], queries).to_vec();
        args.extend([&query.weight, &query.bias, key, &self.scratch.folded].map(Arg::View));
        let launch = Launch { grid: (2 * TOKENS as u32, 1, 1), threads: TOKEN_THREADS };
        // SAFETY: the arguments are decoder_fold_read's own, weights that were measured where they were loaded and scratch.
        Ok(unsafe { kernels.fold_read.launch(launch, &args, stream) }?)
    }

    /// What is read from the decoded tokens.
    pub(super) fn answer(&self, decoded: &View, answer: &Answer, stream: &Stream) -> Result<()> {
        let Model { kernels, weights, shape } = &*self.model;
        let Scratch { rows: [a, b], vector, .. } = &self.scratch;
        let heads = &weights.heads;
        for (at, (from, to)) in [(decoded, a), (a, b)].into_iter().enumerate() {
            let Affine { weight, bias } = &heads.inner[at];
            let args = [
                Arg::View(from),
                Arg::View(weight),
                Arg::View(bias),
                Arg::View(to),
                Arg::I32(i32::from(at == 0)),
            ];
            let launch = Launch { grid: (HEAD_ROWS, HEADS_BLOCKS, 1), threads: TOKEN_THREADS };
            // SAFETY: the arguments are decoder_heads' own, weights that were measured where they were loaded and scratch.
            unsafe { kernels.heads.launch(launch, &args, stream) }?;
        }
        let args = [
            Arg::View(b),
            Arg::View(&heads.score),
            Arg::View(&heads.iou),
            Arg::View(&heads.hyper),
            Arg::View(&heads.pointer),
            Arg::View(&heads.no_pointer),
            Arg::View(&answer.iou),
            Arg::View(&answer.pointer),
            Arg::View(&answer.score),
            Arg::View(vector),
            Arg::I32(i32::from(shape.probable)),
        ];
        let launch = Launch { grid: (ANSWER_BLOCKS, 1, 1), threads: TOKEN_THREADS };
        // SAFETY: as above, decoder_answer's own; the answer was measured in `enqueue`.
        Ok(unsafe { kernels.answer.launch(launch, &args, stream) }?)
    }

    /// The image upscaled, times the vector of the mask that was chosen.
    pub(super) fn masks(
        &self,
        [hr0, hr1]: [&View; 2],
        answer: &Answer,
        stream: &Stream,
    ) -> Result<()> {
        let Model { kernels, weights, shape } = &*self.model;
        let (masks, scratch) = (&weights.masks, &self.scratch);
        let args = [
            Arg::View(&scratch.image),
            Arg::View(hr0),
            Arg::View(hr1),
            Arg::View(&masks.first.weight),
            Arg::View(&masks.first.bias),
            Arg::View(&masks.norm.weight),
            Arg::View(&masks.norm.bias),
            Arg::View(&masks.second.weight),
            Arg::View(&masks.second.bias),
            Arg::View(&scratch.vector),
            Arg::View(&answer.score),
            Arg::View(&answer.low),
            Arg::I32(int(shape.grid, "the side of the map")?),
        ];
        let grid = (blocks(self.tokens(), MASK_TILE)?, PIXELS, 1);
        let launch = Launch { grid, threads: IMAGE_THREADS };
        // SAFETY: the arguments are decoder_masks' own; features and answer were measured in `enqueue`, the weights where they were
        // loaded, and the scratch is of the same shape.
        Ok(unsafe { kernels.masks.launch(launch, &args, stream) }?)
    }
}
