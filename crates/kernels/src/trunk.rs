/*!
What the blocks of an encoder's trunk need besides their products and the attention over the whole map: normalisation, the activation,
pooling of the skipped tokens, and attention inside windows.

Tokens lie in image order throughout. Windows are cut where they are read (`cuda/windows.cu`): nothing partitions, pads or joins
them in memory.
*/

mod windows;

use anyhow::{Context, Result, ensure};

use super::images::{self, Topic};
use super::{blocks, int, need_exactly};
use cuda::module::{Arg, Function, Launch, Module};
use cuda::{Gpu, LaunchMode, Stream, View};
use windows::WindowKernels;

pub use windows::{WindowShape, Windows};

/// The norm that can begin before the product in front of it has ended: Hopper's alone.
pub(super) const EARLY_NORM: &str = "trunk_normalize_hopper";
/// Threads of a block of the kernels that only move data.
const THREADS: u32 = 256;
/// Bytes of a half and of a float.
const HALF: usize = 2;
const FLOAT: usize = 4;
/// Columns of a 16-byte unit of halves.
const UNIT: usize = 8;
/// Bytes that a prefetch brings.
const LINE: usize = 128;
/// What vector loads need.
const ALIGNMENT: usize = 16;
/// The widest row that a warp keeps in registers.
const MAX_COLUMNS: usize = 1152;

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TrunkKernels {
    normalize: Function,
    /// The same, which can begin early: Hopper's alone.
    normalize_early: Option<Function>,
    gelu: Function,
    pool: Function,
    windows: WindowKernels,
}

impl TrunkKernels {
    /// Loads the kernels, for sm 80 and newer: Hopper's own on Hopper, where the driver takes them.
    ///
    /// # Errors
    /// The driver refuses the PTX, or the GPU is older.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        if gpu.facts().sm == 90 {
            match Self::of(gpu, true) {
                Ok(kernels) => return Ok(kernels),
                Err(error) => {
                    log::warn!(
                        "the trunk's kernels for Hopper cannot be used, slower ones are: {error:#}"
                    );
                }
            }
        }
        Self::of(gpu, false)
    }

    /// Loads those for any GPU from sm 80 on, and (`hopper`) those for Hopper alone.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn of(gpu: &Gpu, hopper: bool) -> Result<Self> {
        let own = [Topic::Trunk, Topic::Windows, Topic::WindowsHopper, Topic::TrunkHopper];
        let (modules, form) = images::load(gpu, if hopper { &own } else { &own[..2] })?;
        log::debug!("the trunk's kernels from {form}");
        let find = |topic: Topic| {
            modules.iter().find(|(about, _)| *about == topic).map(|(_, module)| module)
        };
        let of = |topic: Topic| -> Result<&Module> {
            find(topic).with_context(|| format!("no kernels about {topic:?}"))
        };
        let trunk = of(Topic::Trunk)?;
        let windows = WindowKernels::load(gpu, of(Topic::Windows)?, find(Topic::WindowsHopper))?;
        let early = find(Topic::TrunkHopper);
        Ok(Self {
            normalize_early: early.map(|module| module.function(EARLY_NORM)).transpose()?,
            normalize: trunk.function("trunk_normalize")?,
            gelu: trunk.function("trunk_gelu")?,
            pool: trunk.function("trunk_pool")?,
            windows,
        })
    }

    /// Whether a norm can begin before the kernel in front of it has ended.
    pub fn norms_begin_early(&self) -> bool {
        self.normalize_early.is_some()
    }

    /// Enqueues a layer normalisation: `out` f16 `[rows, columns]` of `x` f32, with `weight` and `bias` f32 `[columns]` and
    /// epsilon 10⁻⁶. Columns are a multiple of 8, 1152 at most. `ahead`, whole lines of 128 bytes, is brought into the L2 cache on the
    /// way: what the kernels behind it read for the first time. On Hopper it can begin early, behind a kernel; elsewhere it does not.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, other columns, or what the driver says.
    #[expect(clippy::too_many_arguments, reason = "five tensors, their sizes and the launch")]
    pub fn normalize(
        &self,
        x: &View,
        weight: &View,
        bias: &View,
        out: &View,
        ahead: Option<&View>,
        [rows, columns]: [usize; 2],
        begin: LaunchMode,
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
        let lines = ahead.map_or(0, View::len) / LINE;
        if let Some(ahead) = ahead {
            need_exactly(ahead, lines * LINE, LINE, "'ahead'")?;
        }
        let warps = THREADS as usize / 32;
        let grid = (blocks(rows, warps * rows_of_a_warp(columns))?, 1, 1);
        let args = [
            Arg::View(x),
            Arg::View(weight),
            Arg::View(bias),
            Arg::View(out),
            Arg::I32(int(rows, "the number of rows")?),
            Arg::I32(int(columns, "the number of columns")?),
            ahead.map_or(Arg::Null, Arg::View),
            Arg::I32(int(lines, "the number of lines")?),
        ];
        let normalize = match &self.normalize_early {
            // SAFETY: it waits before it touches a token, and what it prefetches is only read by anyone; callers enqueue it behind a kernel.
            Some(early) if begin == LaunchMode::Pdl => unsafe { early.with_mode(begin) },
            _ => self.normalize.clone(),
        };
        // SAFETY: the arguments are the kernel's own, and the tensors were measured above.
        Ok(unsafe { normalize.launch(Launch { grid, threads: THREADS }, &args, stream) }?)
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

    /// Attention inside windows of this shape.
    ///
    /// # Errors
    /// A shape that there is no kernel for, or too little shared memory on this GPU.
    pub fn windows(&self, shape: WindowShape) -> Result<Windows> {
        self.windows.of(shape)
    }

    /// The same with the kernels that any GPU has, where this one has its own.
    ///
    /// # Errors
    /// As [`Self::windows`].
    pub fn windows_of_any_gpu(&self, shape: WindowShape) -> Result<Windows> {
        self.windows.of_any_gpu(shape)
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

#[cfg(test)]
mod tests;
