/*!
The weights of a fused transition in the order in which its kernel uses them
(`cuda/hiera_transition.cu`): units as in `packed`. A last unit has the vectors of bias and norm.
*/

use anyhow::{Context, Result, ensure};

use super::Shape;
use super::packed::{BIASES, FRAGMENTS, Layer, STEP, TILE, Units, by_four};
use vos::bundle::trunk::HieraWeights;

/// Half of a tile.
const HALF: usize = TILE / 2;

/// The units of a transition.
///
/// # Errors
/// Weights of other sizes.
pub(super) fn units(shape: &Shape, weights: &HieraWeights) -> Result<Vec<u8>> {
    let Shape { columns, heads, .. } = *shape;
    let wide = 2 * columns;
    let depth = wide / heads;
    // Whole tiles of a head; a further half has both queries and keys.
    let (whole, half) = (depth / TILE, !depth.is_multiple_of(TILE));
    let HieraWeights { skip, qkv, proj, norm2, .. } = *weights;
    let skip = skip.context("a transition needs the projection of its shortcut")?;
    let skip = Layer::new("skip", skip, wide, columns)?;
    let qkv = Layer::new("qkv", qkv, 3 * wide, columns)?;
    let vectors = [proj.bias, norm2.weight, norm2.bias];
    let proj = Layer::new("proj", proj, wide, wide)?;
    ensure!(
        vectors.iter().all(|one| one.len() == 4 * wide),
        "norm and bias of a transition to {wide} columns have {:?} bytes",
        vectors.map(<[u8]>::len)
    );
    let mut units = Units(Vec::new());
    for head in (0..heads).map(|head| head * depth) {
        for tile in (0..whole).map(|tile| head + tile * TILE) {
            units.rows(&qkv, |at| Some(tile + at));
            units.rows(&qkv, |at| Some(wide + tile + at));
        }
        let rest = head + whole * TILE;
        if half {
            units.rows(&qkv, |at| Some(at / HALF * wide + rest + at % HALF));
        }
        for tile in (0..depth).step_by(TILE) {
            let row = |at| Some(tile + at).filter(|at| *at < depth);
            units.rows(&qkv, |at| row(at).map(|at| 2 * wide + head + at));
        }
    }
    for tile in (0..wide).step_by(TILE) {
        units.rows(&skip, |at| Some(tile + by_four(at)));
    }
    for step in 0..wide / STEP {
        // Behind whole tiles of all heads come the halves, of two heads in one step.
        let column = |at: usize| match step.checked_sub(heads * whole) {
            None => step / whole * depth + step % whole * STEP + at,
            Some(pair) => (2 * pair + at / HALF) * depth + whole * TILE + at % HALF,
        };
        for tile in 0..wide / TILE {
            units.fragments(&proj, |at| Some(tile * TILE + by_four(at)), |at| Some(column(at)));
            if (tile + 1).is_multiple_of(columns / TILE) {
                units.0.resize(units.0.len() + BIASES, 0);
            }
        }
    }
    let end = units.0.len() + columns / STEP * FRAGMENTS + BIASES;
    vectors.iter().for_each(|one| units.0.extend_from_slice(one));
    units.0.resize(end, 0);
    Ok(units.0)
}

#[cfg(test)]
mod tests {
    use super::super::transition::TRANSITIONS;
    use super::*;
    use vos::bundle::trunk::LayerBytes;

    #[test]
    fn each_weight_has_one_place_and_the_rest_is_zeros() {
        for shape in &TRANSITIONS {
            let (c, wide) = (shape.columns, 2 * shape.columns);
            let norm = vec![0; 4 * wide];
            let norm = LayerBytes { weight: &norm, bias: &norm };
            // Weights of a layer are all the same number, so that each layer is counted.
            let layer = |value: u16, rows: usize, columns: usize, bias: usize| {
                (value.to_le_bytes().repeat(rows * columns), vec![0; bias * rows])
            };
            let layers = [layer(1, 3 * wide, c, 2), layer(2, wide, c, 2), layer(3, wide, wide, 4)];
            let [qkv, skip, proj] =
                layers.each_ref().map(|(weight, bias)| LayerBytes { weight, bias });
            let nothing = LayerBytes { weight: &[], bias: &[] };
            let block = HieraWeights {
                norm1: nothing,
                skip: Some(skip),
                qkv,
                proj,
                norm2: norm,
                up: nothing,
                down: nothing,
            };
            let units = units(shape, &block).unwrap();
            let unit = c / STEP * FRAGMENTS + BIASES;
            assert_eq!(units.len() % unit, 0);
            let mut counts = [0; 4];
            for two in units.as_chunks::<2>().0 {
                counts[usize::from(u16::from_le_bytes(*two))] += 1;
            }
            assert_eq!(counts[1..], [3 * wide * c, wide * c, wide * wide], "{c}");
            for wrong in [
                HieraWeights { skip: None, ..block },
                HieraWeights { proj: skip, ..block },
                HieraWeights { norm2: nothing, ..block },
            ] {
                assert!(super::units(shape, &wrong).is_err());
            }
        }
    }
}
