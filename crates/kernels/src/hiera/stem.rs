/*!
The stem: a planar image to the first block's tokens, in one launch (`cuda/hiera_stem.cu`).
*/

use anyhow::{Result, bail, ensure};

use crate::constants::constant;
use crate::device_weights::{Affine, DeviceWeights, check_layer};
use crate::images::Topic;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::repvit::packed;
use crate::{blocks, int, need_exactly};
use cuda::View;
use vos::bundle::trunk::{MOST_EMBEDDED, MapShape, StemAndNeck, StemShape, StemWeights};

pub(super) const MODULE: Topic = Topic::HieraStem;

/// Columns of a unit of packed weights, and depth of a step.
const TILE: usize = constant!(HieraStem, "TILE") as usize;
const STEP: usize = constant!(HieraStem, "STEP") as usize;
/// The convolution: channels of the image, side of its kernel, taps of a kernel's row with the
/// weightless first one.
const CHANNELS: usize = constant!(HieraStem, "CHANNELS") as usize;
const KERNEL: usize = constant!(HieraStem, "KERNEL") as usize;
const ROW_TAPS: usize = constant!(HieraStem, "ROW_TAPS") as usize;
const STEPS: usize = constant!(HieraStem, "STEPS") as usize;
/// Tokens of a block, side by side and below each other, and those below each other of a small map.
const COLUMNS: usize = constant!(HieraStem, "COLUMNS") as usize;
const LINES: usize = constant!(HieraStem, "LINES") as usize;
const FEW_LINES: usize = constant!(HieraStem, "FEW_LINES") as usize;
/// Blocks of a map from which on they have `LINES`. A map with fewer gets lower ones, so that more
/// of an H200's 132 multiprocessors, which hold two blocks each, have work.
const MANY_BLOCKS: usize = 256;
/// Bytes of shared memory: pixels, and a unit's weights.
const IMAGE: usize = constant!(HieraStem, "IMAGE") as usize;
const UNIT_BYTES: usize = constant!(HieraStem, "UNIT_BYTES") as usize;
/// The smallest limit of a block's shared memory from sm 80 on.
const MOST_SHARED: usize = 99 * 1024;
/// Pixels that one copy has.
const PIXELS: usize = 8;
/// Bytes of an f16 and of an f32.
const F16: usize = 2;
const F32: usize = 4;
/// What vector loads need.
const ALIGNMENT: usize = 16;

const _: () = assert!(shared_memory(MOST_EMBEDDED) <= MOST_SHARED);

/// Bytes of a block's shared memory.
const fn shared_memory(columns: usize) -> usize {
    IMAGE + UNIT_BYTES * columns.div_ceil(TILE)
}

/// The kernel, its weights and the sizes of its launch.
#[derive(Debug)]
pub(super) struct Stem {
    kernel: Kernel,
    patch: Affine,
    position: View,
    side: usize,
    tokens: MapShape,
}

/// The weights in the kernel's order, by name.
///
/// # Errors
/// Another stem, or weights of other sizes.
pub(super) fn laid_out(
    shape: &StemAndNeck,
    weights: &StemWeights,
) -> Result<Vec<(String, Vec<u8>)>> {
    let (StemShape::Patches { kernel: KERNEL }, StemWeights::Patches { patch, position }) =
        (shape.stem, weights)
    else {
        bail!("the stem of a Hiera embeds patches of {KERNEL} pixels, found {:?}", shape.stem);
    };
    let MapShape { grid, columns } = shape.tokens;
    check_layer("the stem's patch embedding", patch, columns, CHANNELS * KERNEL * KERNEL)?;
    let (found, expected) = (position.len(), F16 * grid * grid * columns);
    ensure!(
        found == expected,
        "the stem's position embedding has {found} bytes, {expected} are expected"
    );
    let mut bias = patch.bias.to_vec();
    bias.resize(F32 * columns.next_multiple_of(TILE), 0);
    Ok(vec![
        ("patch.weight".to_owned(), packed_taps(patch.weight, columns)),
        ("patch.bias".to_owned(), bias),
        ("position".to_owned(), position.to_vec()),
    ])
}

/// The weight f16 `[columns, 147]` as [`packed`] has it, each row of a kernel behind a tap without
/// weight.
fn packed_taps(weight: &[u8], columns: usize) -> Vec<u8> {
    let depth = STEPS * STEP;
    let mut wide = Vec::with_capacity(F16 * columns * depth);
    for column in weight.chunks(F16 * CHANNELS * KERNEL * KERNEL) {
        let end = wide.len() + F16 * depth;
        for row in column.chunks(F16 * KERNEL) {
            wide.resize(wide.len() + F16 * (ROW_TAPS - KERNEL), 0);
            wide.extend_from_slice(row);
        }
        wide.resize(end, 0);
    }
    packed(&wide, columns, depth, 1)
}

/// Lines of tokens of a block, of a map of this side.
fn lines_of_a_block(grid: usize) -> usize {
    let many = grid.div_ceil(COLUMNS) * grid.div_ceil(LINES) >= MANY_BLOCKS;
    if many { LINES } else { FEW_LINES }
}

impl Stem {
    /// # Errors
    /// A side or columns that the kernel does not serve, or the modules lack it.
    pub fn new(modules: &Modules, loaded: &DeviceWeights, shape: &StemAndNeck) -> Result<Self> {
        let (side, tokens) = (shape.side(), shape.tokens);
        ensure!(
            side.is_multiple_of(PIXELS) && tokens.columns.is_multiple_of(4),
            "a stem of an image of {side} pixels a side and {} columns: its kernel takes multiples \
             of {PIXELS} and 4",
            tokens.columns
        );
        let shared = shared_memory(tokens.columns);
        ensure!(
            shared <= MOST_SHARED,
            "the stem's {} columns need {shared} bytes of shared memory, {MOST_SHARED} are there",
            tokens.columns
        );
        int(CHANNELS * side * side, "the number of an image's elements")?;
        int(tokens.grid * tokens.grid * tokens.columns, "the number of the tokens' elements")?;
        Ok(Self {
            kernel: modules.kernel("hiera_stem", u32::try_from(shared)?)?,
            patch: loaded.layer("patch")?,
            position: loaded.one("position")?,
            side,
            tokens,
        })
    }

    /// f16 `[3, side, side]` to f32 `[grid, grid, columns]`.
    ///
    /// # Errors
    /// Views of other sizes, or those of the driver.
    pub fn enqueue(&self, image: &View, tokens: &View, chain: &Chain) -> Result<()> {
        let (side, MapShape { grid, columns }) = (self.side, self.tokens);
        need_exactly(image, F16 * CHANNELS * side * side, ALIGNMENT, "the stem's image")?;
        need_exactly(tokens, F32 * grid * grid * columns, ALIGNMENT, "the stem's tokens")?;
        let lines = lines_of_a_block(grid);
        let args = arguments!(
            ["hiera_stem"];
            View(image),
            View(&self.patch.weight),
            View(&self.patch.bias),
            View(&self.position),
            View(tokens),
            I32(int(side, "the side of the image")?),
            I32(int(columns, "the number of columns")?),
            I32(int(lines, "the lines of a block")?),
        );
        let grid = (blocks(grid, COLUMNS)?, blocks(grid, lines)?, 1);
        // SAFETY: the arguments are hiera_stem's own; image and tokens were measured here, weights
        // and position when they were laid out.
        unsafe { self.kernel.launch(grid, &args, chain) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_map_has_more_blocks() {
        // Of images of 1024, 512 and 64 pixels a side.
        let found = [256, 128, 16].map(|grid| {
            let lines = lines_of_a_block(grid);
            (lines, grid.div_ceil(COLUMNS) * grid.div_ceil(lines))
        });
        assert_eq!(found, [(16, 256), (8, 128), (8, 2)]);
    }

    #[test]
    fn more_columns_than_a_bundle_may_have_would_not_fit() {
        assert!(shared_memory(MOST_EMBEDDED + TILE) > MOST_SHARED);
    }

    #[test]
    fn each_weight_has_one_place_behind_a_tap_without_one() {
        for columns in [8, 96, 112] {
            let count = columns * CHANNELS * KERNEL * KERNEL;
            let weight: Vec<u8> = (1..=count).flat_map(|at| (at as u16).to_le_bytes()).collect();
            let packed = packed_taps(&weight, columns);
            assert_eq!(packed.len(), columns.div_ceil(TILE) * UNIT_BYTES);
            let (halves, _) = packed.as_chunks::<2>();
            let mut found: Vec<u16> = halves.iter().map(|two| u16::from_le_bytes(*two)).collect();
            // Lane 0 begins with the taps 0 and 1 of the first row, and of the second.
            assert_eq!((found[..4]).to_vec(), [0, 1, 0, 1 + KERNEL as u16]);
            found.sort_unstable();
            let zeros = found.len() - count;
            assert!(found[..zeros].iter().all(|value| *value == 0));
            assert!(found[zeros..].iter().enumerate().all(|(at, one)| *one as usize == at + 1));
        }
    }
}
