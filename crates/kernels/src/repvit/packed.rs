/*!
The order in which the kernels read the weights of a product (`cuda/repvit.cuh`).

The unit is what a lane reads at once: 16 bytes, the right factor's fragments of two instructions
`mma.m16n8k16` for 16 columns of the result and 16 of the depth. Columns are dealt to the lanes so
that each has four neighbours of the result.
*/

use half::f16;

use crate::constants::constant;

/// Columns of the result that a unit serves, and of the depth.
const TILE: usize = constant!(Repvit, "TILE") as usize;
const STEP: usize = constant!(Repvit, "STEP") as usize;
/// Halves of all lanes' units.
const PACKED: usize = constant!(Repvit, "PACKED") as usize;
const LANES: usize = 32;
/// Pairs of halves of a lane's unit.
const PAIRS: usize = 4;

/// Columns between the stem's convolutions, and words of a lane's weights of the first one.
const MIDDLE: usize = constant!(RepvitStem, "MIDDLE") as usize;
const FIRST_WORDS: usize = constant!(RepvitStem, "FIRST_WORDS") as usize;
/// Places of a 3 x 3 kernel, and channels of an image.
const TAPS: usize = 9;
const CHANNELS: usize = constant!(RepvitStem, "CHANNELS") as usize;
/// Words of a unit.
const UNIT: usize = 4;

const _: () = assert!(PACKED == LANES * PAIRS * 2 && PACKED == TILE * STEP);

/// The weight f16 `[columns, depth]`, little-endian, in the kernels' order: `tiles` tiles of columns
/// that one warp has, step by step. Zeros beyond both extents.
pub(crate) fn packed(weight: &[u8], columns: usize, depth: usize, tiles: usize) -> Vec<u8> {
    let (halves, _) = weight.as_chunks::<2>();
    let warps = columns.div_ceil(TILE).div_ceil(tiles);
    let mut all = Vec::with_capacity(warps * tiles * depth.div_ceil(STEP) * PACKED * 2);
    for warp in 0..warps {
        for step in 0..depth.div_ceil(STEP) {
            for tile in warp * tiles..(warp + 1) * tiles {
                for lane in 0..LANES {
                    for pair in 0..PAIRS {
                        let (column, first) = place(tile, step, lane, pair);
                        for at in [first, first + 1] {
                            let inside = column < columns && at < depth;
                            let found = inside.then(|| halves.get(column * depth + at)).flatten();
                            all.extend_from_slice(found.unwrap_or(&f16::ZERO.to_le_bytes()));
                        }
                    }
                }
            }
        }
    }
    all
}

/// Row of the weight, and the first of two elements in it, that a lane has in a pair of its unit.
fn place(tile: usize, step: usize, lane: usize, pair: usize) -> (usize, usize) {
    let (group, quarter) = (lane / 4, lane % 4);
    let column = tile * TILE + group / 2 * 4 + pair / 2 * 2 + group % 2;
    (column, step * STEP + pair % 2 * 8 + quarter * 2)
}

/// Of the stem's first convolution, f16 `[columns, 27]`: words of a lane are a step's, for eight
/// columns after the other. A row of the 3 x 3 kernel is two pairs of taps, of which the first tap
/// has no weight.
pub(super) fn packed_first(weight: &[u8], columns: usize) -> Vec<u8> {
    const EIGHTS: usize = MIDDLE / 8;
    const ROWS: usize = CHANNELS * 3;
    let (halves, _) = weight.as_chunks::<2>();
    let mut all = Vec::with_capacity(FIRST_WORDS * LANES * 4);
    for unit in 0..FIRST_WORDS / UNIT {
        for (lane, word) in (0..LANES).flat_map(|lane| (0..UNIT).map(move |word| (lane, word))) {
            let word = unit * UNIT + word;
            let column = word / 2 % EIGHTS * 8 + lane / 4;
            let pair = word / (2 * EIGHTS) * 8 + word % 2 * 4 + lane % 4;
            for half in 0..2 {
                let tap = (pair % 2 * 2 + half).checked_sub(1).filter(|_| pair / 2 < ROWS);
                let of = |tap: usize| halves.get(column * ROWS * 3 + pair / 2 * 3 + tap);
                let found = tap.filter(|_| column < columns).and_then(of);
                all.extend_from_slice(found.unwrap_or(&f16::ZERO.to_le_bytes()));
            }
        }
    }
    all
}

/// Of the stem's second convolution, f16 `[columns, 9 middle]`, of which a row has the taps of a
/// channel side by side: as [`packed()`], with a tap's channels side by side and zeros up to the
/// kernel's columns.
pub(super) fn packed_second(
    weight: &[u8],
    columns: usize,
    middle: usize,
    widest: usize,
) -> Vec<u8> {
    let (halves, _) = weight.as_chunks::<2>();
    let mut ordered = Vec::with_capacity(widest * TAPS * MIDDLE * 2);
    for (column, tap) in (0..widest).flat_map(|column| (0..TAPS).map(move |tap| (column, tap))) {
        for channel in 0..MIDDLE {
            let inside = column < columns && channel < middle;
            let at = (column * middle + channel) * TAPS + tap;
            let found = inside.then(|| halves.get(at)).flatten();
            ordered.extend_from_slice(found.unwrap_or(&f16::ZERO.to_le_bytes()));
        }
    }
    packed(&ordered, widest, TAPS * MIDDLE, widest / TILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_weight_has_one_place_and_the_rest_is_zeros() {
        for (columns, depth, tiles) in
            [(16, 16, 1), (24, 40, 1), (96, 48, 2), (48, 96, 1), (16, 24, 2)]
        {
            let count = columns * depth;
            let weight: Vec<u8> = (1..=count).flat_map(|at| (at as u16).to_le_bytes()).collect();
            let packed = packed(&weight, columns, depth, tiles);
            let warps = columns.div_ceil(TILE).div_ceil(tiles);
            assert_eq!(packed.len(), warps * tiles * depth.div_ceil(STEP) * PACKED * 2);
            assert_each_once(&packed, count);
        }
    }

    /// Each of `1..=count` has one place in these halves, and the rest is zeros.
    fn assert_each_once(packed: &[u8], count: usize) {
        let (halves, _) = packed.as_chunks::<2>();
        let mut found: Vec<u16> = halves.iter().map(|two| u16::from_le_bytes(*two)).collect();
        found.sort_unstable();
        let zeros = found.len() - count;
        assert!(found[..zeros].iter().all(|value| *value == 0));
        assert!(found[zeros..].iter().enumerate().all(|(at, value)| *value as usize == at + 1));
    }

    #[test]
    fn weights_of_the_stem_have_one_place_each() {
        let counted = |count: usize| -> Vec<u8> {
            (1..=count).flat_map(|at| (at as u16).to_le_bytes()).collect()
        };
        for columns in [8, 24] {
            let packed = packed_first(&counted(columns * 27), columns);
            assert_eq!(packed.len(), FIRST_WORDS * LANES * 4);
            assert_each_once(&packed, columns * 27);
        }
        for (columns, middle) in [(16, 8), (48, 24)] {
            let packed = packed_second(&counted(columns * middle * 9), columns, middle, 48);
            assert_eq!(packed.len(), 3 * 14 * PACKED * 2);
            assert_each_once(&packed, columns * middle * 9);
        }
    }

    #[test]
    fn a_lane_has_four_columns_side_by_side() {
        // Lane 0 gets the results of columns 0 to 3: of the right factor these are the columns of
        // the lanes 0 and 4, in the first two pairs and the last two.
        let columns =
            [(0, 0), (4, 0), (0, 2), (4, 2)].map(|(lane, pair)| place(0, 0, lane, pair).0);
        assert_eq!(columns, [0, 1, 2, 3]);
        assert_eq!(place(1, 2, 31, 3), (16 + 12 + 2 + 1, 32 + 8 + 6));
    }
}
