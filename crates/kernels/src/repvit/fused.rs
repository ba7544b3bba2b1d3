/*!
Blocks of RepViT that one launch computes: which kernel serves a block, and its launch. Views are
measured before, as in `launches.rs`.

Hopper's kernels share a tile among the blocks of a thread block cluster
(`cuda/repvit_block_hopper.cu`). They come first, where the GPU runs them.
*/

use anyhow::{Context, Result, ensure};

use super::executor::Block;
use super::launches::SIDE;
use super::weights::DeviceBlock;
use crate::constants::{constant, instance};
use crate::images::Topic;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::{blocks, int};
use cuda::Gpu;
use vos::bundle::trunk::RepVitBlock;

const NO_KERNEL: &str = "no kernel computes blocks of these columns in one launch";

/// Columns that blocks take and give, of which they hide twice as many; the kernel, its shared
/// memory, columns and rows of a tile, and how many of the kernel's blocks share it.
pub(super) struct Fused {
    columns: [usize; 2],
    name: &'static str,
    shared: u32,
    tile: [usize; 2],
    cluster: u32,
}

const TILES: [[usize; 2]; 3] = [
    [constant!(RepvitBlock, "COLUMNS_48") as usize, constant!(RepvitBlock, "LINES_48") as usize],
    [constant!(RepvitBlock, "COLUMNS_96") as usize, constant!(RepvitBlock, "LINES_96") as usize],
    [constant!(RepvitBlock, "COLUMNS_192") as usize, constant!(RepvitBlock, "LINES_192") as usize],
];
const HOPPER_TILE: [usize; 2] = [
    constant!(RepvitBlockHopper, "CLUSTER_COLUMNS") as usize,
    constant!(RepvitBlockHopper, "CLUSTER_LINES") as usize,
];
const BY_6: u32 = constant!(RepvitBlockHopper, "BLOCKS_384");

/// The least side of z's map for Hopper's kernels. On an H200 they are faster for 32 x 32 tokens,
/// which are 16 clusters, and slower for 16 x 16 (docs/results/kernels.md).
pub(crate) const HOPPER_SIDE: usize = 32;

/// A kernel with the bytes of its source.
macro_rules! fused {
    ($name:literal, $columns:expr, $tile:expr, $cluster:expr) => {
        Fused {
            columns: $columns,
            name: $name,
            shared: instance!($name, "shared"),
            tile: $tile,
            cluster: $cluster,
        }
    };
}

pub(super) const FUSED: [Fused; 7] = [
    fused!("repvit_block_384_by_6", [384, 384], HOPPER_TILE, BY_6),
    fused!("repvit_down_384_by_6", [192, 384], HOPPER_TILE, BY_6),
    fused!("repvit_block_48", [48, 48], TILES[0], 1),
    fused!("repvit_block_96", [96, 96], TILES[1], 1),
    fused!("repvit_block_192", [192, 192], TILES[2], 1),
    fused!("repvit_down_96", [48, 96], TILES[1], 1),
    fused!("repvit_down_192", [96, 192], TILES[2], 1),
];

impl Fused {
    fn is_hopper(&self) -> bool {
        self.cluster > 1
    }

    /// Whether it computes blocks of these columns.
    fn serves(&self, block: &RepVitBlock) -> bool {
        let RepVitBlock { dim, dim_out, stride, squeeze, hidden, .. } = *block;
        // A quarter of the columns, in eights.
        let squeezes = squeeze == 0 || squeeze == (dim / 4 + 4) / 8 * 8;
        let strides = if dim == dim_out { 1 } else { 2 };
        squeezes && self.columns == [dim, dim_out] && stride == strides && hidden == 2 * dim_out
    }

    /// The same, with a map that is large enough.
    fn serves_map(&self, block: &RepVitBlock, least: usize) -> bool {
        self.serves(block) && (!self.is_hopper() || block.grid_out() >= least)
    }
}

/// Whether one launch computes a block on any GPU.
pub(super) fn serves_any_gpu(block: &RepVitBlock) -> bool {
    FUSED.iter().any(|fused| !fused.is_hopper() && fused.serves(block))
}

/// Whether one of Hopper's kernels computes a block. `least`: as in [`FusedKernels::load`].
pub(super) fn serves_hopper(block: &RepVitBlock, least: usize) -> bool {
    FUSED.iter().any(|fused| fused.is_hopper() && fused.serves_map(block, least))
}

/// The kernels of [`FUSED`], as far as they were loaded.
#[derive(Debug)]
pub(super) struct FusedKernels {
    all: Vec<Option<Kernel>>,
    /// The least side of z's map for Hopper's.
    least: usize,
}

impl FusedKernels {
    /// Takes those for any GPU from `modules`, and loads Hopper's if one serves one of `blocks`.
    /// `least`: the least side of z's map for Hopper's, usually [`HOPPER_SIDE`].
    ///
    /// # Errors
    /// Kernels that are not in their modules. A driver that refuses Hopper's is a warning.
    pub fn load(
        gpu: &Gpu,
        modules: &Modules,
        blocks: &[RepVitBlock],
        least: usize,
    ) -> Result<Self> {
        let needed = blocks.iter().any(|block| serves_hopper(block, least));
        let mut all: Vec<Option<Kernel>> = Vec::with_capacity(FUSED.len());
        all.resize_with(FUSED.len(), || None);
        if gpu.runs_hopper_kernels() && needed {
            match Self::load_hoppers(gpu) {
                Ok(hoppers) => all = hoppers,
                Err(error) => log::warn!(
                    "the kernels for Hopper of RepViT's blocks cannot be used, slower ones are: \
                     {error:#}"
                ),
            }
        }
        for (place, fused) in all.iter_mut().zip(&FUSED).filter(|(_, fused)| !fused.is_hopper()) {
            *place = Some(modules.kernel(fused.name, fused.shared)?);
        }
        Ok(Self { all, least })
    }

    /// Hopper's, at their places in [`FUSED`].
    fn load_hoppers(gpu: &Gpu) -> Result<Vec<Option<Kernel>>> {
        let modules = Modules::load(gpu, &[Topic::RepvitBlockHopper], "RepViT on Hopper")?;
        let load = |fused: &Fused| -> Result<Option<Kernel>> {
            if !fused.is_hopper() {
                return Ok(None);
            }
            let kernel = modules.kernel(fused.name, fused.shared)?;
            let resident = kernel.resident_clusters(fused.cluster)?;
            log::debug!("kernel {}: {resident} clusters at once", fused.name);
            ensure!(resident > 0, "no cluster of {} blocks of {} fits", fused.cluster, fused.name);
            Ok(Some(kernel))
        };
        FUSED.iter().map(load).collect()
    }

    /// The place in [`FUSED`] of the kernel that computes a block.
    pub fn of(&self, block: &RepVitBlock) -> Option<usize> {
        let serves = |(kernel, fused): (&Option<Kernel>, &Fused)| {
            kernel.is_some() && fused.serves_map(block, self.least)
        };
        self.all.iter().zip(&FUSED).position(serves)
    }

    /// A whole block, by this kernel of [`FUSED`].
    ///
    /// # Errors
    /// It was not loaded, or those of the launch.
    pub fn launch(&self, block: &Block, kernel: usize, chain: &Chain) -> Result<()> {
        let DeviceBlock { depthwise, excite, pointwise, up, down } = &block.weights;
        let found = self.all.get(kernel).and_then(Option::as_ref).zip(FUSED.get(kernel));
        let (kernel, Fused { tile: [columns, lines], cluster, .. }) = found.context(NO_KERNEL)?;
        let side = int(block.shape.grid, SIDE)?;
        let (edges, sums) = block.next.as_ref().map(|next| (&next.edges, &next.sums)).unzip();
        // Both kinds of block take the same, but for what follows the depthwise convolution.
        macro_rules! with {
            ([$kernels:literal]; $($between:tt)*) => {
                arguments!(
                    [$kernels];
                    View(&block.x),
                    View(&depthwise.weight),
                    View(&depthwise.bias),
                    $($between)*
                    View(&up.weight),
                    View(&up.bias),
                    View(&down.weight),
                    View(&down.bias),
                    View(&block.out),
                    Optional(edges),
                    Optional(sums),
                    I32(side),
                )
            };
        }
        let args = match pointwise {
            None => with!(
                ["repvit_block_*"];
                Optional(block.gate.as_ref().map(|gate| &gate.sums)),
                Optional(excite.as_ref().map(|excite| &excite.squeeze.weight)),
                Optional(excite.as_ref().map(|excite| &excite.squeeze.bias)),
                Optional(excite.as_ref().map(|excite| &excite.excite.weight)),
                Optional(excite.as_ref().map(|excite| &excite.excite.bias)),
            ),
            Some(pointwise) => with!(
                ["repvit_down_*"];
                View(&pointwise.weight),
                View(&pointwise.bias),
            ),
        };
        let side = block.shape.grid_out();
        let grid = (cluster * blocks(side, *columns)?, blocks(side, *lines)?, 1);
        // SAFETY: the arguments are those of repvit_block_* or repvit_down_*, which serves the
        // block's columns; maps, sums and weights were measured, and the result lies apart from the
        // map that it is computed from (`RepVitExecutor::new`).
        unsafe { kernel.launch(grid, &args, chain) }
    }
}

/// Whether that kernel of [`FUSED`] is Hopper's.
pub(super) fn is_hopper(kernel: usize) -> bool {
    FUSED.get(kernel).is_some_and(Fused::is_hopper)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: RepVitBlock =
        RepVitBlock { dim: 96, dim_out: 96, grid: 8, stride: 1, squeeze: 24, hidden: 192 };
    const WIDE: RepVitBlock =
        RepVitBlock { dim: 384, dim_out: 384, squeeze: 96, hidden: 768, ..BLOCK };

    #[test]
    fn one_launch_computes_blocks_of_its_own_columns_alone() {
        let names = |block: RepVitBlock| -> Vec<&str> {
            let those = FUSED.iter().filter(|fused| fused.serves(&block));
            those.map(|fused| fused.name).collect()
        };
        assert_eq!(names(BLOCK), ["repvit_block_96"]);
        assert_eq!(names(RepVitBlock { squeeze: 0, ..BLOCK }), ["repvit_block_96"]);
        let down = RepVitBlock { dim: 48, stride: 2, squeeze: 0, ..BLOCK };
        assert_eq!(names(down), ["repvit_down_96"]);
        let third = RepVitBlock { dim: 192, dim_out: 192, squeeze: 48, hidden: 384, ..BLOCK };
        assert_eq!(names(third), ["repvit_block_192"]);
        assert_eq!(names(WIDE), ["repvit_block_384_by_6"]);
        assert!(serves_any_gpu(&third) && !serves_any_gpu(&WIDE));
        let on_32 = RepVitBlock { grid: 32, ..WIDE };
        assert!(serves_hopper(&on_32, HOPPER_SIDE) && !serves_hopper(&WIDE, HOPPER_SIDE));
        assert!(serves_hopper(&WIDE, 0) && !serves_hopper(&third, 0));
        let last = RepVitBlock { dim: 192, stride: 2, squeeze: 0, ..WIDE };
        assert_eq!(names(last), ["repvit_down_384_by_6"]);
        for other in [
            RepVitBlock { squeeze: 32, ..BLOCK },
            RepVitBlock { hidden: 384, ..BLOCK },
            RepVitBlock { stride: 2, squeeze: 0, ..BLOCK },
            RepVitBlock { stride: 1, ..down },
            RepVitBlock { dim: 200, dim_out: 200, squeeze: 48, hidden: 400, ..BLOCK },
        ] {
            assert!(names(other).is_empty(), "{other:?}");
        }
    }
}
