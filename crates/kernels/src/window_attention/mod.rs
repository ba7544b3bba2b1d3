/*!
Window attention: all keys and values of a window and head in shared memory. The choice of the
kernel for a shape, and the division into blocks.
*/

mod hopper;
pub(crate) mod selftest;

use anyhow::{Context, Result, ensure};

use crate::constants::instance;
use crate::images::KernelModule;
use crate::kernel::arguments;
use crate::{blocks, int, need_exactly};
use cuda::module::{Function, Launch, LaunchMode};
use cuda::{Gpu, Stream, View};
use hopper::HopperKernels;

/// Bytes of an f16.
const F16: usize = 2;
/// f16 of 16 bytes, the unit of loads and stores.
const UNIT: usize = 8;
/// Alignment of vector loads.
const ALIGNMENT: usize = 16;
/// The largest side of a window: its keys and values lie in shared memory.
const MAX_WINDOW: usize = 16;
/// Small windows share a block of so many warps, if their keys and values fit into the shared
/// memory of every launch.
const SHARED_WARPS: usize = 4;
const SHARED_BYTES: usize = 48 << 10;
/// The smallest limit of a block's shared memory from sm 80 on (86, 89, 120), bytes.
const LEAST_SHARED: u32 = 99 << 10;

/// Padded columns of a head: each has two kernels.
const COLUMNS: [usize; 3] = [
    instance!("window_attention_56", "head") as usize,
    instance!("window_attention_72", "head") as usize,
    instance!("window_attention_96", "head") as usize,
];
const _: () = {
    assert!(instance!("window_attention_56_wide", "head") as usize == COLUMNS[0]);
    assert!(instance!("window_attention_72_wide", "head") as usize == COLUMNS[1]);
    assert!(instance!("window_attention_96_wide", "head") as usize == COLUMNS[2]);
    assert!(instance!("window_attention_56", "pitch") as usize == pitch(COLUMNS[0]));
    assert!(instance!("window_attention_72", "pitch") as usize == pitch(COLUMNS[1]));
    assert!(instance!("window_attention_96", "pitch") as usize == pitch(COLUMNS[2]));
};
/// The kernels by padded columns: warps of 16 queries at a time, and warps of 32, which read keys
/// and values half as often and need more registers.
const NARROW: [&str; 3] = ["window_attention_56", "window_attention_72", "window_attention_96"];
const WIDE: [&str; 3] =
    ["window_attention_56_wide", "window_attention_72_wide", "window_attention_96_wide"];

/// A window attention, of all heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowShape {
    /// Side of the map of tokens.
    pub grid: usize,
    /// Side of a window in that map, 16 at most. Windows begin at the top left; beyond the map they
    /// hold padding tokens.
    pub window: usize,
    /// Heads of a token.
    pub heads: usize,
    /// Columns of a head: a multiple of 8, 96 at most.
    pub depth: usize,
    /// Queries are the maximum over 2×2 tokens, so that the output map has half the side. Grid and
    /// window are even then.
    pub pooled: bool,
}

impl WindowShape {
    /// Input tokens.
    pub fn tokens(&self) -> usize {
        self.grid * self.grid
    }

    /// Output tokens.
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

    /// Windows along a side of the map; the last may reach beyond it.
    fn side(&self) -> usize {
        self.grid.div_ceil(self.window)
    }

    /// # Errors
    /// A shape that no kernel serves.
    fn check(&self) -> Result<()> {
        let Self { grid, window, heads, depth, pooled } = *self;
        let whole = grid > 0 && heads > 0 && (1..=MAX_WINDOW).contains(&window);
        ensure!(
            whole && depth > 0 && depth.is_multiple_of(UNIT) && depth <= COLUMNS[2],
            "window attention takes windows of 1 to {MAX_WINDOW} tokens a side and heads of 8, 16 \
             … {} columns; found {self:?}",
            COLUMNS[2]
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
pub(crate) struct WindowAttentionKernels {
    narrow: [Function; 3],
    wide: [Function; 3],
    processors: usize,
    hopper: Option<HopperKernels>,
}

impl WindowAttentionKernels {
    /// From the module for any GPU, and (`hopper`) the one for Hopper only.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn load(gpu: &Gpu, module: &KernelModule, hopper: Option<&KernelModule>) -> Result<Self> {
        let load = |name: &str, columns: usize| -> Result<Function> {
            let function = module.function(name)?;
            // The need of the largest window; GPUs with less shared memory refuse only that window.
            let most = pair_shared(MAX_WINDOW * MAX_WINDOW, columns);
            let most = u32::try_from(most).context("shared memory of a window")?;
            let whole = function.clone().with_shared(most);
            Ok(whole.or_else(|_| function.with_shared(LEAST_SHARED.min(most)))?)
        };
        let all = |[a, b, c]: [&str; 3]| -> Result<[Function; 3]> {
            Ok([load(a, COLUMNS[0])?, load(b, COLUMNS[1])?, load(c, COLUMNS[2])?])
        };
        let processors = gpu.multiprocessors()? as usize;
        let hopper = hopper.map(HopperKernels::load).transpose()?;
        Ok(Self { narrow: all(NARROW)?, wide: all(WIDE)?, processors, hopper })
    }

    /// As [`crate::HieraKernels::window_attention`].
    pub fn of(&self, shape: WindowShape) -> Result<WindowAttention> {
        shape.check()?;
        match &self.hopper {
            Some(kernels) if hopper::serves(&shape) => kernels.of(shape),
            _ => self.of_any_gpu(shape),
        }
    }

    /// As [`crate::HieraKernels::window_attention_any_gpu`].
    pub fn of_any_gpu(&self, shape: WindowShape) -> Result<WindowAttention> {
        shape.check()?;
        let (function, division) = self.divide(&shape)?;
        let launch = Launch {
            grid: (blocks(division.blocks(&shape), 1)?, 1, 1),
            threads: division.threads(),
        };
        let division = DivisionArgs::Any([
            i32::from(shape.pooled),
            int(division.together, "windows of a block")?,
            int(division.parts, "blocks of a window")?,
        ]);
        WindowAttention::new(shape, function, launch, division)
    }

    /// The kernel for a shape, with its shared memory, and the division into blocks.
    fn divide(&self, shape: &WindowShape) -> Result<(Function, Division)> {
        let at = COLUMNS.iter().position(|columns| shape.depth <= *columns);
        let at = at.context("heads that are too wide")?;
        let pair = pair_shared(shape.keys(), COLUMNS[at]);
        let kernels = |division: &Division| match division.tile {
            Tile::Narrow => &self.narrow[at],
            Tile::Wide => &self.wide[at],
        };
        let resident = |division: &Division| {
            let shared = u32::try_from(division.together * pair).ok()?;
            kernels(division).taking(shared).resident_blocks(division.threads()).ok()
        };
        let division = choose(shape, pair, self.processors, resident).with_context(|| {
            format!(
                "the GPU's blocks have too little shared memory for {shape:?}: {pair} bytes are \
                 needed; run the encoder without its trunk: segtrt build-engines --graphs encoder"
            )
        })?;
        let shared = u32::try_from(division.together * pair).context("shared memory")?;
        Ok((kernels(&division).taking(shared), division))
    }
}

/// The division for a GPU of so many multiprocessors; `resident` gives the blocks of a division
/// that one holds (none, or unknown). The first division, unless another processes a quarter more
/// queries at once.
fn choose(
    shape: &WindowShape,
    pair: usize,
    processors: usize,
    resident: impl Fn(&Division) -> Option<u32>,
) -> Option<Division> {
    let mut best: Option<(usize, Division)> = None;
    for division in Division::of(shape, pair) {
        let Some(held @ 1..) = resident(&division) else { continue };
        let each = division.blocks(shape).div_ceil(processors);
        let at_once = each.min(held as usize) * division.warps * division.tile.queries();
        if best.is_none_or(|(most, _)| at_once * 4 > most * 5) {
            best = Some((at_once, division));
        }
    }
    best.map(|(_, division)| division)
}

/// Window attention of one shape, ready to be launched.
#[derive(Clone, Debug)]
pub struct WindowAttention {
    shape: WindowShape,
    function: Function,
    launch: Launch,
    /// The kernel's arguments after its tensors: the shape's, and the division's.
    sizes: [i32; 6],
    division: DivisionArgs,
}

/// The last arguments of the kernels.
#[derive(Clone, Copy, Debug)]
enum DivisionArgs {
    /// For any GPU: whether queries are pooled, windows of a block, blocks of a window.
    Any([i32; 3]),
    /// For Hopper: the reciprocals of a window's side and of the last window's width.
    Hopper([i32; 2]),
}

impl WindowAttention {
    fn new(
        shape: WindowShape,
        function: Function,
        launch: Launch,
        division: DivisionArgs,
    ) -> Result<Self> {
        int(3 * shape.tokens() * shape.columns(), "the number of elements")?;
        let all = [
            (shape.grid, "the side of the map"),
            (shape.window, "the side of a window"),
            (shape.grid / shape.window, "windows inside the map"),
            (shape.side(), "windows along a side"),
            (shape.heads, "the number of heads"),
            (shape.depth, "the columns of a head"),
        ];
        let mut sizes = [0; 6];
        for (to, (number, what)) in sizes.iter_mut().zip(all) {
            *to = int(number, what)?;
        }
        Ok(Self { shape, function, launch, sizes, division })
    }

    /// Whether the kernel is for Hopper only.
    pub fn is_hopper(&self) -> bool {
        self.function.name().ends_with("_hopper")
    }

    /// Enqueues `out` f16 `[output tokens, heads depth]` from `qkv` f16 `[tokens, 3 heads depth]`
    /// (queries scaled); padding tokens have `bias` f16 `[3 heads depth]`. PDL only after a kernel.
    /// No allocation on the device; may be recorded.
    ///
    /// # Errors
    /// Views of another size or unaligned, or an error of the driver.
    pub(crate) fn enqueue(
        &self,
        [qkv, bias, out]: [&View; 3],
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let Self { shape, function, launch, sizes, division } = self;
        let columns = shape.columns();
        need_exactly(qkv, F16 * 3 * shape.tokens() * columns, ALIGNMENT, "'qkv'")?;
        need_exactly(bias, F16 * 3 * columns, ALIGNMENT, "'qkv.bias'")?;
        need_exactly(out, F16 * shape.tokens_out() * columns, ALIGNMENT, "'a'")?;
        let args = match division {
            DivisionArgs::Any(division) => arguments!(
                [NARROW[0], NARROW[1], NARROW[2], "window_attention_*_wide"];
                Views[3]([qkv, bias, out]),
                Ints[6](*sizes),
                Ints[3](*division),
            ),
            DivisionArgs::Hopper(division) => arguments!(
                ["window_attention_*_hopper"];
                Views[3]([qkv, bias, out]),
                Ints[6](*sizes),
                Ints[2](*division),
            ),
        };
        // SAFETY: the arguments are the kernel's own, the tensors were measured above, and the
        // launch gives every pair its shared memory and a block for each part of its queries, as
        // the kernel requires. It waits before it reads or writes, and callers that ask for PDL
        // enqueue it after a kernel.
        Ok(unsafe { function.with_mode(mode).launch(*launch, &args, stream) }?)
    }
}

/// Bytes of a row of keys or values in shared memory: an odd number of 16-byte units, so that
/// `ldmatrix` has no bank conflicts.
const fn pitch(columns: usize) -> usize {
    ((columns / UNIT) | 1) * UNIT * F16
}

/// Shared memory of a window and head, bytes: keys and values.
fn pair_shared(keys: usize, columns: usize) -> usize {
    2 * keys.next_multiple_of(16) * pitch(columns)
}

/// Queries of a warp at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tile {
    /// 16 queries: more warps for a window, so that its loads are issued sooner.
    Narrow,
    /// 32 queries: half as much is read from shared memory.
    Wide,
}

impl Tile {
    fn queries(self) -> usize {
        match self {
            Self::Narrow => instance!("window_attention_96", "queries") as usize,
            Self::Wide => instance!("window_attention_96_wide", "queries") as usize,
        }
    }
}

/// The division of a shape into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    tile: Tile,
    /// Of a block.
    warps: usize,
    /// Windows of a block, one warp each; or 1.
    together: usize,
    /// Blocks that share the queries of a window; each loads all keys and values.
    parts: usize,
}

impl Division {
    /// The candidates, the one that reads least first. A window of many queries has a warp for each
    /// 32 of them, or half as many warps (several such blocks fill the registers of a
    /// multiprocessor), or two blocks of half as many.
    fn of(shape: &WindowShape, pair: usize) -> Vec<Self> {
        let one = |tile: Tile| {
            let warps = shape.queries().div_ceil(tile.queries());
            Self { tile, warps, together: 1, parts: 1 }
        };
        let (narrow, wide) = (one(Tile::Narrow), one(Tile::Wide));
        if narrow.warps == 1 {
            let together = SHARED_WARPS.min(SHARED_BYTES / pair).max(1);
            return vec![Self { warps: together, together, ..narrow }];
        }
        if narrow.warps <= SHARED_WARPS {
            return vec![narrow, wide];
        }
        let half = Self { warps: wide.warps.div_ceil(2), ..wide };
        vec![wide, half, Self { parts: 2, ..half }]
    }

    /// Blocks of a launch.
    fn blocks(self, shape: &WindowShape) -> usize {
        shape.side().pow(2).div_ceil(self.together) * shape.heads * self.parts
    }

    fn threads(self) -> u32 {
        // 8 warps at most.
        (32 * self.warps) as u32
    }
}

#[cfg(test)]
mod tests;
