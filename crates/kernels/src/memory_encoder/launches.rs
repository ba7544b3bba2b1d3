/*!
The launches of a memory encoder, kernel by kernel. Views are measured before: those of a frame where it is enqueued, weights where they are
loaded, and the scratch is made for the encoder's own shape.
*/

use anyhow::{Context, Result};

use super::super::images::{self, Topic};
use super::super::loaded::Affine;
use super::super::{blocks, int};
use super::MemoryEncoder;
use super::scratch::{LatentScratch, SPLIT, Scratch};
use super::weights::{Block, Convolution, Join, Latents, Layer};
use cuda::module::{Arg, Function, Launch};
use cuda::{Gpu, Stream, View};
use vos::bundle::MemoryEncoderShape;
use vos::bundle::memory_encoder::LATENTS;

/// Pixels along a row and rows of a block's tile of the mask behind its second convolution, and behind its third.
pub(super) const MASK_TILE: [usize; 2] = [16, 8];
/// Tokens along a row and rows of a block where mask and features meet, and of one that spreads them.
pub(super) const JOIN_TILE: [usize; 2] = [16, 2];
pub(super) const SPREAD_TILE: [usize; 2] = [8, 4];
/// Tokens of a block that mixes a token's columns.
pub(super) const MIX_TILE: usize = 32;
/// Latents of a block that reads all tokens, of one that computes with latents alone, and of one that reads their windows.
pub(super) const ATTEND_TILE: usize = 64;
pub(super) const LATENT_TILE: usize = 8;
pub(super) const WINDOW_TILE: usize = 8;
/// Threads of each kernel.
pub(super) const MASK_THREADS: u32 = 192;
pub(super) const WIDEN_THREADS: u32 = 128;
pub(super) const JOIN_THREADS: u32 = 256;
pub(super) const SPREAD_THREADS: u32 = 512;
pub(super) const MIX_THREADS: u32 = 256;
pub(super) const ATTEND_THREADS: u32 = 256;
pub(super) const LATENT_THREADS: u32 = 512;
pub(super) const WINDOW_THREADS: u32 = 256;
/// Dynamic shared memory, bytes.
pub(super) const JOIN_SHARED: u32 = 93_312;
pub(super) const SPREAD_SHARED: u32 = 71_680;
pub(super) const MIX_SHARED: u32 = 98_304;
pub(super) const WINDOW_SHARED: u32 = 97_792;

#[derive(Debug)]
pub(super) struct Kernels {
    mask: Function,
    widen: Function,
    join: Function,
    spread: Function,
    mix: Function,
    last: Function,
    latents: Option<LatentKernels>,
}

#[derive(Debug)]
struct LatentKernels {
    attend: Function,
    mix: Function,
    own: Function,
    windows: Function,
}

impl Kernels {
    /// Loads all that this shape needs.
    ///
    /// # Errors
    /// The driver refuses the PTX.
    pub fn load(gpu: &Gpu, shape: MemoryEncoderShape) -> Result<Self> {
        let mut topics = vec![Topic::MemoryMask, Topic::MemoryJoin, Topic::MemoryBlocks];
        if shape.latents {
            topics.extend([Topic::Latents, Topic::LatentWindows]);
        }
        let (modules, form) = images::load(gpu, &topics)?;
        log::debug!("the memory encoder's kernels from {form}");
        let of = |topic: Topic, name: &str| -> Result<Function> {
            let found = modules.iter().find(|(about, _)| *about == topic);
            let (_, module) = found.with_context(|| format!("no kernels about {topic:?}"))?;
            Ok(module.function(name)?)
        };
        let latents = || -> Result<LatentKernels> {
            Ok(LatentKernels {
                attend: of(Topic::Latents, "latents_attend")?,
                mix: of(Topic::Latents, "latents_mix")?,
                own: of(Topic::Latents, "latents_self")?,
                windows: of(Topic::LatentWindows, "latents_windows")?.with_shared(WINDOW_SHARED)?,
            })
        };
        Ok(Self {
            mask: of(Topic::MemoryMask, "memory_mask")?,
            widen: of(Topic::MemoryMask, "memory_widen")?,
            join: of(Topic::MemoryJoin, "memory_join")?.with_shared(JOIN_SHARED)?,
            spread: of(Topic::MemoryBlocks, "memory_spread")?.with_shared(SPREAD_SHARED)?,
            mix: of(Topic::MemoryBlocks, "memory_mix")?.with_shared(MIX_SHARED)?,
            last: of(Topic::MemoryBlocks, "memory_last")?.with_shared(MIX_SHARED)?,
            latents: shape.latents.then(latents).transpose()?,
        })
    }
}

impl MemoryEncoder {
    /// The mask of `low`, and its first two convolutions.
    pub(super) fn mask(&self, low: &View, binary: &View, stream: &Stream) -> Result<()> {
        let [first, second] = &self.weights.mask;
        let args = [
            Arg::View(low),
            Arg::View(binary),
            Arg::F32(self.shape.scale),
            Arg::F32(self.shape.offset),
            Arg::View(&first.product.weight),
            Arg::View(&first.product.bias),
            Arg::View(&first.norm.weight),
            Arg::View(&first.norm.bias),
            Arg::View(&second.product.weight),
            Arg::View(&second.product.bias),
            Arg::View(&second.norm.weight),
            Arg::View(&second.norm.bias),
            Arg::View(&self.scratch.narrow),
            self.grid()?,
        ];
        let grid = tiles(4 * self.shape.grid, MASK_TILE)?;
        let launch = Launch { grid, threads: MASK_THREADS };
        // SAFETY: the arguments are memory_mask's own; logits and the choice of masks were measured in `enqueue`, the weights where they
        // were loaded, and the result has room for every pixel of the map's side.
        Ok(unsafe { self.kernels.mask.launch(launch, &args, stream) }?)
    }

    /// The third convolution.
    pub(super) fn widen(&self, stream: &Stream) -> Result<()> {
        let Convolution { product, norm } = &self.weights.widen;
        let Scratch { narrow, wide, .. } = &self.scratch;
        let args = [
            Arg::View(narrow),
            Arg::View(&product.weight),
            Arg::View(&product.bias),
            Arg::View(&norm.weight),
            Arg::View(&norm.bias),
            Arg::View(wide),
            self.grid()?,
        ];
        let grid = tiles(2 * self.shape.grid, MASK_TILE)?;
        let launch = Launch { grid, threads: WIDEN_THREADS };
        // SAFETY: the arguments are memory_widen's own, weights that were measured where they were loaded and scratch of the same shape.
        Ok(unsafe { self.kernels.widen.launch(launch, &args, stream) }?)
    }

    /// The fourth, and mask and features together.
    pub(super) fn join(&self, feat: &View, stream: &Stream) -> Result<()> {
        let Join { mask: Convolution { product, norm }, projections: [mask, feature], bias } =
            &self.weights.join;
        let args = [
            Arg::View(&self.scratch.wide),
            Arg::View(&product.weight),
            Arg::View(&product.bias),
            Arg::View(&norm.weight),
            Arg::View(&norm.bias),
            Arg::View(mask),
            Arg::View(feat),
            Arg::View(feature),
            Arg::View(bias),
            Arg::View(&self.scratch.x),
            self.grid()?,
        ];
        let grid = tiles(self.shape.grid, JOIN_TILE)?;
        let launch = Launch { grid, threads: JOIN_THREADS };
        // SAFETY: the arguments are memory_join's own; the features were measured in `enqueue`, the weights where they were loaded, and the
        // scratch is of the same shape.
        Ok(unsafe { self.kernels.join.launch(launch, &args, stream) }?)
    }

    /// What a token's neighbours say.
    pub(super) fn spread(&self, block: &Block, stream: &Stream) -> Result<()> {
        let Convolution { product, norm } = &block.spread;
        let Scratch { x, y, .. } = &self.scratch;
        let args = [
            Arg::View(x),
            Arg::View(&product.weight),
            Arg::View(&product.bias),
            Arg::View(&norm.weight),
            Arg::View(&norm.bias),
            Arg::View(y),
            self.grid()?,
        ];
        let grid = tiles(self.shape.grid, SPREAD_TILE)?;
        let launch = Launch { grid, threads: SPREAD_THREADS };
        // SAFETY: the arguments are memory_spread's own, weights that were measured where they were loaded and scratch of the same shape;
        // it reads `x`, of which it writes nothing.
        Ok(unsafe { self.kernels.spread.launch(launch, &args, stream) }?)
    }

    /// A block's MLP, in place.
    pub(super) fn mix(&self, block: &Block, stream: &Stream) -> Result<()> {
        let Scratch { x, y, .. } = &self.scratch;
        let args = [
            Arg::View(y),
            Arg::View(x),
            Arg::View(&block.up.weight),
            Arg::View(&block.up.bias),
            Arg::View(&block.down.weight),
            Arg::View(&block.down.bias),
            Arg::View(x),
            self.count()?,
        ];
        // SAFETY: the arguments are memory_mix's own, weights that were measured where they were loaded and scratch of the same shape; a
        // block reads no tokens of `x` but those that it writes.
        Ok(unsafe { self.kernels.mix.launch(self.mixing()?, &args, stream) }?)
    }

    /// The last block's MLP, and the tokens of the memory.
    pub(super) fn last(
        &self,
        block: &Block,
        score: &View,
        memory: &View,
        stream: &Stream,
    ) -> Result<()> {
        let Scratch { x, y, .. } = &self.scratch;
        let Affine { weight, bias } = &self.weights.out;
        let args = [
            Arg::View(y),
            Arg::View(x),
            Arg::View(&block.up.weight),
            Arg::View(&block.up.bias),
            Arg::View(&block.down.weight),
            Arg::View(&block.down.bias),
            Arg::View(weight),
            Arg::View(bias),
            Arg::View(score),
            Arg::View(&self.weights.absent),
            Arg::View(memory),
            self.count()?,
        ];
        // SAFETY: as in `mix`, memory_last's own; the score was measured in `enqueue`, as was the memory, unless it is the scratch's.
        Ok(unsafe { self.kernels.last.launch(self.mixing()?, &args, stream) }?)
    }

    /// Latents read all tokens of the memory.
    pub(super) fn attend(
        &self,
        work: &LatentScratch,
        layer: &Layer,
        queries: &View,
        stream: &Stream,
    ) -> Result<()> {
        let (latents, kernels) = self.of_latents()?;
        let args = [
            Arg::View(&work.memory),
            Arg::View(&layer.norm.weight),
            Arg::View(&layer.norm.bias),
            Arg::View(&layer.kv),
            Arg::View(&latents.positions),
            Arg::View(queries),
            Arg::View(&work.sums),
            Arg::View(&work.parts),
            self.count()?,
        ];
        let grid = (blocks(LATENTS, ATTEND_TILE)?, blocks(self.tokens(), SPLIT)?, 1);
        let launch = Launch { grid, threads: ATTEND_THREADS };
        // SAFETY: the arguments are latents_attend's own, weights that were measured where they were loaded and scratch; sums and parts have
        // room for every split of the launch.
        Ok(unsafe { kernels.attend.launch(launch, &args, stream) }?)
    }

    /// `before` and what was read, and the MLP behind.
    pub(super) fn latents_mix(
        &self,
        work: &LatentScratch,
        layer: &Layer,
        before: &View,
        stream: &Stream,
    ) -> Result<()> {
        let (_, kernels) = self.of_latents()?;
        let args = [
            Arg::View(&work.sums),
            Arg::View(&work.parts),
            Arg::I32(int(self.tokens().div_ceil(SPLIT), "the number of splits")?),
            Arg::View(before),
            Arg::View(&layer.out),
            Arg::View(&layer.ff.norm.weight),
            Arg::View(&layer.ff.norm.bias),
            Arg::View(&layer.ff.up),
            Arg::View(&layer.ff.down),
            Arg::View(&layer.self_norm.weight),
            Arg::View(&layer.self_norm.bias),
            Arg::View(&layer.self_qkv),
            Arg::View(&work.mixed),
            Arg::View(&work.qkv),
        ];
        // SAFETY: the arguments are latents_mix's own: as many splits as `attend` wrote, weights that were measured where they were loaded,
        // and latents of the scratch or the weights.
        Ok(unsafe { kernels.mix.launch(self.latent_blocks()?, &args, stream) }?)
    }

    /// Latents read each other; then the second MLP, and what comes next of them: queries, or without these the result.
    pub(super) fn latents_self(
        &self,
        work: &LatentScratch,
        layer: &Layer,
        (norm, query): (&Affine, Option<&View>),
        result: &View,
        stream: &Stream,
    ) -> Result<()> {
        let (_, kernels) = self.of_latents()?;
        let args = [
            Arg::View(&work.qkv),
            Arg::View(&work.mixed),
            Arg::View(&layer.self_out),
            Arg::View(&layer.self_ff.norm.weight),
            Arg::View(&layer.self_ff.norm.bias),
            Arg::View(&layer.self_ff.up),
            Arg::View(&layer.self_ff.down),
            Arg::View(&norm.weight),
            Arg::View(&norm.bias),
            query.map_or(Arg::Null, Arg::View),
            Arg::View(&work.latents),
            Arg::View(result),
        ];
        // SAFETY: the arguments are latents_self's own, which takes a null pointer for no query; weights were measured where they were
        // loaded, and the result is the scratch's or half of what was measured in `enqueue`: 256 latents either way.
        Ok(unsafe { kernels.own.launch(self.latent_blocks()?, &args, stream) }?)
    }

    /// Latents read a window each.
    pub(super) fn windows(
        &self,
        work: &LatentScratch,
        result: &View,
        stream: &Stream,
    ) -> Result<()> {
        let (latents, kernels) = self.of_latents()?;
        let args = [
            Arg::View(&work.memory),
            Arg::View(&latents.map),
            Arg::View(&latents.halves),
            Arg::View(&latents.floats),
            Arg::View(result),
            self.grid()?,
        ];
        let launch =
            Launch { grid: (blocks(LATENTS, WINDOW_TILE)?, 1, 1), threads: WINDOW_THREADS };
        // SAFETY: the arguments are latents_windows' own, weights that were measured where they were loaded, scratch of the same shape, and
        // half of what was measured in `enqueue`.
        Ok(unsafe { kernels.windows.launch(launch, &args, stream) }?)
    }

    fn of_latents(&self) -> Result<(&Latents, &LatentKernels)> {
        let found = self.weights.latents.as_ref().zip(self.kernels.latents.as_ref());
        found.context("a memory encoder without latents was asked for them")
    }

    fn mixing(&self) -> Result<Launch> {
        Ok(Launch { grid: (blocks(self.tokens(), MIX_TILE)?, 1, 1), threads: MIX_THREADS })
    }

    fn latent_blocks(&self) -> Result<Launch> {
        Ok(Launch { grid: (blocks(LATENTS, LATENT_TILE)?, 1, 1), threads: LATENT_THREADS })
    }

    fn grid(&self) -> Result<Arg<'_>> {
        Ok(Arg::I32(int(self.shape.grid, "the side of the map")?))
    }

    fn count(&self) -> Result<Arg<'_>> {
        Ok(Arg::I32(int(self.tokens(), "the number of tokens")?))
    }
}

/// Blocks of so many pixels along a row and so many rows that cover a square image of this side.
fn tiles(side: usize, [across, down]: [usize; 2]) -> Result<(u32, u32, u32)> {
    Ok((blocks(side, across)?, blocks(side, down)?, 1))
}
