/*!
The memory encoder, from features and low-resolution logits to the tokens of a memory
(`cuda/memory_*.cu`), and to the latents that stand for them where the model has such
(`cuda/perceiver_1d.cu`, `cuda/perceiver_2d.cu`).

```text
low ─ mask_convs ─→ narrow ─ mask_downsample ─→ wide ─ fuse_mask_and_features, with feat ─→ x
x ─ dwconv7x7 ─→ y ─ convnext_mlp, with x ─→ x ─ dwconv7x7 ─→ y
y ─ convnext_mlp_proj, with x ─→ memory
memory ─ perceiver_cross_attn ─→ sums ─ perceiver_mlp ─ perceiver_self_attn ─→ latents, twice
memory ─ perceiver_window_attn ─→ latents of a window each
```

The last two lines read the same memory and share nothing that either writes. A recording may have
them beside each other.

Images between launches are fp16 and channels-last; latents, which layers add to, are fp32.
*/

mod blocks;
mod fuse;
mod launches;
mod mlp;
mod scratch;
pub(crate) mod selftest;
mod weights;

use anyhow::Result;

use super::kernel::Chain;
use super::{Output, int, need_exactly};
use cuda::{Branch, Element, Gpu, LaunchMode, Stream, View};
use fuse::HopperFuse;
use launches::Kernels;
use mlp::Mlp;
use scratch::Scratch;
use vos::bundle::memory_encoder::{DEPTH, STEPS, WIDTH};
use vos::bundle::{MemoryEncoderShape, MemoryEncoderWeights};
use weights::Weights;

/// Bytes of an element.
const HALF: usize = 2;
const FLOAT: usize = 4;
/// What vector loads need.
const ALIGNMENT: usize = 16;
/// The most tokens for which the memory encoder's kernels start early: an image of 512 pixels.
/// Without latents that was 2 % faster there on H200s, and 7 % slower at 768 pixels
/// (docs/results/kernels.md).
const EARLY_TOKENS: usize = 32 * 32;

/// A memory encoder with its weights, and the memory that it works in: for one stream at a time.
#[derive(Debug)]
pub struct MemoryEncoder {
    shape: MemoryEncoderShape,
    kernels: Kernels,
    /// The MLPs' kernel where it is not one of `kernels`.
    mlp: Option<Mlp>,
    /// Hopper's kernel that fuses mask and features, where it serves.
    fuse: Option<HopperFuse>,
    weights: Weights,
    scratch: Scratch,
}

impl MemoryEncoder {
    /// Loads the kernels, for sm 80 and newer, and brings the weights to the device.
    ///
    /// # Errors
    /// A grid that the kernels do not take, weights of another size, a driver that refuses the PTX,
    /// or what else it says.
    pub fn new(
        gpu: &Gpu,
        shape: MemoryEncoderShape,
        weights: &MemoryEncoderWeights,
        stream: &Stream,
    ) -> Result<Self> {
        shape.check()?;
        // The largest tensors: the features, the mask behind its second convolution, and behind its
        // third.
        let [_, narrow, wide, _] = STEPS;
        let largest = (16 * narrow).max(4 * wide).max(WIDTH) * shape.tokens();
        int(largest, "the number of an image's elements")?;
        Ok(Self {
            shape,
            kernels: Kernels::load(gpu, shape)?,
            mlp: Mlp::load_if_useful(gpu, shape.tokens()),
            fuse: HopperFuse::load_if_supported(gpu, shape.grid),
            weights: Weights::load(gpu, shape, weights, stream)?,
            scratch: Scratch::new(gpu, shape)?,
        })
    }

    /// Tokens of the image.
    pub fn tokens(&self) -> usize {
        self.shape.tokens()
    }

    /// The memory, as an engine would have it.
    pub fn output(&self) -> Output {
        let shape = [1, self.shape.memory_tokens(), DEPTH].map(|extent| extent as i64);
        Output { name: "mem".to_owned(), element: Element::F16, shape: shape.to_vec() }
    }

    /// Whether it has work for a branch of a recording: the latents of windows.
    pub fn forks(&self) -> bool {
        self.shape.latents
    }

    /// Enqueues a frame of one object: `memory` f16 `[tokens, 64]`, or `[512, 64]` with latents, of
    /// `feat` f16 `[256, grid, grid]`, `low` f32 `[4 grid, 4 grid]`, `score` f32 `[1]`, the
    /// object's, and `binary` f32 `[1]`: above 0.5 the mask is 0 or 1 everywhere. 7 launches, 14
    /// with latents, without allocation; may be recorded. A recording may have a branch, which has
    /// joined `stream` when this returns.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, or what the driver says.
    pub fn enqueue(
        &self,
        inputs: [&View; 4],
        memory: &View,
        stream: &Stream,
        branch: Option<&Branch>,
    ) -> Result<()> {
        let early = self.tokens() <= EARLY_TOKENS;
        let mode = if early { LaunchMode::Pdl } else { LaunchMode::Ordered };
        // The perceiver's small kernels gained at each measured size, 256 to 1024 pixels.
        self.enqueue_in([mode, LaunchMode::Pdl], inputs, memory, stream, branch)
    }

    /// The same in launch modes: the memory encoder's and the perceiver's.
    fn enqueue_in(
        &self,
        [mode, perceiver_mode]: [LaunchMode; 2],
        [feat, low, score, binary]: [&View; 4],
        memory: &View,
        stream: &Stream,
        branch: Option<&Branch>,
    ) -> Result<()> {
        let Self { shape, weights, scratch, .. } = self;
        let side = shape.low_size();
        need_exactly(feat, HALF * WIDTH * self.tokens(), ALIGNMENT, "'feat'")?;
        need_exactly(low, FLOAT * side * side, ALIGNMENT, "'low'")?;
        need_exactly(score, FLOAT, FLOAT, "'score'")?;
        need_exactly(binary, FLOAT, FLOAT, "'binar'")?;
        need_exactly(memory, HALF * shape.memory_tokens() * DEPTH, ALIGNMENT, "'mem'")?;

        let chain = &Chain::begin(stream, mode);
        self.mask_convs(low, binary, chain)?;
        self.mask_downsample(chain)?;
        self.fuse_mask_and_features(feat, chain)?;
        let [first, last] = &weights.blocks;
        self.dwconv7x7(first, chain)?;
        self.convnext_mlp(first, chain)?;
        self.dwconv7x7(last, chain)?;
        let Some((latents, work)) = weights.latents.as_ref().zip(scratch.latents.as_ref()) else {
            return self.convnext_mlp_proj(last, score, memory, chain);
        };
        self.convnext_mlp_proj(last, score, &work.memory, chain)?;
        let half = memory.len() / 2;
        let (flat, map) = (memory.part(0, half)?, memory.part(half, half)?);
        let [first, second] = &latents.layers;
        // Both perceivers read the tokens and weights. All else of the scratch is the first one's
        // alone, and each writes its own half of the memory.
        let side = branch.map(|branch| branch.fork(stream)).transpose()?;
        let chain = &Chain::begin(stream, perceiver_mode);
        self.perceiver_cross_attn(work, first, &latents.first, chain)?;
        self.perceiver_mlp(work, first, &latents.flat, chain)?;
        self.perceiver_self_attn(
            work,
            first,
            (&latents.asks.norm, Some(&latents.asks.weight)),
            &work.queries,
            chain,
        )?;
        self.perceiver_cross_attn(work, second, &work.queries, chain)?;
        self.perceiver_mlp(work, second, &work.latents, chain)?;
        self.perceiver_self_attn(work, second, (&latents.last, None), &flat, chain)?;
        let Some((branch, side)) = branch.zip(side) else {
            return self.perceiver_window_attn(work, &map, chain);
        };
        // The first launch of its stream is in order: it follows the tokens' kernel as a whole.
        self.perceiver_window_attn(work, &map, &Chain::begin(side, perceiver_mode))?;
        Ok(branch.join(stream)?)
    }
}
