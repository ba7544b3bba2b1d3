//! Into how many parts an attention's keys are cut, by a count of what that costs.

use super::kernels::CLUSTER;
use super::loaded::Pair;
use super::{AttentionShape, QUERIES};

impl Pair {
    /// Of each object or head: rows of blocks, and the parts of its keys.
    pub(super) fn divide(&self, shape: AttentionShape) -> [usize; 2] {
        let AttentionShape { objects, queries, keys, values } = shape;
        let mut rows = queries.div_ceil(QUERIES);
        if self.kind.box_keys.is_some() {
            // Whole clusters: the last block may have no queries.
            rows = rows.next_multiple_of(CLUSTER as usize);
        }
        let tiles = keys.div_ceil(self.kind.tile);
        let combine = combine_cost(self.kind.tile, values.width(), self.padded);
        [rows, splits(self.resident, rows * objects, tiles, combine)]
    }
}

/// Into how many parts the keys of each row of blocks are cut: as many as fill the GPU once, or more
/// where several waves of blocks leave fewer multiprocessors idle; no more than there are tiles.
///
/// `resident` blocks run at once. On 82 multiprocessors two parts of 32 rows occupy 64 of them; five
/// parts are 160 blocks, two waves of 82 with four idle places. `combine`: as [`combine_cost`] has
/// it.
pub(super) fn splits(resident: usize, rows: usize, tiles: usize, combine: usize) -> usize {
    let once = (resident / rows).clamp(1, tiles);
    let most = (MOST_WAVES * resident / rows).clamp(once, tiles);
    // In TICKS, on the way of the last block to end.
    let cost = |splits: usize| {
        let waves = (rows * splits).div_ceil(resident);
        let combine = if splits > 1 { combine * splits * rows } else { 0 };
        TICKS * waves * (tiles.div_ceil(splits) + BEGIN) + combine
    };
    // The count is rough: 5 % less are needed to leave the single wave.
    let better = (once + 1..=most).min_by_key(|splits| cost(*splits));
    better.filter(|splits| 20 * cost(*splits) <= 19 * cost(once)).unwrap_or(once)
}

/// Waves of blocks, at most: each begins with queries and a ring to load.
pub(super) const MOST_WAVES: usize = 4;
/// What a block takes beside its tiles, in tiles.
const BEGIN: usize = 1;
/// A tile's time.
const TICKS: usize = 256;

/// What it takes to write and read the sums of one block, the whole GPU working, in [`TICKS`]: eight
/// bytes for each of its 128 x `padded` sums, beside a tile's 128 x `keys` x (`width` + `padded`)
/// multiply-adds on one multiprocessor. By count, an RTX 3090 does 0.43 T of these a second and
/// multiprocessor, and has 0.94 TB/s of memory: 8 x 0.43 / 0.94 of 256, and a third more for the
/// launch.
pub(super) fn combine_cost(keys: usize, width: usize, padded: usize) -> usize {
    1280 * padded / (keys * (width + padded))
}
