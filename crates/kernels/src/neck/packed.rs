/*!
The order in which the kernel reads its weights: left factors of `mma.m16n8k16`, whose results are
planar.

A unit is what a lane reads at once: 16 bytes, its share of 16 columns of the result and 16 of the
depth. The units of a block's columns are side by side for each 16 of the depth, so that a chunk of
the depth is one piece.
*/

use half::f16;

use crate::constants::constant;
use cuda::Element;

/// Columns of the result that a unit serves, and of the depth.
pub(super) const TILE: usize = constant!(Neck, "TILE") as usize;
pub(super) const STEP: usize = constant!(Neck, "STEP") as usize;
/// Halves of all lanes' units.
const PACKED: usize = constant!(Neck, "PACKED") as usize;
const LANES: usize = 32;
/// Pairs of halves of a lane's unit.
const PAIRS: usize = 4;

const _: () = assert!(PACKED == LANES * PAIRS * 2 && PACKED == TILE * STEP);

/// The weight f16 `[columns, depth]`, little-endian, for blocks of so many tiles. Zeros beyond both
/// extents. The order of the depth is that of a lane's tokens, which their type decides.
pub(super) fn packed(
    weight: &[u8],
    columns: usize,
    depth: usize,
    tiles: usize,
    tokens: Element,
) -> Vec<u8> {
    let (halves, _) = weight.as_chunks::<2>();
    let (blocks, steps) = (columns.div_ceil(TILE * tiles), depth.div_ceil(STEP));
    let mut all = Vec::with_capacity(blocks * steps * tiles * PACKED * 2);
    let units = (0..blocks)
        .flat_map(|block| (0..steps).map(move |step| (block, step)))
        .flat_map(|(block, step)| (0..tiles).map(move |tile| (block * tiles + tile, step)));
    for (tile, step) in units {
        for (lane, pair) in (0..LANES).flat_map(|lane| (0..PAIRS).map(move |pair| (lane, pair))) {
            let column = tile * TILE + pair % 2 * 8 + lane / 4;
            let first = step * STEP + first_of(lane, pair, tokens);
            for at in [first, first + 1] {
                let inside = column < columns && at < depth;
                let found = inside.then(|| halves.get(column * depth + at)).flatten();
                all.extend_from_slice(found.unwrap_or(&f16::ZERO.to_le_bytes()));
            }
        }
    }
    all
}

/// The first of a pair's two elements in a step: a lane loads four floats of a token side by side,
/// but halves as the instruction has them.
fn first_of(lane: usize, pair: usize, tokens: Element) -> usize {
    match tokens {
        Element::F32 => lane % 4 * 4 + pair / 2 * 2,
        Element::F16 => pair / 2 * 8 + lane % 4 * 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_weight_has_one_place_and_the_rest_is_zeros() {
        for tokens in [Element::F16, Element::F32] {
            for (columns, depth, tiles) in [(16, 16, 2), (24, 40, 2), (72, 24, 8), (136, 16, 4)] {
                let count = columns * depth;
                let weight: Vec<u8> =
                    (1..=count).flat_map(|at| (at as u16).to_le_bytes()).collect();
                let packed = packed(&weight, columns, depth, tiles, tokens);
                let units = columns.div_ceil(16 * tiles) * tiles * depth.div_ceil(16);
                assert_eq!(packed.len(), units * PACKED * 2);
                let (halves, _) = packed.as_chunks::<2>();
                let mut found: Vec<u16> =
                    halves.iter().map(|two| u16::from_le_bytes(*two)).collect();
                found.sort_unstable();
                let zeros = found.len() - count;
                assert!(found[..zeros].iter().all(|value| *value == 0));
                let counted = found[zeros..].iter().enumerate();
                assert!(counted.into_iter().all(|(at, value)| *value as usize == at + 1));
            }
        }
    }

    #[test]
    fn a_lane_has_four_neighbours_of_floats() {
        let of = |tokens| [0, 2].map(|pair| first_of(1, pair, tokens));
        assert_eq!(of(Element::F32), [4, 6]);
        assert_eq!(of(Element::F16), [2, 10]);
    }
}
