/*!
The stem: a planar image to the tokens of the first block, in one launch (`cuda/repvit_stem.cu`).
*/

use anyhow::{Result, bail, ensure};

use super::executor::NextSums;
use super::packed::{packed_first, packed_second};
use super::{ALIGNMENT, HALF};
use crate::constants::{constant, instance};
use crate::device_weights::{Affine, DeviceWeights, check_layer};
use crate::images::Topic;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::{blocks, int, need_exactly};
use cuda::View;
use vos::bundle::trunk::{StemAndNeck, StemShape, StemWeights};

pub(super) const MODULE: Topic = Topic::RepvitStem;

/// Columns that the kernel has room for: between the convolutions, and of a token.
const MIDDLE: usize = constant!(RepvitStem, "MIDDLE") as usize;
const WIDTH: usize = constant!(RepvitStem, "WIDTH") as usize;
/// Tokens of a block, side by side and below each other.
const COLUMNS: usize = constant!(RepvitStem, "COLUMNS") as usize;
const LINES: usize = constant!(RepvitStem, "LINES") as usize;
/// Channels of an image times places of a 3 x 3 kernel.
const FIRST_DEPTH: usize = 27;
const TAPS: usize = 9;
/// Pixels that one copy has.
const PIXELS: usize = 8;

/// The kernel, its weights and the sizes of its launch.
#[derive(Debug)]
pub(super) struct Stem {
    kernel: Kernel,
    first: Affine,
    second: Affine,
    side: usize,
    grid: usize,
    columns: usize,
}

/// The weights in the kernel's order, by name.
///
/// # Errors
/// Weights of other sizes, or more columns than the kernel has room for.
pub(super) fn laid_out(
    shape: &StemAndNeck,
    weights: &StemWeights,
) -> Result<Vec<(String, Vec<u8>)>> {
    let (StemShape::Convolutions { middle }, StemWeights::Convolutions { first, second }) =
        (shape.stem, weights)
    else {
        bail!("the stem of a RepViT is two convolutions, found {:?}", shape.stem);
    };
    let columns = shape.tokens.columns;
    ensure!(
        middle <= MIDDLE && columns <= WIDTH && columns.is_multiple_of(4),
        "a stem of {middle} and {columns} columns; its kernel takes up to {MIDDLE} and {WIDTH}"
    );
    check_layer("the stem's first convolution", first, middle, FIRST_DEPTH)?;
    check_layer("the stem's second convolution", second, columns, TAPS * middle)?;
    Ok(vec![
        ("first.weight".to_owned(), packed_first(first.weight, middle)),
        ("first.bias".to_owned(), padded(first.bias, MIDDLE)),
        ("second.weight".to_owned(), packed_second(second.weight, columns, middle, WIDTH)),
        ("second.bias".to_owned(), padded(second.bias, WIDTH)),
    ])
}

/// Floats, with zeros up to so many.
fn padded(floats: &[u8], count: usize) -> Vec<u8> {
    let mut all = floats.to_vec();
    all.resize(4 * count, 0);
    all
}

impl Stem {
    /// # Errors
    /// A side that the kernel does not serve, or the modules lack it.
    pub fn new(modules: &Modules, loaded: &DeviceWeights, shape: &StemAndNeck) -> Result<Self> {
        let (side, grid) = (shape.side(), shape.tokens.grid);
        ensure!(
            side.is_multiple_of(PIXELS),
            "the image has a side of {side} pixels, the stem's kernel takes multiples of {PIXELS}"
        );
        int(side * side * WIDTH, "the number of an image's elements")?;
        Ok(Self {
            kernel: modules.kernel("repvit_stem", instance!("repvit_stem", "shared"))?,
            first: loaded.layer("first")?,
            second: loaded.layer("second")?,
            side,
            grid,
            columns: shape.tokens.columns,
        })
    }

    /// f16 `[3, side, side]` to f16 `[grid, grid, columns]`; `next`: the sums of the block that takes
    /// them.
    pub fn enqueue(
        &self,
        image: &View,
        tokens: &View,
        next: Option<&NextSums>,
        chain: &Chain,
    ) -> Result<()> {
        let Self { side, grid, columns, .. } = *self;
        need_exactly(image, HALF * 3 * side * side, ALIGNMENT, "the stem's image")?;
        need_exactly(tokens, HALF * grid * grid * columns, ALIGNMENT, "the stem's tokens")?;
        let (edges, sums) = next.map(|next| (&next.edges, &next.sums)).unzip();
        let args = arguments!(
            ["repvit_stem"];
            View(image),
            View(&self.first.weight),
            View(&self.first.bias),
            View(&self.second.weight),
            View(&self.second.bias),
            View(tokens),
            Optional(edges),
            Optional(sums),
            I32(int(side, "the side of the image")?),
            I32(int(columns, "the number of columns")?),
        );
        let grid = (blocks(grid, COLUMNS)?, blocks(grid, LINES)?, 1);
        // SAFETY: the arguments are repvit_stem's own; image and tokens were measured here, the
        // weights when they were packed; the sums are of blocks with as many columns
        // (`RepVitEncoder::new`).
        unsafe { self.kernel.launch(grid, &args, chain) }
    }
}
