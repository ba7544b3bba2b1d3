/*!
The neck of an image encoder: tokens of all stages to planar features, in one launch
(`cuda/neck.cu`). Tokens are f16 (RepViT) or f32 (the residual of a Hiera).
*/

mod packed;
pub(crate) mod selftest;

use anyhow::{Context, Result, bail, ensure};

use crate::constants::{constant, instance};
use crate::device_weights::{Affine, DeviceWeights, check_layer};
use crate::images::Topic;
use crate::int;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::need_exactly;
use cuda::{Element, View};
use packed::{STEP, TILE, packed};
use vos::bundle::DType;
use vos::bundle::trunk::{MapShape, STAGES, StemAndNeck, StemAndNeckWeights};

/// The module of the kernel.
pub(crate) const MODULE: Topic = Topic::Neck;

const WARPS: usize = constant!(Neck, "WARPS") as usize;
/// Tiles of a warp.
const TILES: usize = constant!(Neck, "TILES") as usize;
/// Tokens side by side, and lines of these that a warp has: of `hr0` and `hr1`, and of `feat`.
const LINE: usize = constant!(Neck, "LINE") as usize;
const LINES: usize = constant!(Neck, "LINES") as usize;
const SQUARE_LINES: usize = constant!(Neck, "SQUARE_LINES") as usize;
/// Warps of one of `feat`'s blocks that have the same tokens and the same part of K. All of its
/// warps have the same tokens.
const SQUARE_ACROSS: usize = constant!(Neck, "SQUARE_ACROSS") as usize;
/// The most warps of another block that have the same tokens.
const WIDEST: usize = WARPS / 2;
/// Bytes of an f16.
const HALF: usize = 2;
/// What vector loads need.
const ALIGNMENT: usize = 16;
/// Columns of a token come in copies of 16 bytes of halves.
const COLUMNS_STEP: usize = 8;

/// The kernel, its weights and the sizes of its launch.
#[derive(Debug)]
pub(crate) struct Neck {
    kernel: Kernel,
    shape: StemAndNeck,
    tokens: Element,
    /// Of `hr0`, `hr1` and `feat`.
    layers: [Affine; 3],
    blocks: u32,
}

/// How blocks share a result, as `Share` of the source.
struct Share {
    /// Tiles of a block.
    tiles: usize,
    blocks: usize,
}

impl Share {
    /// Of `columns` channels of a map; `square`: a warp's tokens are lines below each other, as
    /// those of `feat`.
    fn of(side: usize, columns: usize, square: bool) -> Self {
        let wide = columns.div_ceil(TILES * TILE);
        let across = match wide {
            _ if square => SQUARE_ACROSS,
            0..=2 => wide.max(1),
            _ => WIDEST,
        };
        let token_tiles = match square {
            true => side.div_ceil(LINE) * side.div_ceil(SQUARE_LINES),
            false => (side * side).div_ceil(LINES * LINE),
        };
        let groups = if square { 1 } else { WARPS / across };
        Self { tiles: across * TILES, blocks: token_tiles.div_ceil(groups) * wide.div_ceil(across) }
    }

    /// Of `hr0`, `hr1` and `feat`.
    fn of_all(shape: &StemAndNeck) -> [Self; 3] {
        let (stages, columns) = (shape.stages, shape.columns());
        [0, 1, 2].map(|at| Self::of(stages[at].grid, columns[at], at == 2))
    }
}

/// The type of the tokens.
fn tokens(shape: &StemAndNeck) -> Result<Element> {
    match shape.dtype {
        DType::F16 => Ok(Element::F16),
        DType::F32 => Ok(Element::F32),
        other => bail!("the neck's tokens are {other:?}, its kernel takes f16 and f32"),
    }
}

/// The weights in the kernel's order, by name: `feat`'s are those of both stages side by side.
///
/// # Errors
/// Weights of other sizes, or tokens that are neither f16 nor f32.
pub(crate) fn laid_out(
    shape: &StemAndNeck,
    weights: &StemAndNeckWeights,
) -> Result<Vec<(String, Vec<u8>)>> {
    let rows = shape.columns();
    for (at, layer) in weights.neck.iter().enumerate() {
        let (rows, depth) = (rows[at], shape.stages[at].columns);
        check_layer(&format!("the neck's product of stage {at}"), layer, rows, depth)?;
    }
    let [hr0, hr1, middle, coarse] = weights.neck;
    let [of_hr0, of_hr1, of_middle, of_coarse] = shape.stages.map(|stage| stage.columns);
    let [hr0_rows, hr1_rows, rows, _] = rows;
    let begin = of_middle.next_multiple_of(STEP);
    let mut both = Vec::with_capacity(HALF * rows * (begin + of_coarse));
    let each = middle.weight.chunks(HALF * of_middle).zip(coarse.weight.chunks(HALF * of_coarse));
    for (middle, coarse) in each {
        both.extend_from_slice(middle);
        both.resize(both.len() + HALF * (begin - of_middle), 0);
        both.extend_from_slice(coarse);
    }
    let ((one, _), (other, _)) = (middle.bias.as_chunks::<4>(), coarse.bias.as_chunks::<4>());
    let sums = one.iter().zip(other);
    let sums = sums.map(|(one, other)| f32::from_le_bytes(*one) + f32::from_le_bytes(*other));
    let shares = Share::of_all(shape).map(|share| share.tiles);
    let (tokens, [hr0_tiles, hr1_tiles, feat_tiles]) = (tokens(shape)?, shares);
    let packed = |weight: &[u8], rows: usize, depth: usize, tiles: usize| {
        packed(weight, rows, depth, tiles, tokens)
    };
    Ok(vec![
        ("hr0.weight".to_owned(), packed(hr0.weight, hr0_rows, of_hr0, hr0_tiles)),
        ("hr0.bias".to_owned(), hr0.bias.to_vec()),
        ("hr1.weight".to_owned(), packed(hr1.weight, hr1_rows, of_hr1, hr1_tiles)),
        ("hr1.bias".to_owned(), hr1.bias.to_vec()),
        ("feat.weight".to_owned(), packed(&both, rows, begin + of_coarse, feat_tiles)),
        ("feat.bias".to_owned(), sums.flat_map(f32::to_le_bytes).collect()),
    ])
}

impl Neck {
    /// # Errors
    /// Sizes that the kernel does not serve, or the modules lack it.
    pub fn new(modules: &Modules, loaded: &DeviceWeights, shape: &StemAndNeck) -> Result<Self> {
        let [fine, finer, middle, coarse] = shape.stages;
        ensure!(
            coarse.grid * 2 == middle.grid
                && middle.grid * 2 == finer.grid
                && finer.grid * 2 == fine.grid,
            "the neck's maps have sides of {} tokens, expected each to be half of the one before",
            shape.stages.map(|stage| stage.grid.to_string()).join(", ")
        );
        let tokens = tokens(shape)?;
        for (stage, columns) in shape.stages.into_iter().zip(shape.columns()) {
            ensure!(
                stage.columns > 0 && stage.columns.is_multiple_of(COLUMNS_STEP),
                "a map of the neck has {} columns, its kernel takes multiples of {COLUMNS_STEP}",
                stage.columns
            );
            let most = stage.columns.max(columns);
            int(tokens.bytes() * stage.grid * stage.grid * most, "the bytes of a map")?;
        }
        let blocks = Share::of_all(shape).iter().map(|share| share.blocks).sum::<usize>();
        Ok(Self {
            kernel: modules.kernel("neck", instance!("neck", "shared"))?,
            shape: *shape,
            tokens,
            layers: [loaded.layer("hr0")?, loaded.layer("hr1")?, loaded.layer("feat")?],
            blocks: u32::try_from(blocks).context("more blocks than a launch has")?,
        })
    }

    /// Tokens of all stages, `[grid, grid, columns]` in the type that the shape says, to f16
    /// `[channels, grid, grid]`: `feat`, `hr0` and `hr1`.
    ///
    /// # Errors
    /// Views of other sizes, or those of the driver.
    pub fn enqueue(
        &self,
        maps: &[View; STAGES],
        [feat, hr0, hr1]: [&View; 3],
        chain: &Chain,
    ) -> Result<()> {
        let (stages, columns) = (self.shape.stages, self.shape.columns());
        let count = |MapShape { grid, .. }: MapShape, columns: usize| grid * grid * columns;
        for (map, stage) in maps.iter().zip(stages) {
            need_exactly(
                map,
                self.tokens.bytes() * count(stage, stage.columns),
                ALIGNMENT,
                "the neck's map",
            )?;
        }
        for ((view, stage), columns) in [hr0, hr1, feat].into_iter().zip(stages).zip(columns) {
            need_exactly(view, HALF * count(stage, columns), ALIGNMENT, "the neck's feature")?;
        }
        let [m0, m1, m2, m3] = maps;
        let [of_hr0, of_hr1, of_feat] = &self.layers;
        let depth = |columns: usize| int(columns, "the number of columns");
        let args = arguments!(
            ["neck"];
            View(m0),
            View(&of_hr0.weight),
            View(&of_hr0.bias),
            View(hr0),
            View(m1),
            View(&of_hr1.weight),
            View(&of_hr1.bias),
            View(hr1),
            View(m2),
            View(m3),
            View(&of_feat.weight),
            View(&of_feat.bias),
            View(feat),
            I32(int(stages[2].grid, "the side of the map")?),
            I32(depth(stages[0].columns)?),
            I32(depth(columns[0])?),
            I32(depth(stages[1].columns)?),
            I32(depth(columns[1])?),
            I32(depth(stages[2].columns)?),
            I32(depth(stages[3].columns)?),
            I32(depth(columns[2])?),
            I32(int(self.tokens.bytes(), "the size of an element")?),
        );
        // SAFETY: the arguments are neck's own; maps and features were measured here, the
        // weights when they were packed.
        unsafe { self.kernel.launch((self.blocks, 1, 1), &args, chain) }
    }
}
