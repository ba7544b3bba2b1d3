/*!
The weights of a fused block in the order in which its kernel uses them (`cuda/hiera_block.cu`,
`cuda/hiera_block_windows.cu`): a stream of units of equal size. A unit has 16 rows of a weight, all
columns, or 16 columns, all rows, as fragments of `mma.m16n8k16`, then 16 biases in f32.

Where an operand's columns are those of the residual, a lane has four neighbours of each 16.
*/

use anyhow::{Result, ensure};
use half::f16;

use super::Shape;
use crate::constants::constant;
use crate::hiera::shapes::MLP_RATIO;
use vos::bundle::trunk::{HieraWeights, LayerBytes};

/// Columns of a unit of packed weights, and depth of a step.
pub(super) const TILE: usize = constant!(HieraBlock96, "TILE") as usize;
pub(super) const STEP: usize = constant!(HieraBlock96, "STEP") as usize;
/// Bytes of 16 columns of a step, and of a unit's biases.
pub(super) const FRAGMENTS: usize = constant!(HieraBlock96, "FRAGMENTS") as usize;
pub(super) const BIASES: usize = constant!(HieraBlock96, "BIASES") as usize;
const LANES: usize = 32;
/// Words of a lane's part of a fragment; the odd ones have the second half of the depth.
const WORDS: usize = 4;

const _: () = assert!(TILE == STEP && FRAGMENTS == LANES * WORDS * 4 && BIASES == 4 * TILE);

/// A layer of an MLP or an attention.
pub(super) struct Layer<'a> {
    columns: usize,
    weight: &'a [[u8; 2]],
    bias: Vec<f32>,
}

impl<'a> Layer<'a> {
    /// Of so many rows and columns; the bias is f16 or f32.
    ///
    /// # Errors
    /// Weights of another size.
    pub fn new(what: &str, bytes: LayerBytes<'a>, rows: usize, columns: usize) -> Result<Self> {
        let weight = bytes.weight.as_chunks::<2>().0;
        let bias: Vec<f32> = if bytes.bias.len() == 2 * rows {
            bytes.bias.as_chunks().0.iter().map(|two| f16::from_le_bytes(*two).to_f32()).collect()
        } else {
            bytes.bias.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
        };
        ensure!(
            weight.len() == rows * columns && bias.len() == rows,
            "{what} has {} weights and {} biases, {} and {rows} are expected",
            weight.len(),
            bias.len(),
            rows * columns
        );
        Ok(Self { columns, weight, bias })
    }
}

/// Place `at` of a step in an operand that has the residual's columns: two words of a lane are four
/// neighbours.
pub(super) fn by_four(at: usize) -> usize {
    at % 8 / 2 * 4 + at / 8 * 2 + at % 2
}

/// The stream as it grows.
pub(super) struct Units(pub Vec<u8>);

impl Units {
    /// 16 rows by 16 columns; zeros where there is no such row or column.
    pub fn fragments(
        &mut self,
        layer: &Layer,
        row: impl Fn(usize) -> Option<usize>,
        column: impl Fn(usize) -> Option<usize>,
    ) {
        for (lane, word) in (0..LANES).flat_map(|lane| (0..WORDS).map(move |word| (lane, word))) {
            let row = row(word / 2 * 8 + lane / 4);
            for half in 0..2 {
                let column = column(word % 2 * 8 + lane % 4 * 2 + half);
                let at = row.zip(column).map(|(row, column)| row * layer.columns + column);
                let found = at.and_then(|at| layer.weight.get(at));
                self.0.extend_from_slice(found.unwrap_or(&[0; 2]));
            }
        }
    }

    /// A unit of 16 rows, which take normalised tokens.
    pub fn rows(&mut self, layer: &Layer, row: impl Fn(usize) -> Option<usize>) {
        for step in 0..layer.columns / STEP {
            self.fragments(layer, &row, |at| Some(step * STEP + by_four(at)));
        }
        for at in 0..TILE {
            let bias = row(at).and_then(|row| layer.bias.get(row)).copied().unwrap_or(0.0);
            self.0.extend_from_slice(&bias.to_le_bytes());
        }
    }

    /// A unit of 16 columns, whose rows are the residual's; their biases come with the next norm.
    fn columns(&mut self, layer: &Layer, column: impl Fn(usize) -> Option<usize>) {
        for tile in 0..layer.bias.len() / TILE {
            self.fragments(layer, |at| Some(tile * TILE + by_four(at)), &column);
        }
        self.0.resize(self.0.len() + BIASES, 0);
    }
}

/// The units up to the projection: of each head queries, padded, then keys and values.
fn attention(units: &mut Units, shape: &Shape, qkv: &Layer, proj: &Layer) {
    let Shape { columns, heads, .. } = *shape;
    let depth = columns / heads;
    for head in (0..heads).map(|head| head * depth) {
        for tile in 0..depth.div_ceil(TILE) {
            let row = |at| Some(tile * TILE + at).filter(|at| *at < depth).map(|at| head + at);
            units.rows(qkv, row);
        }
        // Keys, then values; a tile may have both.
        for tile in 0..2 * depth / TILE {
            let row = |at| {
                let at = tile * TILE + at;
                Some((1 + at / depth) * columns + head + at % depth)
            };
            units.rows(qkv, row);
        }
    }
    for first in (0..columns).step_by(TILE) {
        units.columns(proj, |at| Some(first + at));
    }
}

/// The same in the order of `cuda/hiera_block_windows.cu`: of each head queries and keys in turn,
/// then values and the projection's columns for them in turn. All are padded.
fn attention_of_small_windows(units: &mut Units, shape: &Shape, qkv: &Layer, proj: &Layer) {
    let Shape { columns, heads, .. } = *shape;
    let depth = columns / heads;
    for head in (0..heads).map(|head| head * depth) {
        let tiles = || (0..depth).step_by(TILE);
        let of = |part: usize, tile: usize| {
            move |at: usize| {
                let at = tile + at;
                (at < depth).then_some(part * columns + head + at)
            }
        };
        for tile in tiles() {
            units.rows(qkv, of(0, tile));
            units.rows(qkv, of(1, tile));
        }
        for tile in tiles() {
            units.rows(qkv, of(2, tile));
            units.columns(proj, of(0, tile));
        }
    }
}

/// The units of a block.
///
/// # Errors
/// Weights of other sizes.
pub(super) fn units(shape: &Shape, weights: &HieraWeights) -> Result<Vec<u8>> {
    let columns = shape.columns;
    let hidden = MLP_RATIO * columns;
    let qkv = Layer::new("qkv", weights.qkv, 3 * columns, columns)?;
    let proj = Layer::new("proj", weights.proj, columns, columns)?;
    let up = Layer::new("up", weights.up, hidden, columns)?;
    let down = Layer::new("down", weights.down, columns, hidden)?;
    let mut units = Units(Vec::new());
    if shape.has_small_windows() {
        attention_of_small_windows(&mut units, shape, &qkv, &proj);
    } else {
        attention(&mut units, shape, &qkv, &proj);
    }
    // The next columns of the hidden layer come in front of what takes the last ones.
    for first in (0..=hidden).step_by(TILE) {
        if first < hidden {
            units.rows(&up, |at| Some(first + at));
        }
        if let Some(last) = first.checked_sub(TILE) {
            units.columns(&down, |at| Some(last + at));
        }
    }
    Ok(units.0)
}

/// What the kernel adds and normalises by, f32 `[3, 3, columns]`: no bias, then weight and bias of
/// the first norm; the projection's bias and the second norm; the MLP's bias and the next block's
/// norm, zeros if there is none.
///
/// # Errors
/// Vectors of other sizes.
pub(super) fn vectors(
    columns: usize,
    weights: &HieraWeights,
    next: Option<LayerBytes>,
) -> Result<Vec<u8>> {
    let nothing = vec![0; 4 * columns];
    let HieraWeights { norm1, norm2, proj, down, .. } = weights;
    let next = next.map_or([&nothing[..]; 2], |next| [next.weight, next.bias]);
    let all = [
        &nothing[..],
        norm1.weight,
        norm1.bias,
        proj.bias,
        norm2.weight,
        norm2.bias,
        down.bias,
        next[0],
        next[1],
    ];
    ensure!(
        all.iter().all(|one| one.len() == 4 * columns),
        "norms and biases of a block of {columns} columns have {:?} bytes",
        all.map(<[u8]>::len)
    );
    Ok(all.concat())
}

#[cfg(test)]
mod tests {
    use super::super::SHAPES;
    use super::*;

    #[test]
    fn each_weight_has_one_place_and_the_rest_is_zeros_and_biases() {
        for shape in &SHAPES {
            let c = shape.columns;
            let norm = vec![0; 4 * c];
            let norm = LayerBytes { weight: &norm, bias: &norm };
            // Weights of a layer are all the same number, so that each layer is counted.
            let layer = |value: u16, rows: usize, columns: usize, bias: usize| {
                (value.to_le_bytes().repeat(rows * columns), vec![0; bias * rows])
            };
            let layers = [
                layer(1, 3 * c, c, 2),
                layer(2, c, c, 4),
                layer(3, 4 * c, c, 2),
                layer(4, c, 4 * c, 4),
            ];
            let [qkv, proj, up, down] =
                layers.each_ref().map(|(weight, bias)| LayerBytes { weight, bias });
            let block = HieraWeights { norm1: norm, skip: None, qkv, proj, norm2: norm, up, down };
            let units = units(shape, &block).unwrap();
            let unit = c / STEP * FRAGMENTS + BIASES;
            assert_eq!(units.len() % unit, 0);
            let mut counts = [0; 5];
            for two in units.as_chunks::<2>().0 {
                counts[usize::from(u16::from_le_bytes(*two))] += 1;
            }
            assert_eq!(counts[1..], [3 * c * c, c * c, 4 * c * c, 4 * c * c], "{c}");
            assert_eq!(vectors(c, &block, None).unwrap().len(), 9 * 4 * c);
            assert!(vectors(c + 8, &block, None).is_err());
            assert!(super::units(shape, &HieraWeights { up: down, ..block }).is_err());
        }
    }

    #[test]
    fn a_lane_has_four_neighbours_of_the_residual() {
        // Lane 0 has the places 0, 1, 8 and 9 of a step, lane 3 6, 7, 14 and 15.
        assert_eq!([0, 1, 8, 9].map(by_four), [0, 1, 2, 3]);
        assert_eq!([6, 7, 14, 15].map(by_four), [12, 13, 14, 15]);
    }
}
