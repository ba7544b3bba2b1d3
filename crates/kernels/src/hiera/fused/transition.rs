/*!
The attention half of the block that begins the second stage in one launch
(`cuda/hiera_transition.cu`): all that follows its first norm, and the second one. The kernels one
by one write queries, keys and values of all tokens to memory, six times their bytes; first norm and
MLP are left to them.
*/

use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::{ALIGNMENT, F16, F32, FusedKernel, LINE, Shape, THREADS, WINDOW};
use super::{load_kernels, transition_packed};
use crate::constants::{constant, instance, threads};
use crate::device_weights::DeviceWeights;
use crate::images::Topic;
use crate::kernel::arguments;
use crate::{blocks, int, need_exactly};
use cuda::module::Launch;
use cuda::{Gpu, LaunchMode, Stream, View};
use vos::bundle::trunk::{HieraBlock, HieraWeights};

/// Windows of a block of threads.
const WINDOWS: usize = constant!(HieraTransition96, "TRANSITION_WINDOWS") as usize;
/// Side of the tokens of which a pooled one is made.
const POOLED: usize = constant!(HieraTransition96, "POOLED") as usize;

/// Columns that come, and heads of the second stage: tiny and small, base+, and large.
pub(in crate::hiera) const TRANSITIONS: [Shape; 3] = [
    Shape {
        columns: 96,
        heads: 2,
        window: WINDOW,
        kernel: "hiera_transition_96",
        topic: Topic::HieraTransition96,
        shared: instance!("hiera_transition_96", "shared"),
    },
    Shape {
        columns: 112,
        heads: 4,
        window: WINDOW,
        kernel: "hiera_transition_112",
        topic: Topic::HieraTransition112,
        shared: instance!("hiera_transition_112", "shared"),
    },
    Shape {
        columns: 144,
        heads: 4,
        window: WINDOW,
        kernel: "hiera_transition_144",
        topic: Topic::HieraTransition144,
        shared: instance!("hiera_transition_144", "shared"),
    },
];

const _: () = {
    assert!(threads!("hiera_transition_96") == THREADS);
    assert!(threads!("hiera_transition_112") == THREADS);
    assert!(threads!("hiera_transition_144") == THREADS);
};

/// The attention half of a block with its weights.
#[derive(Debug)]
pub(in crate::hiera) struct FusedTransition {
    pub kernel: Rc<FusedKernel>,
    units: View,
    /// Side of the map that comes.
    grid: usize,
}

/// The instance that serves a block: one that pools windows of 8 x 8 tokens, which fill the map.
fn shape_of(block: &HieraBlock) -> Option<&'static Shape> {
    let HieraBlock { dim, dim_out, heads, grid, window, pooled } = *block;
    let served =
        pooled && dim_out == 2 * dim && window == WINDOW && grid > 0 && grid.is_multiple_of(WINDOW);
    TRANSITIONS.iter().find(|shape| served && shape.columns == dim && shape.heads == heads)
}

/// The blocks of a trunk whose attention half a kernel serves, each at its place, as
/// [`super::load`].
///
/// # Errors
/// Weights of other sizes, too little memory, or another error of the driver.
pub(super) fn load(
    gpu: &Gpu,
    blocks: &[HieraBlock],
    weights: &[HieraWeights],
    wanted: impl Fn(&str) -> bool,
    stream: &Stream,
) -> Result<Vec<Option<FusedTransition>>> {
    let kernels = load_kernels(gpu, &TRANSITIONS, blocks, shape_of, wanted);
    let load = |(at, block): (usize, &HieraBlock)| {
        let shape = shape_of(block);
        let serves = |kernel: &&Rc<FusedKernel>| shape.is_some_and(|of| of.is(kernel));
        let (Some(kernel), Some(own)) = (kernels.iter().find(serves), weights.get(at)) else {
            return Ok(None);
        };
        FusedTransition::new(gpu, Rc::clone(kernel), block.grid, own, stream).map(Some)
    };
    blocks.iter().enumerate().map(load).collect()
}

impl FusedTransition {
    /// Uploads the weights of a block, whose map has `grid` tokens a side.
    ///
    /// # Errors
    /// Weights of other sizes, too little memory, or another error of the driver.
    pub fn new(
        gpu: &Gpu,
        kernel: Rc<FusedKernel>,
        grid: usize,
        weights: &HieraWeights,
        stream: &Stream,
    ) -> Result<Self> {
        let shape = kernel.shape;
        let units = transition_packed::units(shape, weights)?;
        let loaded = DeviceWeights::upload(gpu, &[("units".to_owned(), &units[..])], stream)
            .with_context(|| format!("the weights of {}", shape.kernel))?;
        int(grid * grid * shape.columns, "the number of the tokens' elements")?;
        Ok(Self { units: loaded.one("units")?, grid, kernel })
    }

    /// Its weights, which an earlier kernel may prefetch.
    pub fn units(&self) -> &View {
        &self.units
    }

    /// Enqueues it: `residual` f32 `[grid / 2, grid / 2, 2 columns]` and its norm `next` f16, of the
    /// same shape, from `normed` f16 `[grid, grid, columns]`, which may share no memory with the
    /// results. It asks the L2 cache for `later`, weights of later kernels. With programmatic
    /// dependent launch only after a kernel. No allocation; may be recorded.
    ///
    /// # Errors
    /// Views of other sizes, or those of the driver.
    pub fn enqueue(
        &self,
        [normed, residual, next]: [&View; 3],
        later: Option<&View>,
        mode: LaunchMode,
        stream: &Stream,
    ) -> Result<()> {
        let shape = self.kernel.shape;
        let tokens = self.grid * self.grid;
        let elements = tokens / (POOLED * POOLED) * 2 * shape.columns;
        need_exactly(normed, F16 * tokens * shape.columns, ALIGNMENT, "a block's normed tokens")?;
        need_exactly(residual, F32 * elements, ALIGNMENT, "a block's tokens")?;
        need_exactly(next, F16 * elements, ALIGNMENT, "the second norm")?;
        let lines = later.map_or(0, View::len) / LINE;
        let windows = (self.grid / WINDOW).pow(2);
        ensure!(windows > 0, "a block of {0} x {0} tokens has no window", self.grid);
        let args = arguments!(
            ["hiera_transition_*"];
            View(normed),
            View(&self.units),
            View(residual),
            View(next),
            Optional(later),
            I32(int(lines, "the number of lines")?),
            I32(int(self.grid, "the side of the map")?),
        );
        let launch = Launch { grid: (blocks(windows, WINDOWS)?, 1, 1), threads: THREADS };
        // SAFETY: it waits before it touches a token; nothing writes the weights that it loads
        // earlier, and callers that ask for PDL enqueue it after a kernel.
        let function = unsafe { self.kernel.function.with_mode(mode) };
        // SAFETY: the arguments are the kernel's own. Tokens were measured above, weights when they
        // were packed; whole lines of `later` are prefetched, which is no access.
        Ok(unsafe { function.launch(launch, &args, stream) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_windows_that_are_pooled_are_served() {
        let block =
            HieraBlock { dim: 112, dim_out: 224, heads: 4, grid: 192, window: 8, pooled: true };
        let kernel = |block: &HieraBlock| shape_of(block).map(|shape| shape.kernel);
        assert_eq!(kernel(&block), Some("hiera_transition_112"));
        for other in [
            HieraBlock { grid: 180, ..block },
            HieraBlock { window: 4, ..block },
            HieraBlock { window: 0, ..block },
            HieraBlock { heads: 2, ..block },
            HieraBlock { pooled: false, ..block },
            HieraBlock { dim_out: 112, ..block },
        ] {
            assert_eq!(kernel(&other), None, "{other:?}");
        }
        assert!(WINDOWS * 32 == THREADS as usize, "a warp has a window");
    }
}
