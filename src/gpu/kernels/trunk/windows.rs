/*!
Attention inside the windows of a map, all of a window's keys and values in shared memory: which kernel, and how its blocks are made up.
*/

use anyhow::{Context, Result, ensure};

use super::{ALIGNMENT, HALF, UNIT, blocks, int, need_exactly};
use crate::gpu::module::{Arg, Function, Launch, Module};
use crate::gpu::{Gpu, Stream, View};

/// The largest side of a window: its keys and values lie in shared memory.
const MAX_WINDOW: usize = 16;
/// Queries of a warp.
const ROWS: usize = 16;
/// Small windows share a block of so many warps, as long as their keys and values fit into what every launch may have.
const SHARED_WARPS: usize = 4;
const SHARED_BYTES: usize = 48 << 10;
/// What a block has at the least from sm 80 on (86, 89, 120), bytes.
const LEAST_SHARED: u32 = 99 << 10;

/// Padded columns of a head, and the kernel for it.
const WINDOWS: [(usize, &str); 3] =
    [(64, "trunk_windows_64"), (80, "trunk_windows_80"), (96, "trunk_windows_96")];

/// Attention inside windows, of all heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowShape {
    /// Side of the map that the tokens are of.
    pub grid: usize,
    /// Side of a window in that map, 16 at most. Windows begin at the top left; what they hold beyond the map are padding tokens.
    pub window: usize,
    /// Heads of a token.
    pub heads: usize,
    /// Columns of a head: a multiple of 8, 96 at most.
    pub depth: usize,
    /// Queries are the maximum over 2×2 tokens, and the map behind has half the side. Grid and window are even then.
    pub pooled: bool,
}

impl WindowShape {
    /// Tokens that come.
    pub fn tokens(&self) -> usize {
        self.grid * self.grid
    }

    /// Tokens that go.
    pub fn tokens_out(&self) -> usize {
        self.tokens() / if self.pooled { 4 } else { 1 }
    }

    /// Columns of all heads.
    pub fn columns(&self) -> usize {
        self.heads * self.depth
    }

    /// Keys of a window.
    fn keys(&self) -> usize {
        self.window * self.window
    }

    /// Queries of a window.
    fn queries(&self) -> usize {
        self.keys() / if self.pooled { 4 } else { 1 }
    }

    /// Windows times heads: each has an attention of its own.
    fn pairs(&self) -> usize {
        self.grid.div_ceil(self.window).pow(2) * self.heads
    }

    /// # Errors
    /// A shape that there is no kernel for.
    fn check(&self) -> Result<()> {
        let Self { grid, window, heads, depth, pooled } = *self;
        let whole = grid > 0 && heads > 0 && (1..=MAX_WINDOW).contains(&window);
        ensure!(
            whole && depth > 0 && depth.is_multiple_of(UNIT) && depth <= WINDOWS[2].0,
            "attention inside windows takes windows of 1 to {MAX_WINDOW} tokens a side and heads of 8, 16 … {} columns; found {self:?}",
            WINDOWS[2].0
        );
        ensure!(
            !pooled || (grid.is_multiple_of(2) && window.is_multiple_of(2)),
            "pooled queries need a map and windows of even sides, found {grid} and {window}"
        );
        Ok(())
    }
}

/// The kernels by padded columns.
#[derive(Clone, Debug)]
pub(super) struct WindowKernels {
    functions: [Function; 3],
    processors: usize,
}

impl WindowKernels {
    /// # Errors
    /// What the driver says.
    pub fn load(gpu: &Gpu, module: &Module) -> Result<Self> {
        let load = |(columns, name): (usize, &str)| -> Result<Function> {
            let function = module.function(name)?;
            // What the largest window needs; GPUs whose blocks have less refuse that window alone.
            let most = pair_shared(MAX_WINDOW * MAX_WINDOW, columns);
            let most = u32::try_from(most).context("shared memory of a window")?;
            let whole = function.clone().with_shared(most);
            Ok(whole.or_else(|_| function.with_shared(LEAST_SHARED.min(most)))?)
        };
        let functions = [load(WINDOWS[0])?, load(WINDOWS[1])?, load(WINDOWS[2])?];
        Ok(Self { functions, processors: gpu.multiprocessors()? as usize })
    }

    /// As [`super::TrunkKernels::windows`].
    pub fn of(&self, shape: WindowShape) -> Result<Windows> {
        shape.check()?;
        int(3 * shape.tokens() * shape.columns(), "the number of elements")?;
        let (function, division) = self.divide(&shape)?;
        let launch = Launch {
            grid: (blocks(shape.pairs(), division.pairs)?, 1, 1),
            threads: division.threads(),
        };
        Ok(Windows { shape, function, division, launch })
    }

    /// The kernel for a shape, with its shared memory, and how its blocks are made up.
    fn divide(&self, shape: &WindowShape) -> Result<(Function, Division)> {
        let at = WINDOWS.iter().position(|(columns, _)| shape.depth <= *columns);
        let at = at.context("heads that are too wide")?;
        let pair = pair_shared(shape.keys(), WINDOWS[at].0);
        let mut best: Option<(usize, Function, Division)> = None;
        for division in Division::of(shape, pair) {
            let shared = u32::try_from(division.pairs * pair).context("shared memory")?;
            let function = self.functions[at].taking(shared);
            let Ok(resident) = function.resident_blocks(division.threads()) else { continue };
            // Warps that work at once on a multiprocessor.
            let each = shape.pairs().div_ceil(division.pairs).div_ceil(self.processors);
            let working = (resident as usize).min(each) * division.pairs * division.warps;
            if working > best.as_ref().map_or(0, |(most, ..)| *most) {
                best = Some((working, function, division));
            }
        }
        let (_, function, division) = best.with_context(|| {
            format!(
                "the GPU's blocks have too little shared memory for {shape:?}: {pair} bytes are needed; run the encoder without its \
                 trunk: segtrt build-engines --graphs encoder"
            )
        })?;
        Ok((function, division))
    }
}

/// Attention inside windows of one shape, ready to be launched: how its blocks are made up is known.
#[derive(Clone, Debug)]
pub struct Windows {
    shape: WindowShape,
    function: Function,
    division: Division,
    launch: Launch,
}

impl Windows {
    /// Enqueues `out` f16 `[tokens behind, heads depth]` from `qkv` f16 `[tokens, 3 heads depth]` (queries scaled); padding tokens
    /// have `bias` f16 `[3 heads depth]`. No allocation; may be recorded.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, or what the driver says.
    pub fn enqueue(&self, [qkv, bias, out]: [&View; 3], stream: &Stream) -> Result<()> {
        let Self { shape, function, division, launch } = self;
        let columns = shape.columns();
        need_exactly(qkv, HALF * 3 * shape.tokens() * columns, ALIGNMENT, "'qkv'")?;
        need_exactly(bias, HALF * 3 * columns, ALIGNMENT, "'qkv.bias'")?;
        need_exactly(out, HALF * shape.tokens_out() * columns, ALIGNMENT, "'a'")?;
        let args = [
            Arg::View(qkv),
            Arg::View(bias),
            Arg::View(out),
            Arg::I32(int(shape.grid, "the side of the map")?),
            Arg::I32(int(shape.window, "the side of a window")?),
            Arg::I32(int(shape.heads, "the number of heads")?),
            Arg::I32(int(shape.depth, "the columns of a head")?),
            Arg::I32(shape.pooled.into()),
            Arg::I32(int(division.warps, "warps")?),
            Arg::I32(int(shape.pairs(), "windows times heads")?),
        ];
        // SAFETY: the arguments are the kernel's own, the tensors were measured above, and the division gives every warp
        // queries and every pair its shared memory, as the kernel asks for.
        Ok(unsafe { function.launch(*launch, &args, stream) }?)
    }
}

/// Shared memory of a window and head, bytes: keys and values in rows of padded columns and 16 bytes more, so that `ldmatrix` meets
/// no bank conflict; as in the source.
fn pair_shared(keys: usize, columns: usize) -> usize {
    2 * keys.next_multiple_of(16) * (HALF * columns + 16)
}

/// What a block does: so many pairs of window and head, each by so many warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    warps: usize,
    pairs: usize,
}

impl Division {
    /// Those to choose from: a warp for each 16 queries, or half as many for a large window, which leaves room for another block.
    /// No warp is without queries.
    fn of(shape: &WindowShape, pair: usize) -> Vec<Self> {
        let tiles = shape.queries().div_ceil(ROWS);
        let pairs = (SHARED_WARPS / tiles).min(SHARED_BYTES / pair).max(1);
        let whole = Self { warps: tiles, pairs };
        let half = Self { warps: tiles.div_ceil(2), pairs };
        if tiles > 2 * SHARED_WARPS { vec![whole, half] } else { vec![whole] }
    }

    fn threads(self) -> u32 {
        // 16 warps at most, in all.
        (32 * self.warps * self.pairs) as u32
    }
}

#[cfg(test)]
mod tests;
