/*!
The neck: tokens of all stages to planar features, in one launch (`cuda/repvit_neck.cu`).
*/

use anyhow::{Context, Result, ensure};

use super::packed::packed_left;
use super::stem::check;
use super::{ALIGNMENT, HALF};
use crate::constants::constant;
use crate::device_weights::{Affine, DeviceWeights};
use crate::images::Topic;
use crate::int;
use crate::kernel::{Chain, Kernel, Modules, arguments};
use crate::need_exactly;
use cuda::View;
use vos::bundle::trunk::{MapShape, STAGES, StemAndNeck, StemAndNeckWeights};

pub(super) const MODULE: Topic = Topic::RepvitNeck;

const TILE: usize = constant!(RepvitNeck, "TILE") as usize;
const STEP: usize = constant!(RepvitNeck, "STEP") as usize;
const WARPS: usize = constant!(RepvitNeck, "WARPS") as usize;
/// Tokens of a warp: side by side, and lines of these; those of the coarsest map beside them.
const LINE: usize = constant!(RepvitNeck, "LINE") as usize;
const LINES: usize = constant!(RepvitNeck, "LINES") as usize;
const GROUP: usize = constant!(RepvitNeck, "GROUP") as usize;
const COARSE: usize = constant!(RepvitNeck, "COARSE") as usize;
/// The smallest limit of a block's shared memory from sm 80 on.
const MOST_SHARED: usize = 99 * 1024;

/// The kernel, its weights and the sizes of its launch.
#[derive(Debug)]
pub(super) struct Neck {
    kernel: Kernel,
    shape: StemAndNeck,
    /// Of `hr0`, `hr1` and `feat`.
    layers: [Affine; 3],
    blocks: u32,
}

/// How blocks share a result, as `Share` of the source.
struct Share {
    /// Groups of tokens of a block.
    groups: usize,
    blocks: usize,
}

impl Share {
    /// Of `columns` channels of a map; `square`: its groups are lines of tokens below each other.
    fn of(side: usize, columns: usize, square: bool) -> Self {
        let tiles = columns.div_ceil(TILE);
        let across = match tiles {
            0..=2 => tiles.max(1),
            3..=4 => 4,
            _ => 8,
        };
        let groups = WARPS / across;
        let token_tiles = match square {
            true => side.div_ceil(LINE) * side.div_ceil(LINES),
            false => (side * side).div_ceil(GROUP),
        };
        Self { groups, blocks: token_tiles.div_ceil(groups) * tiles.div_ceil(across) }
    }

    /// Bytes of shared memory: tokens of this depth, and of the coarsest map's.
    fn shared(&self, depth: usize, coarse: Option<usize>) -> usize {
        let row = |depth: usize| HALF * depth.next_multiple_of(STEP) + ALIGNMENT;
        self.groups * (GROUP * row(depth) + coarse.map_or(0, |depth| COARSE * row(depth)))
    }
}

/// The weights in the kernel's order, by name: `feat`'s are those of both stages side by side.
///
/// # Errors
/// Weights of other sizes.
pub(super) fn laid_out(
    shape: &StemAndNeck,
    weights: &StemAndNeckWeights,
) -> Result<Vec<(String, Vec<u8>)>> {
    let rows = shape.columns();
    for (at, layer) in weights.neck.iter().enumerate() {
        let (rows, depth) = (rows[at], shape.stages[at].columns);
        check(&format!("the neck's product of stage {at}"), layer, rows, depth)?;
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
    Ok(vec![
        ("hr0.weight".to_owned(), packed_left(hr0.weight, hr0_rows, of_hr0)),
        ("hr0.bias".to_owned(), hr0.bias.to_vec()),
        ("hr1.weight".to_owned(), packed_left(hr1.weight, hr1_rows, of_hr1)),
        ("hr1.bias".to_owned(), hr1.bias.to_vec()),
        ("feat.weight".to_owned(), packed_left(&both, rows, begin + of_coarse)),
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
            "the neck's maps are not half as wide as the ones before them"
        );
        let [hr0, hr1, feat, _] = shape.columns();
        let [of_hr0, of_hr1] =
            [(fine, hr0), (finer, hr1)].map(|(map, columns)| Share::of(map.grid, columns, false));
        let of_feat = Share::of(middle.grid, feat, true);
        let shared = [
            of_hr0.shared(fine.columns, None),
            of_hr1.shared(finer.columns, None),
            of_feat.shared(middle.columns, Some(coarse.columns)),
        ];
        let shared = shared.into_iter().max().unwrap_or_default();
        ensure!(
            shared <= MOST_SHARED,
            "the neck's maps have {}, {}, {} and {} columns: its kernel needs {shared} bytes of \
             shared memory, {MOST_SHARED} are there",
            fine.columns,
            finer.columns,
            middle.columns,
            coarse.columns
        );
        int(fine.grid * fine.grid * fine.columns.max(hr0), "the number of a map's elements")?;
        let blocks = of_hr0.blocks + of_hr1.blocks + of_feat.blocks;
        Ok(Self {
            kernel: modules.kernel("repvit_neck", u32::try_from(shared)?)?,
            shape: *shape,
            layers: [loaded.layer("hr0")?, loaded.layer("hr1")?, loaded.layer("feat")?],
            blocks: u32::try_from(blocks).context("more blocks than a launch has")?,
        })
    }

    /// Tokens of all stages, f16 `[grid, grid, columns]`, to f16 `[channels, grid, grid]`: `feat`,
    /// `hr0` and `hr1`.
    pub fn enqueue(
        &self,
        maps: &[View; STAGES],
        [feat, hr0, hr1]: [&View; 3],
        chain: &Chain,
    ) -> Result<()> {
        let (stages, columns) = (self.shape.stages, self.shape.columns());
        let bytes = |MapShape { grid, .. }: MapShape, columns: usize| HALF * grid * grid * columns;
        for (map, stage) in maps.iter().zip(stages) {
            need_exactly(map, bytes(stage, stage.columns), ALIGNMENT, "the neck's map")?;
        }
        for ((view, stage), columns) in [hr0, hr1, feat].into_iter().zip(stages).zip(columns) {
            need_exactly(view, bytes(stage, columns), ALIGNMENT, "the neck's feature")?;
        }
        let [m0, m1, m2, m3] = maps;
        let [of_hr0, of_hr1, of_feat] = &self.layers;
        let count = |columns: usize| int(columns, "the number of columns");
        let args = arguments!(
            ["repvit_neck"];
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
            I32(count(stages[0].columns)?),
            I32(count(columns[0])?),
            I32(count(stages[1].columns)?),
            I32(count(columns[1])?),
            I32(count(stages[2].columns)?),
            I32(count(stages[3].columns)?),
            I32(count(columns[2])?),
        );
        // SAFETY: the arguments are repvit_neck's own; maps and features were measured here, the
        // weights when they were packed.
        unsafe { self.kernel.launch((self.blocks, 1, 1), &args, chain) }
    }
}
