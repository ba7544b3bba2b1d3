/*!
What the blocks of an encoder's trunk need besides their products: normalisation, the activation, pooling of the skipped tokens,
attention inside windows, and the tokens' way into heads and back around the attention over the whole map.

Tokens lie in image order throughout. Windows are cut where they are read (`cuda/windows.cu`): nothing partitions, pads or joins
them in memory.
*/

use anyhow::{Context, Result, ensure};

use super::images::{self, Topic};
use super::{blocks, int, need_exactly};
use crate::gpu::module::{Arg, Function, Launch, Module};
use crate::gpu::{Gpu, Stream, View};

/// Threads of a block of the kernels that only move data.
const THREADS: u32 = 256;
/// Bytes of a half and of a float.
const HALF: usize = 2;
const FLOAT: usize = 4;
/// Columns of a 16-byte unit of halves.
const UNIT: usize = 8;
/// What vector loads need.
const ALIGNMENT: usize = 16;
/// The widest row that a warp keeps in registers.
const MAX_COLUMNS: usize = 1152;
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

/// Tokens in heads, on the way to an attention over the whole map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeadsShape {
    /// Tokens of the map.
    pub tokens: usize,
    /// Heads of a token.
    pub heads: usize,
    /// Columns of a head: a multiple of 8.
    pub depth: usize,
    /// Columns that a head has on its own, zeros behind `depth`: a multiple of 8.
    pub width: usize,
}

impl HeadsShape {
    /// # Errors
    /// Columns that are no whole 16-byte units, or heads that are wider than their room.
    fn check(&self) -> Result<()> {
        let Self { tokens, heads, depth, width } = *self;
        ensure!(
            tokens > 0
                && heads > 0
                && depth > 0
                && depth.is_multiple_of(UNIT)
                && width.is_multiple_of(UNIT)
                && depth <= width,
            "heads take columns in eights, no more than there is room for; found {self:?}"
        );
        ensure!(heads <= 65_535, "{heads} heads, a launch takes 65535");
        Ok(())
    }
}

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TrunkKernels {
    normalize: Function,
    gelu: Function,
    pool: Function,
    split_heads: Function,
    join_heads: Function,
    windows: [Function; 3],
    processors: usize,
}

impl TrunkKernels {
    /// Loads the kernels, for sm 80 and newer.
    ///
    /// # Errors
    /// The driver refuses the PTX, or the GPU is older.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        let (modules, form) = images::load(gpu, &[Topic::Trunk, Topic::Windows])?;
        log::debug!("the trunk's kernels from {form}");
        let of = |topic: Topic| -> Result<&Module> {
            let found = modules.iter().find(|(about, _)| *about == topic);
            Ok(&found.with_context(|| format!("no kernels about {topic:?}"))?.1)
        };
        let (trunk, windows) = (of(Topic::Trunk)?, of(Topic::Windows)?);
        let window = |(columns, name): (usize, &str)| -> Result<Function> {
            let function = windows.function(name)?;
            // What the largest window needs; GPUs whose blocks have less refuse that window alone.
            let most = pair_shared(MAX_WINDOW * MAX_WINDOW, columns);
            let most = u32::try_from(most).context("shared memory of a window")?;
            let whole = function.clone().with_shared(most);
            Ok(whole.or_else(|_| function.with_shared(LEAST_SHARED.min(most)))?)
        };
        Ok(Self {
            normalize: trunk.function("trunk_normalize")?,
            gelu: trunk.function("trunk_gelu")?,
            pool: trunk.function("trunk_pool")?,
            split_heads: trunk.function("trunk_split_heads")?,
            join_heads: trunk.function("trunk_join_heads")?,
            windows: [window(WINDOWS[0])?, window(WINDOWS[1])?, window(WINDOWS[2])?],
            processors: gpu.multiprocessors()? as usize,
        })
    }

    /// Enqueues a layer normalisation: `out` f16 `[rows, columns]` of `x` f32, with `weight` and `bias` f32 `[columns]` and
    /// epsilon 10⁻⁶. Columns are a multiple of 8, 1152 at most.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, other columns, or what the driver says.
    #[expect(clippy::too_many_arguments, reason = "four tensors and their two sizes")]
    pub fn normalize(
        &self,
        x: &View,
        weight: &View,
        bias: &View,
        out: &View,
        rows: usize,
        columns: usize,
        stream: &Stream,
    ) -> Result<()> {
        ensure!(
            rows > 0 && columns > 0 && columns.is_multiple_of(UNIT) && columns <= MAX_COLUMNS,
            "normalisation takes rows of 8, 16 … {MAX_COLUMNS} columns, found {rows} of {columns}"
        );
        need_exactly(x, FLOAT * rows * columns, ALIGNMENT, "'x'")?;
        need_exactly(weight, FLOAT * columns, ALIGNMENT, "'weight'")?;
        need_exactly(bias, FLOAT * columns, ALIGNMENT, "'bias'")?;
        need_exactly(out, HALF * rows * columns, ALIGNMENT, "'n'")?;
        let warps = THREADS as usize / 32;
        let grid = (blocks(rows, warps * rows_of_a_warp(columns))?, 1, 1);
        let args = [
            Arg::View(x),
            Arg::View(weight),
            Arg::View(bias),
            Arg::View(out),
            Arg::I32(int(rows, "the number of rows")?),
            Arg::I32(int(columns, "the number of columns")?),
        ];
        // SAFETY: the arguments are the kernel's own, and the tensors were measured above.
        Ok(unsafe { self.normalize.launch(Launch { grid, threads: THREADS }, &args, stream) }?)
    }

    /// Enqueues `x` ← x Φ(x), f16, in place; `elements` is a multiple of 8.
    ///
    /// # Errors
    /// As [`Self::normalize`].
    pub fn gelu(&self, x: &View, elements: usize, stream: &Stream) -> Result<()> {
        ensure!(
            elements > 0 && elements.is_multiple_of(UNIT),
            "the activation takes elements in eights, found {elements}"
        );
        need_exactly(x, HALF * elements, ALIGNMENT, "'h'")?;
        let units = elements / UNIT;
        let args = [Arg::View(x), Arg::I32(int(units, "the number of elements")?)];
        let launch = Launch { grid: (blocks(units, THREADS as usize)?, 1, 1), threads: THREADS };
        // SAFETY: the arguments are the kernel's own, and the tensor was measured above.
        Ok(unsafe { self.gelu.launch(launch, &args, stream) }?)
    }

    /// Enqueues the maximum over 2×2 tokens: `x` f32 `[grid_out², columns]` of `s` f16 `[4 grid_out², columns]`. Columns are a
    /// multiple of 8.
    ///
    /// # Errors
    /// As [`Self::normalize`].
    pub fn pool(
        &self,
        s: &View,
        x: &View,
        grid_out: usize,
        columns: usize,
        stream: &Stream,
    ) -> Result<()> {
        ensure!(
            grid_out > 0 && columns > 0 && columns.is_multiple_of(UNIT),
            "pooling takes columns in eights, found {grid_out} x {grid_out} tokens of {columns}"
        );
        let elements = grid_out * grid_out * columns;
        need_exactly(s, HALF * 4 * elements, ALIGNMENT, "'s'")?;
        need_exactly(x, FLOAT * elements, ALIGNMENT, "'x'")?;
        let args = [
            Arg::View(s),
            Arg::View(x),
            Arg::I32(int(grid_out, "the side of the map")?),
            Arg::I32(int(columns, "the number of columns")?),
        ];
        int(elements, "the number of elements")?;
        let grid = (blocks(elements / UNIT, THREADS as usize)?, 1, 1);
        // SAFETY: the arguments are the kernel's own, and the tensors were measured above.
        Ok(unsafe { self.pool.launch(Launch { grid, threads: THREADS }, &args, stream) }?)
    }

    /// Enqueues softmax(q kᵀ) v inside each window and head. `qkv` f16 `[grid², 3 heads depth]`, rows q, k, v, each head by head
    /// (q scaled); `bias` f16 `[3 heads depth]`, what padding tokens have instead; `out` f16 `[tokens_out, heads depth]`.
    ///
    /// # Errors
    /// A shape that there is no kernel for, or a window that the GPU's blocks have too little shared memory for; else as
    /// [`Self::normalize`].
    pub fn windows(
        &self,
        qkv: &View,
        bias: &View,
        out: &View,
        shape: &WindowShape,
        stream: &Stream,
    ) -> Result<()> {
        shape.check()?;
        let columns = shape.columns();
        need_exactly(qkv, HALF * 3 * shape.tokens() * columns, ALIGNMENT, "'qkv'")?;
        need_exactly(bias, HALF * 3 * columns, ALIGNMENT, "'qkv.bias'")?;
        need_exactly(out, HALF * shape.tokens_out() * columns, ALIGNMENT, "'a'")?;
        int(3 * shape.tokens() * columns, "the number of elements")?;
        let pairs = shape.pairs();
        let (function, division) = self.divide(shape)?;
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
            Arg::I32(int(pairs, "windows times heads")?),
        ];
        let threads = division.threads();
        let launch = Launch { grid: (blocks(pairs, division.pairs)?, 1, 1), threads };
        // SAFETY: the arguments are the kernel's own, the tensors were measured above, and the division gives every warp
        // queries and every pair its shared memory, as the kernel asks for.
        Ok(unsafe { function.launch(launch, &args, stream) }?)
    }

    /// The kernel for a shape, with its shared memory, and how its blocks are made up.
    fn divide(&self, shape: &WindowShape) -> Result<(Function, Division)> {
        let at = WINDOWS.iter().position(|(columns, _)| shape.depth <= *columns);
        let at = at.context("heads that are too wide")?;
        let pair = pair_shared(shape.keys(), WINDOWS[at].0);
        let mut best: Option<(usize, Function, Division)> = None;
        for division in Division::of(shape, pair) {
            let shared = u32::try_from(division.pairs * pair).context("shared memory")?;
            let function = self.windows[at].taking(shared);
            let Ok(resident) = function.resident_blocks(division.threads()) else { continue };
            // Warps that work at once on a multiprocessor.
            let each = shape.pairs().div_ceil(division.pairs).div_ceil(self.processors);
            let working = (resident as usize).min(each) * division.pairs * division.warps;
            if working > best.as_ref().map_or(0, |(most, ..)| *most) {
                best = Some((working, function, division));
            }
        }
        let (_, function, division) = best.with_context(|| {
            format!("the GPU's blocks have too little shared memory for {shape:?}: {pair} bytes are needed")
        })?;
        Ok((function, division))
    }

    /// Enqueues q, k and v f16 `[heads, tokens, width]`, zeros behind a head's columns, from `qkv` f16 `[tokens, 3 heads depth]`.
    ///
    /// # Errors
    /// As [`Self::normalize`].
    pub fn split_heads(
        &self,
        qkv: &View,
        [q, k, v]: [&View; 3],
        shape: &HeadsShape,
        stream: &Stream,
    ) -> Result<()> {
        shape.check()?;
        let HeadsShape { tokens, heads, depth, width } = *shape;
        need_exactly(qkv, HALF * 3 * tokens * heads * depth, ALIGNMENT, "'qkv'")?;
        for (part, name) in [(q, "'q'"), (k, "'k'"), (v, "'v'")] {
            need_exactly(part, HALF * heads * tokens * width, ALIGNMENT, name)?;
        }
        let args = [
            Arg::View(qkv),
            Arg::View(q),
            Arg::View(k),
            Arg::View(v),
            Arg::I32(int(tokens, "the number of tokens")?),
            Arg::I32(int(depth, "the columns of a head")?),
            Arg::I32(int(width, "the room of a head")?),
        ];
        int(3 * tokens * heads * width, "the number of elements")?;
        let grid = (blocks(tokens * width / UNIT, THREADS as usize)?, blocks(heads, 1)?, 3);
        // SAFETY: the arguments are the kernel's own, and the tensors were measured above.
        Ok(unsafe { self.split_heads.launch(Launch { grid, threads: THREADS }, &args, stream) }?)
    }

    /// Enqueues `out` f16 `[tokens, heads depth]` from `o` f16 `[heads, tokens, width]`.
    ///
    /// # Errors
    /// As [`Self::normalize`].
    pub fn join_heads(
        &self,
        o: &View,
        out: &View,
        shape: &HeadsShape,
        stream: &Stream,
    ) -> Result<()> {
        shape.check()?;
        let HeadsShape { tokens, heads, depth, width } = *shape;
        need_exactly(o, HALF * heads * tokens * width, ALIGNMENT, "'o'")?;
        need_exactly(out, HALF * tokens * heads * depth, ALIGNMENT, "'a'")?;
        let args = [
            Arg::View(o),
            Arg::View(out),
            Arg::I32(int(tokens, "the number of tokens")?),
            Arg::I32(int(heads, "the number of heads")?),
            Arg::I32(int(depth, "the columns of a head")?),
            Arg::I32(int(width, "the room of a head")?),
        ];
        int(tokens * heads * width, "the number of elements")?;
        let grid = (blocks(tokens * heads * depth / UNIT, THREADS as usize)?, 1, 1);
        // SAFETY: the arguments are the kernel's own, and the tensors were measured above.
        Ok(unsafe { self.join_heads.launch(Launch { grid, threads: THREADS }, &args, stream) }?)
    }
}

/// Rows that a warp normalises at once, so that enough loads are under way where rows are short: as in the source.
fn rows_of_a_warp(columns: usize) -> usize {
    match columns.div_ceil(128) {
        1 => 4,
        2 | 3 => 2,
        _ => 1,
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
