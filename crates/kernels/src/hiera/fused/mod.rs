/*!
A whole block of Hiera in one launch: of the first stage (`cuda/hiera_block.cu`) or of the second
(`cuda/hiera_block_windows.cu`), whose tokens would otherwise go through memory ten times. Of the
block between them the attention half (`transition`).

The kernel has weights of its own, in the order of its use. The kernels one by one stay: they serve
other sizes, and autotuning compares both.
*/

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use crate::constants::{constant, instance, threads};
use crate::device_weights::DeviceWeights;
use crate::images::{self, Topic};
use crate::kernel::arguments;
use crate::{blocks, int, need_exactly};
use cuda::module::{Function, Launch};
use cuda::{Gpu, LaunchMode, Stream, View};
use vos::bundle::trunk::{HieraBlock, HieraWeights};

mod packed;
mod places;
mod transition;
mod transition_packed;

pub(super) use places::FusedPlaces;
use transition::load as load_transitions;
pub(super) use transition::{FusedTransition, TRANSITIONS};

/// The first stage: side of a window, windows of a block of threads, and its threads.
const WINDOW: usize = constant!(HieraBlock96, "WINDOW") as usize;
const WINDOWS: usize = constant!(HieraBlock96, "WINDOWS") as usize;
const THREADS: u32 = threads!("hiera_block_96");
/// The second stage: side of a window, which is a warp's, and the most warps of a block.
const SMALL_WINDOW: usize = constant!(HieraBlock192, "SMALL_WINDOW") as usize;
const MOST_WARPS: usize = constant!(HieraBlock192, "MOST_WARPS") as usize;
/// The fewest: the fewer, the more blocks read all weights.
const LEAST_WARPS: usize = 2;
const WARP: u32 = 32;
/// Bytes of a prefetch.
const LINE: usize = constant!(HieraBlock96, "LINE") as usize;
/// Bytes of an f16 and of an f32.
const F16: usize = 2;
const F32: usize = 4;
/// What vector loads need.
const ALIGNMENT: usize = 16;

/// What an instance of the kernel serves.
#[derive(Debug)]
pub(super) struct Shape {
    pub columns: usize,
    pub heads: usize,
    /// Side of a window.
    pub window: usize,
    pub kernel: &'static str,
    pub topic: Topic,
    /// Bytes of a block's shared memory.
    shared: u32,
}

/// The first stages of tiny and small, of base+, and of large; the second ones of tiny and small,
/// and of base+. For large's 288 columns the kernel spilled registers.
pub(super) const SHAPES: [Shape; 5] = [
    Shape {
        columns: 96,
        heads: 1,
        window: WINDOW,
        kernel: "hiera_block_96",
        topic: Topic::HieraBlock96,
        shared: instance!("hiera_block_96", "shared"),
    },
    Shape {
        columns: 112,
        heads: 2,
        window: WINDOW,
        kernel: "hiera_block_112",
        topic: Topic::HieraBlock112,
        shared: instance!("hiera_block_112", "shared"),
    },
    Shape {
        columns: 144,
        heads: 2,
        window: WINDOW,
        kernel: "hiera_block_144",
        topic: Topic::HieraBlock144,
        shared: instance!("hiera_block_144", "shared"),
    },
    Shape {
        columns: 192,
        heads: 2,
        window: SMALL_WINDOW,
        kernel: "hiera_block_192",
        topic: Topic::HieraBlock192,
        shared: instance!("hiera_block_192", "shared"),
    },
    Shape {
        columns: 224,
        heads: 4,
        window: SMALL_WINDOW,
        kernel: "hiera_block_224",
        topic: Topic::HieraBlock224,
        shared: instance!("hiera_block_224", "shared"),
    },
];

const _: () = assert!(threads!("hiera_block_112") == THREADS);
const _: () = assert!(threads!("hiera_block_144") == THREADS);
const _: () = assert!(threads!("hiera_block_192") == WARP * MOST_WARPS as u32);
const _: () = assert!(threads!("hiera_block_224") == WARP * MOST_WARPS as u32);

impl Shape {
    /// The instance that serves a block: its windows fill the map.
    pub fn of(block: &HieraBlock) -> Option<&'static Self> {
        let HieraBlock { dim, dim_out, heads, grid, window, pooled } = *block;
        let fits = |shape: &&Self| {
            shape.columns == dim
                && shape.heads == heads
                && shape.window == window
                && grid.is_multiple_of(window)
        };
        SHAPES.iter().find(fits).filter(|_| !pooled && dim == dim_out)
    }

    /// Whether a kernel is this instance.
    fn is(&self, kernel: &FusedKernel) -> bool {
        self.kernel == kernel.shape.kernel
    }

    /// Whether its windows are the small ones. Each is a warp's, and a launch chooses the warps of a
    /// block.
    pub fn has_small_windows(&self) -> bool {
        self.window == SMALL_WINDOW
    }

    /// Windows of a block of threads, where so many are to be computed.
    fn windows_together(&self, windows: usize, multiprocessors: usize) -> usize {
        if self.has_small_windows() { warps(windows, multiprocessors) } else { WINDOWS }
    }

    /// Threads of a block with these windows.
    fn threads(&self, windows: usize) -> Result<u32> {
        if self.has_small_windows() { Ok(WARP * u32::try_from(windows)?) } else { Ok(THREADS) }
    }
}

/// Warps of a block, with a window each: the fewest where the busiest multiprocessor then has at
/// most half as many windows, of a small map.
fn warps(windows: usize, multiprocessors: usize) -> usize {
    let busiest = |warps: usize| windows.div_ceil(warps * multiprocessors.max(1)) * warps;
    if 2 * busiest(LEAST_WARPS) <= busiest(MOST_WARPS) { LEAST_WARPS } else { MOST_WARPS }
}

/// A loaded instance, shared by all blocks that it serves.
#[derive(Debug)]
pub(super) struct FusedKernel {
    pub shape: &'static Shape,
    function: Function,
    /// Whether it computes its blocks.
    pub used: Cell<bool>,
}

/// A block with its weights.
#[derive(Debug)]
pub(super) struct FusedBlock {
    pub kernel: Rc<FusedKernel>,
    units: View,
    vectors: View,
    grid: usize,
    /// Of a block of threads.
    windows: usize,
}

impl FusedKernel {
    /// # Errors
    /// The driver refuses the PTX, or the GPU's blocks have too little shared memory.
    pub fn load(gpu: &Gpu, shape: &'static Shape) -> Result<Self> {
        let (modules, form) = images::load(gpu, &[shape.topic])?;
        log::debug!("{} from {form}", shape.kernel);
        let module = modules.first().context("a topic without a module")?;
        let function = module.function(shape.kernel)?.with_shared(shape.shared)?;
        Ok(Self { shape, function, used: Cell::new(true) })
    }
}

/// The instances that serve blocks of a trunk, as `shape_of` says; `wanted` says of a kernel's name
/// whether it is loaded at all. A kernel that cannot be loaded serves none, with a warning.
fn load_kernels(
    gpu: &Gpu,
    shapes: &'static [Shape],
    blocks: &[HieraBlock],
    shape_of: impl Fn(&HieraBlock) -> Option<&'static Shape>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Rc<FusedKernel>> {
    let mut kernels: Vec<Rc<FusedKernel>> = Vec::new();
    for shape in shapes {
        let serves =
            |block: &HieraBlock| shape_of(block).is_some_and(|of| of.kernel == shape.kernel);
        if wanted(shape.kernel) && blocks.iter().any(serves) {
            match FusedKernel::load(gpu, shape) {
                Ok(kernel) => kernels.push(Rc::new(kernel)),
                Err(error) => log::warn!(
                    "blocks cannot be computed by {}, several kernels compute them: {error:#}",
                    shape.kernel
                ),
            }
        }
    }
    kernels
}

/// The blocks of a trunk that a kernel serves, each at its place; `wanted` says of a kernel's name
/// whether it is loaded at all.
///
/// # Errors
/// Weights of other sizes, too little memory, or another error of the driver.
fn load(
    gpu: &Gpu,
    blocks: &[HieraBlock],
    weights: &[HieraWeights],
    wanted: impl Fn(&str) -> bool,
    stream: &Stream,
) -> Result<Vec<Option<FusedBlock>>> {
    let kernels = load_kernels(gpu, &SHAPES, blocks, Shape::of, wanted);
    let load = |(at, block): (usize, &HieraBlock)| -> Result<Option<FusedBlock>> {
        let shape = Shape::of(block);
        let serves = |kernel: &&Rc<FusedKernel>| shape.is_some_and(|of| of.is(kernel));
        let (Some(kernel), Some(own)) = (kernels.iter().find(serves), weights.get(at)) else {
            return Ok(None);
        };
        let next = weights.get(at + 1);
        FusedBlock::new(gpu, Rc::clone(kernel), block.grid, own, next, stream).map(Some)
    };
    blocks.iter().enumerate().map(load).collect()
}

impl FusedBlock {
    /// Uploads the weights of a block, whose map has `grid` tokens a side, with the first norm of
    /// the `next` one.
    ///
    /// # Errors
    /// Weights of other sizes, too little memory, or another error of the driver.
    pub fn new(
        gpu: &Gpu,
        kernel: Rc<FusedKernel>,
        grid: usize,
        weights: &HieraWeights,
        next: Option<&HieraWeights>,
        stream: &Stream,
    ) -> Result<Self> {
        let shape = kernel.shape;
        let units = packed::units(shape, weights)?;
        let vectors = packed::vectors(shape.columns, weights, next.map(|next| next.norm1))?;
        let tensors = [("units".to_owned(), &units[..]), ("vectors".to_owned(), &vectors[..])];
        let loaded = DeviceWeights::upload(gpu, &tensors, stream)
            .with_context(|| format!("the weights of {}", shape.kernel))?;
        int(grid * grid * shape.columns, "the number of the tokens' elements")?;
        let all = (grid / shape.window).pow(2);
        let windows = shape.windows_together(all, gpu.multiprocessors()? as usize);
        let (units, vectors) = (loaded.one("units")?, loaded.one("vectors")?);
        Ok(Self { units, vectors, grid, windows, kernel })
    }

    /// Its weights, which an earlier kernel may prefetch.
    pub fn units(&self) -> &View {
        &self.units
    }

    /// Enqueues the block: `x` f32 `[grid, grid, columns]` in place, and `next` f16, the next
    /// block's first norm of it, if anyone needs that. It asks the L2 cache for `later`, weights of
    /// later kernels. With programmatic dependent launch only after a kernel. No allocation; may be
    /// recorded.
    ///
    /// # Errors
    /// Views of other sizes, or those of the driver.
    pub fn enqueue(
        &self,
        x: &View,
        next: Option<&View>,
        later: Option<&View>,
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let FusedKernel { shape, function, .. } = &*self.kernel;
        let elements = self.grid * self.grid * shape.columns;
        need_exactly(x, F32 * elements, ALIGNMENT, "a block's tokens")?;
        if let Some(next) = next {
            need_exactly(next, F16 * elements, ALIGNMENT, "the next block's normalised tokens")?;
        }
        let lines = later.map_or(0, View::len) / LINE;
        let windows = (self.grid / shape.window).pow(2);
        ensure!(windows > 0, "a block of {0} x {0} tokens has no window", self.grid);
        let args = arguments!(
            ["hiera_block_*"];
            View(x),
            View(&self.units),
            View(&self.vectors),
            Optional(next),
            Optional(later),
            I32(int(lines, "the number of lines")?),
            I32(int(self.grid, "the side of the map")?),
        );
        let grid = (blocks(windows, self.windows)?, 1, 1);
        let launch = Launch { grid, threads: shape.threads(self.windows)? };
        // SAFETY: it waits before it touches a token; nothing writes the weights that it loads
        // earlier, and callers that ask for PDL enqueue it after a kernel.
        let function = unsafe { function.with_mode(mode) };
        // SAFETY: the arguments are the kernel's own. Tokens were measured above, weights when they
        // were packed; whole lines of `later` are prefetched, which is no access.
        Ok(unsafe { function.launch(launch, &args, stream) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_windows_without_pooling_are_served() {
        let block =
            HieraBlock { dim: 112, dim_out: 112, heads: 2, grid: 192, window: 8, pooled: false };
        let kernel = |block: &HieraBlock| Shape::of(block).map(|shape| shape.kernel);
        assert_eq!(kernel(&block), Some("hiera_block_112"));
        let large = HieraBlock { dim: 144, dim_out: 144, ..block };
        assert_eq!(kernel(&large), Some("hiera_block_144"));
        for other in [
            HieraBlock { grid: 180, ..block },
            HieraBlock { window: 7, ..block },
            HieraBlock { window: 0, ..block },
            HieraBlock { heads: 1, ..block },
            HieraBlock { pooled: true, ..block },
            HieraBlock { dim_out: 224, ..block },
        ] {
            assert_eq!(kernel(&other), None, "{other:?}");
        }
        assert!(WINDOWS * WINDOW * WINDOW == THREADS as usize, "a thread for each token");
        let second =
            HieraBlock { dim: 224, dim_out: 224, heads: 4, grid: 128, window: 4, pooled: false };
        assert_eq!(kernel(&second), Some("hiera_block_224"));
        for other in [
            HieraBlock { grid: 126, ..second },
            HieraBlock { window: 8, ..second },
            HieraBlock { pooled: true, ..second },
            HieraBlock { dim: 288, dim_out: 288, ..second },
        ] {
            assert_eq!(kernel(&other), None, "{other:?}");
        }
    }

    #[test]
    fn a_small_map_has_blocks_of_fewer_warps() {
        // At 1024 and 512 pixels on an H200, an RTX 3090 and an Orin; one window.
        for (windows, multiprocessors, wanted) in [
            (1024, 132, 4),
            (256, 132, 2),
            (1024, 82, 4),
            (256, 82, 4),
            (1024, 16, 4),
            (256, 16, 4),
            (1, 132, 2),
            (1, 0, 2),
        ] {
            assert_eq!(warps(windows, multiprocessors), wanted, "{windows} {multiprocessors}");
        }
    }
}
