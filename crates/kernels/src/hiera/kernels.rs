/*!
Launches of a block's kernels besides GEMMs and global attention: LayerNorm, GELU, max pooling of
the skip path, and window attention.

Tokens lie in image order throughout. Window attention gathers its tokens
(`cuda/window_attention.cu`): nothing partitions, pads or joins windows in memory.
*/

use anyhow::{Context, Result, ensure};

use crate::constants::{constant, threads};
use crate::images::{self, KernelModule, Topic};
use crate::kernel::arguments;
use crate::window_attention::{WindowAttention, WindowAttentionKernels, WindowShape};
use crate::{blocks, int, need_exactly};
use cuda::module::{Function, Launch};
use cuda::{Gpu, LaunchMode, Stream, View};

/// The LayerNorm with programmatic dependent launch: for Hopper only.
pub(super) const LAYERNORM_PDL: &str = "hiera_layernorm_hopper";
/// Threads of a block of all these kernels.
const THREADS: u32 = threads!("hiera_layernorm");
const _: () = {
    assert!(threads!(LAYERNORM_PDL) == THREADS);
    assert!(threads!("hiera_gelu") == THREADS);
    assert!(threads!("hiera_max_pool") == THREADS);
};
/// Bytes of an f16 and of an f32.
const F16: usize = 2;
const F32: usize = 4;
/// f16 of 16 bytes, the unit of loads and stores.
const UNIT: usize = 8;
/// Bytes of a prefetch.
const LINE: usize = 128;
/// Alignment of vector loads.
const ALIGNMENT: usize = 16;
/// Columns of a unit of a row, which a warp keeps in registers; rows have up to `MOST_UNITS`.
const UNIT_COLUMNS: usize = constant!(Hiera, "UNIT_COLUMNS") as usize;
const MAX_COLUMNS: usize = constant!(Hiera, "MOST_UNITS") as usize * UNIT_COLUMNS;
/// Rows that a warp normalises at once, by the units of a row at the most.
const ROWS_OF_A_WARP: [(usize, usize); 2] = [
    (constant!(Hiera, "SHORT_UNITS") as usize, constant!(Hiera, "SHORT_ROWS") as usize),
    (constant!(Hiera, "MEDIUM_UNITS") as usize, constant!(Hiera, "MEDIUM_ROWS") as usize),
];

/// The loaded kernels. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HieraKernels {
    layernorm: Function,
    /// With programmatic dependent launch: Hopper only.
    layernorm_pdl: Option<Function>,
    gelu: Function,
    max_pool: Function,
    window_attention: WindowAttentionKernels,
}

impl HieraKernels {
    /// Loads the kernels, for sm 80 and newer; on Hopper also those for Hopper, if the driver takes
    /// them.
    ///
    /// # Errors
    /// The driver refuses the PTX, or the GPU is older.
    pub fn load(gpu: &Gpu) -> Result<Self> {
        if gpu.runs_hopper_kernels() {
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
        let all = [
            Topic::Hiera,
            Topic::WindowAttention,
            Topic::WindowAttentionHopper,
            Topic::HieraHopper,
        ];
        let (modules, form) = images::load(gpu, if hopper { &all } else { &all[..2] })?;
        log::debug!("the trunk's kernels from {form}");
        let find = |topic: Topic| modules.iter().find(|module| module.topic == topic);
        let of = |topic: Topic| -> Result<&KernelModule> {
            find(topic).with_context(|| format!("no kernels about {topic:?}"))
        };
        let trunk = of(Topic::Hiera)?;
        let window_attention = WindowAttentionKernels::load(
            gpu,
            of(Topic::WindowAttention)?,
            find(Topic::WindowAttentionHopper),
        )?;
        let pdl = find(Topic::HieraHopper);
        Ok(Self {
            layernorm_pdl: pdl.map(|module| module.function(LAYERNORM_PDL)).transpose()?,
            layernorm: trunk.function("hiera_layernorm")?,
            gelu: trunk.function("hiera_gelu")?,
            max_pool: trunk.function("hiera_max_pool")?,
            window_attention,
        })
    }

    /// Whether a LayerNorm can begin before the previous kernel has ended.
    pub fn layernorm_has_pdl(&self) -> bool {
        self.layernorm_pdl.is_some()
    }

    /// Enqueues a LayerNorm: `out` f16 `[rows, columns]` of `x` f32, with `weight` and `bias` f32
    /// `[columns]` and epsilon 10⁻⁶. Columns are a multiple of 8, 1152 at most. It prefetches
    /// `prefetch`, whole lines of 128 bytes, into the L2 cache: data that the next kernels read for
    /// the first time. Only Hopper supports PDL, after a kernel.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, other columns, or what the driver says.
    #[expect(clippy::too_many_arguments, reason = "five tensors, their sizes and the launch")]
    pub(crate) fn layernorm(
        &self,
        x: &View,
        weight: &View,
        bias: &View,
        out: &View,
        prefetch: Option<&View>,
        [rows, columns]: [usize; 2],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        ensure!(
            rows > 0 && columns > 0 && columns.is_multiple_of(UNIT) && columns <= MAX_COLUMNS,
            "LayerNorm takes rows of 8, 16 … {MAX_COLUMNS} columns, found {rows} of {columns}"
        );
        need_exactly(x, F32 * rows * columns, ALIGNMENT, "'x'")?;
        need_exactly(weight, F32 * columns, ALIGNMENT, "'weight'")?;
        need_exactly(bias, F32 * columns, ALIGNMENT, "'bias'")?;
        need_exactly(out, F16 * rows * columns, ALIGNMENT, "'n'")?;
        let lines = prefetch.map_or(0, View::len) / LINE;
        if let Some(prefetch) = prefetch {
            need_exactly(prefetch, lines * LINE, LINE, "'prefetch'")?;
        }
        let warps = THREADS as usize / 32;
        let grid = (blocks(rows, warps * rows_of_a_warp(columns))?, 1, 1);
        let args = arguments!(
            ["hiera_layernorm", LAYERNORM_PDL];
            View(x),
            View(weight),
            View(bias),
            View(out),
            I32(int(rows, "the number of rows")?),
            I32(int(columns, "the number of columns")?),
            Optional(prefetch),
            I32(int(lines, "the number of lines")?),
        );
        let layernorm = match &self.layernorm_pdl {
            // SAFETY: it waits before it touches a token, and nothing writes the memory that it
            // prefetches; callers enqueue it after a kernel.
            Some(pdl) if mode == LaunchMode::Pdl => unsafe { pdl.with_mode(mode) },
            _ => self.layernorm.clone(),
        };
        // SAFETY: the arguments are the kernel's own, and the tensors were measured above.
        Ok(unsafe { layernorm.launch(Launch { grid, threads: THREADS }, &args, stream) }?)
    }

    /// Enqueues `x` ← x Φ(x), f16, in place; `elements` is a multiple of 8.
    ///
    /// # Errors
    /// As [`Self::layernorm`].
    pub fn gelu(&self, x: &View, elements: usize, stream: &Stream) -> Result<()> {
        ensure!(
            elements > 0 && elements.is_multiple_of(UNIT),
            "the activation takes elements in eights, found {elements}"
        );
        need_exactly(x, F16 * elements, ALIGNMENT, "'h'")?;
        let units = elements / UNIT;
        let args = arguments!(["hiera_gelu"]; View(x), I32(int(units, "the number of elements")?));
        let launch = Launch { grid: (blocks(units, THREADS as usize)?, 1, 1), threads: THREADS };
        // SAFETY: the arguments are the kernel's own, and the tensor was measured above.
        Ok(unsafe { self.gelu.launch(launch, &args, stream) }?)
    }

    /// Enqueues the maximum over 2×2 tokens: `x` f32 `[grid_out², columns]` of `s` f16 `[4
    /// grid_out², columns]`. Columns are a multiple of 8. PDL only after a kernel.
    ///
    /// # Errors
    /// As [`Self::layernorm`].
    pub(crate) fn max_pool(
        &self,
        s: &View,
        x: &View,
        [grid_out, columns]: [usize; 2],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        ensure!(
            grid_out > 0 && columns > 0 && columns.is_multiple_of(UNIT),
            "pooling takes columns in eights, found {grid_out} x {grid_out} tokens of {columns}"
        );
        let elements = grid_out * grid_out * columns;
        need_exactly(s, F16 * 4 * elements, ALIGNMENT, "'s'")?;
        need_exactly(x, F32 * elements, ALIGNMENT, "'x'")?;
        let args = arguments!(
            ["hiera_max_pool"];
            View(s),
            View(x),
            I32(int(grid_out, "the side of the map")?),
            I32(int(columns, "the number of columns")?),
        );
        int(elements, "the number of elements")?;
        let grid = (blocks(elements / UNIT, THREADS as usize)?, 1, 1);
        // SAFETY: it waits before it reads or writes a token; callers that ask for PDL enqueue it
        // after a kernel.
        let max_pool = unsafe { self.max_pool.with_mode(mode) };
        // SAFETY: the arguments are the kernel's own, and the tensors were measured above.
        Ok(unsafe { max_pool.launch(Launch { grid, threads: THREADS }, &args, stream) }?)
    }

    /// Window attention of this shape.
    ///
    /// # Errors
    /// A shape that no kernel serves, or too little shared memory on this GPU.
    pub fn window_attention(&self, shape: WindowShape) -> Result<WindowAttention> {
        self.window_attention.of(shape)
    }

    /// The same with the kernels for any GPU, also on Hopper.
    ///
    /// # Errors
    /// As [`Self::window_attention`].
    pub fn window_attention_any_gpu(&self, shape: WindowShape) -> Result<WindowAttention> {
        self.window_attention.of_any_gpu(shape)
    }
}

/// Rows that a warp normalises at once, so that enough loads are in flight for short rows: the
/// source's function of that name.
fn rows_of_a_warp(columns: usize) -> usize {
    let units = columns.div_ceil(UNIT_COLUMNS);
    let short = ROWS_OF_A_WARP.iter().find(|(most, _)| units <= *most);
    short.map_or(1, |(_, rows)| *rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warp_normalises_more_than_one_short_row() {
        let rows = [(8, 4), (128, 4), (136, 2), (384, 2), (392, 1), (MAX_COLUMNS, 1)];
        for (columns, rows) in rows {
            assert_eq!(rows_of_a_warp(columns), rows, "{columns}");
        }
        assert_eq!(MAX_COLUMNS, 1152);
    }
}
