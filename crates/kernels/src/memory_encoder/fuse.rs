/*!
The kernel that fuses mask and features: Hopper's (`cuda/memory_encoder_fuse_hopper.cu`), or the one
for any GPU.
*/

use anyhow::{Result, ensure};

use super::MemoryEncoder;
use super::blocks::JOIN_TILE;
use super::launches::tiles;
use super::weights::{Convolution, Join};
use crate::constants::constant;
use crate::images::Topic;
use crate::int;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use cuda::tensor_map::TensorMap;
use cuda::{Gpu, View};
use vos::bundle::memory_encoder::{STEPS, TAPS, WIDTH};

/// Tokens of a cluster.
const TOKENS: usize = constant!(MemoryEncoderFuseHopper, "FUSE_TOKENS") as usize;
/// Blocks of a cluster.
const CLUSTER: u32 = constant!(MemoryEncoderFuseHopper, "FUSE_CLUSTER");
const SHARED: u32 = constant!(MemoryEncoderFuseHopper, "memory_encoder_fuse_hopper_shared");
/// Columns of a block, and rows of a box of weights.
const COLUMNS: u32 = constant!(MemoryEncoderFuseHopper, "COLUMNS");
/// Tokens of which a block brings the pixels, and channels of a step of which it brings features.
const BROUGHT: usize = constant!(MemoryEncoderFuseHopper, "BROUGHT") as usize;
const CHANNELS: u32 = constant!(MemoryEncoderFuseHopper, "DEPTH") / CLUSTER;
/// Tokens that share a row: grids are multiples of it.
const RUN: usize = constant!(MemoryEncoderFuseHopper, "FUSE_RUN") as usize;
/// Channels of a pixel.
const PIXEL: usize = STEPS[2];

const _: () = {
    assert!(constant!(MemoryEncoderFuseHopper, "FUSE_WIDTH") as usize == WIDTH);
    assert!(constant!(MemoryEncoderFuseHopper, "DEPTH") as usize == PIXEL);
    assert!(constant!(MemoryEncoderFuseHopper, "TAPS") as usize == TAPS);
    // Clusters have no tokens past the last.
    assert!((RUN * RUN).is_multiple_of(TOKENS) && BROUGHT.is_multiple_of(RUN));
};

/// The loaded kernel.
#[derive(Debug)]
pub(super) struct HopperFuse(Kernel);

impl HopperFuse {
    /// Loads the kernel for a grid of this side, a multiple of 16. None for others, on other GPUs
    /// than Hopper, if the driver refuses it, or if not all clusters run at once: the last ones
    /// would take as long again.
    pub fn load_if_supported(gpu: &Gpu, grid: usize) -> Option<Self> {
        if !gpu.runs_hopper_kernels() || !grid.is_multiple_of(RUN) {
            return None;
        }
        match Self::load(gpu) {
            Ok((kernel, resident)) => {
                let needed = grid * grid / TOKENS;
                log::debug!(
                    "kernel memory_encoder_fuse_hopper: {resident} clusters at once, {needed} are \
                     needed"
                );
                (resident >= needed).then_some(Self(kernel))
            }
            Err(error) => {
                log::warn!(
                    "mask and features cannot be fused by Hopper's kernel, a slower one does it: \
                     {error:#}"
                );
                None
            }
        }
    }

    fn load(gpu: &Gpu) -> Result<(Kernel, usize)> {
        let topics = [Topic::MemoryEncoderFuseHopper];
        let modules = Modules::load(gpu, &topics, "the memory encoder's mask and features")?;
        let kernel = modules.kernel("memory_encoder_fuse_hopper", SHARED)?;
        let resident = kernel.resident_clusters(CLUSTER)?;
        Ok((kernel, resident))
    }

    fn enqueue(&self, encoder: &MemoryEncoder, feat: &View, chain: &Chain<'_>) -> Result<()> {
        let Join { mask: Convolution { product, norm }, projections: [mask, feature], bias } =
            &encoder.weights.join;
        let (grid, tokens) = (encoder.shape.grid, encoder.tokens());
        ensure!(
            grid.is_multiple_of(RUN),
            "a grid of {grid} is no multiple of {RUN}, which Hopper's kernel needs"
        );
        let run = run(grid);
        let pairs = [grid, 2 * PIXEL];
        let wide =
            TensorMap::of_matrices(&encoder.scratch.wide, 2 * grid, pairs, u32::try_from(run)?)?;
        let features = TensorMap::of_halves(feat, WIDTH, tokens, CHANNELS)?;
        let weight = |view: &View, columns| TensorMap::of_halves(view, WIDTH, columns, COLUMNS);
        let convolution = weight(&product.weight, TAPS * PIXEL)?;
        let (feature, mask) = (weight(feature, WIDTH)?, weight(mask, WIDTH)?);
        let args = arguments!(
            ["memory_encoder_fuse_hopper"];
            Map(&wide),
            Map(&features),
            Map(&convolution),
            Map(&feature),
            Map(&mask),
            View(&product.bias),
            View(&norm.weight),
            View(&norm.bias),
            View(bias),
            View(&encoder.scratch.x),
            I32(int(grid, "the side of the map")?),
            I32(int(run, "the tokens of a box")?),
        );
        let clusters = u32::try_from(tokens / TOKENS)?;
        // SAFETY: the arguments are the kernel's own. The maps describe views that they were made
        // to fit, and nothing outside of them is read. Vectors were measured where they were loaded,
        // the scratch is of the same shape, and its clusters have all tokens and no more.
        unsafe { self.0.launch((CLUSTER * clusters, 1, 1), &args, chain) }
    }
}

/// Tokens of a box of pixels: as many as a block brings, if that many share a row.
fn run(grid: usize) -> usize {
    if grid.is_multiple_of(BROUGHT) { BROUGHT } else { RUN }
}

impl MemoryEncoder {
    /// The fourth convolution, and mask and features together.
    pub(super) fn fuse_mask_and_features(&self, feat: &View, chain: &Chain) -> Result<()> {
        if let Some(hopper) = &self.fuse {
            return hopper.enqueue(self, feat, chain);
        }
        let Join { mask: Convolution { product, norm }, projections: [mask, feature], bias } =
            &self.weights.join;
        let args = arguments!(
            ["memory_encoder_fuse_mask_and_features"];
            View(&self.scratch.wide),
            View(&product.weight),
            View(&product.bias),
            View(&norm.weight),
            View(&norm.bias),
            View(mask),
            View(feat),
            View(feature),
            View(bias),
            View(&self.scratch.x),
            I32(int(self.shape.grid, "the side of the map")?),
        );
        let grid = tiles(self.shape.grid, JOIN_TILE)?;
        // SAFETY: the arguments are memory_encoder_fuse_mask_and_features's own; the features were
        // measured in `enqueue`, the weights where they were loaded, and the scratch is of the same
        // shape.
        unsafe { self.kernels.fuse_mask_and_features.launch(grid, &args, chain) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_of_pixels_lies_in_one_row() {
        // Images of 1024, 768, 512 and 256 pixels.
        assert_eq!([64, 48, 32, 16].map(run), [32, 16, 32, 16]);
        assert!([64, 48, 32, 16].iter().all(|grid: &usize| grid.is_multiple_of(run(*grid))));
        assert_eq!((TOKENS, CLUSTER, SHARED), (64, 2, 231_672));
    }
}
