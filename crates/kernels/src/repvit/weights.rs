/*!
The weights of all blocks on the device, in one piece of memory.
*/

use anyhow::{Context, Result, ensure};
use half::f16;

use super::packed::packed;
use crate::device_weights::{Affine, DeviceWeights};
use cuda::{Gpu, Stream, View};
use vos::bundle::trunk::{LayerBytes, RepVitBlock, RepVitWeights};

/// Places of a 3 x 3 kernel, row by row.
const TAPS: usize = 9;

/// Squeeze-and-excite of one block.
#[derive(Debug)]
pub(super) struct Excite {
    pub squeeze: Affine,
    /// Transposed for a block of one launch.
    pub excite: Affine,
    /// What a token's channels count in the sums of the convolution, by the token's edge: f32
    /// `[9, dim]`.
    pub edges: View,
}

/// The weights of one block.
#[derive(Debug)]
pub(super) struct DeviceBlock {
    /// f32 `[9, dim]`, `[dim]`.
    pub depthwise: Affine,
    pub excite: Option<Excite>,
    /// Packed, as are the next two.
    pub pointwise: Option<Affine>,
    pub up: Affine,
    pub down: Affine,
}

/// Uploads all blocks' weights; of each block also whether one launch computes it, which takes
/// another order.
///
/// # Errors
/// Weights of another size than the block's, too little memory, or another error of the driver.
pub(super) fn load(
    gpu: &Gpu,
    blocks: &[(RepVitBlock, bool)],
    weights: &[RepVitWeights],
    stream: &Stream,
) -> Result<Vec<DeviceBlock>> {
    let mut tensors = Vec::new();
    for (at, ((block, fused), weights)) in blocks.iter().zip(weights).enumerate() {
        let all = laid_out(block, *fused, weights).with_context(|| format!("block {at}"))?;
        tensors.extend(all.into_iter().map(|(name, bytes)| (format!("{at}.{name}"), bytes)));
    }
    let views: Vec<(String, &[u8])> =
        tensors.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
    let loaded = DeviceWeights::upload(gpu, &views, stream).context("the weights of the blocks")?;
    let each = blocks.iter().enumerate().map(|(at, (block, _))| {
        let layer = |name: &str| loaded.layer(&format!("{at}.{name}"));
        let excite = || -> Result<Excite> {
            let edges = loaded.one(&format!("{at}.edges"))?;
            Ok(Excite { squeeze: layer("squeeze")?, excite: layer("excite")?, edges })
        };
        Ok(DeviceBlock {
            depthwise: layer("dw")?,
            excite: (block.squeeze > 0).then(excite).transpose()?,
            pointwise: block.changes_columns().then(|| layer("pw")).transpose()?,
            up: layer("up")?,
            down: layer("down")?,
        })
    });
    each.collect()
}

/// A block's tensors as the kernels take them.
fn laid_out(
    block: &RepVitBlock,
    fused: bool,
    weights: &RepVitWeights,
) -> Result<Vec<(String, Vec<u8>)>> {
    let RepVitBlock { dim, dim_out, squeeze, hidden, .. } = *block;
    let mut all = Vec::new();
    let mut put = |name: &str, layer: LayerBytes, weight: Vec<u8>| {
        all.push((format!("{name}.weight"), weight));
        all.push((format!("{name}.bias"), layer.bias.to_vec()));
    };
    let size = |name: &str, layer: &LayerBytes, elements: usize, rows: usize| {
        let (found, expected) = ((layer.weight.len(), layer.bias.len()), (2 * elements, 4 * rows));
        ensure!(found == expected, "{name} has {found:?} bytes, {expected:?} are expected");
        Ok(())
    };
    size("the depthwise convolution", &weights.depthwise, TAPS * dim, dim)?;
    let (halves, _) = weights.depthwise.weight.as_chunks::<2>();
    let taps: Vec<f32> = halves.iter().map(|two| f16::from_le_bytes(*two).to_f32()).collect();
    put("dw", weights.depthwise, floats(&taps));
    if squeeze > 0 {
        let both = weights.squeeze.zip(weights.excite);
        let (first, last) = both.context("no squeeze-and-excite among the weights")?;
        size("the squeeze", &first, squeeze * dim, squeeze)?;
        size("the excite", &last, dim * squeeze, dim)?;
        put("squeeze", first, first.weight.to_vec());
        let natural = last.weight.to_vec();
        put("excite", last, if fused { transposed(&natural, squeeze) } else { natural });
    }
    if block.changes_columns() {
        let layer = weights.pointwise.context("no product to other columns among the weights")?;
        size("the product to other columns", &layer, dim_out * dim, dim_out)?;
        put("pw", layer, packed(layer.weight, dim_out, dim, 1));
    }
    size("the first product", &weights.up, hidden * dim_out, hidden)?;
    size("the second product", &weights.down, dim_out * hidden, dim_out)?;
    let tiles = if fused { 2 } else { 1 };
    put("up", weights.up, packed(weights.up.weight, hidden, dim_out, tiles));
    put("down", weights.down, packed(weights.down.weight, dim_out, hidden, 1));
    if squeeze > 0 {
        all.push(("edges".to_owned(), floats(&edges(&taps, dim))));
    }
    Ok(all)
}

/// For a token in the first, an inner or the last row, and so for its column: the sum of the taps
/// that take it, of each channel. A tap whose result would lie beyond the map does not.
fn edges(taps: &[f32], dim: usize) -> Vec<f32> {
    let takes = |edge: usize, tap: usize| !matches!((edge, tap), (0, 2) | (2, 0));
    let mut all = vec![0.0; TAPS * dim];
    for (place, sums) in all.chunks_mut(dim.max(1)).enumerate() {
        for (tap, row) in taps.chunks(dim.max(1)).enumerate() {
            if takes(place / 3, tap / 3) && takes(place % 3, tap % 3) {
                sums.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight);
            }
        }
    }
    all
}

/// A matrix of halves with so many columns, column by column.
fn transposed(halves: &[u8], columns: usize) -> Vec<u8> {
    let (halves, _) = halves.as_chunks::<2>();
    let column = |at: usize| halves.iter().skip(at).step_by(columns.max(1));
    (0..columns).flat_map(column).flatten().copied().collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of a convolution's results is the sum of tokens by their edges.
    #[test]
    fn edges_sum_a_convolution() {
        for side in [2, 3, 5] {
            let taps: Vec<f32> = (0..9).map(|at| (at * at + 1) as f32).collect();
            let token = |y: usize, x: usize| (3 * y * y + 7 * x + 1) as f32;
            let inside =
                |at: usize, tap: usize| (1..=side).contains(&(at + tap)).then(|| at + tap - 1);
            let mut direct = 0.0;
            for (y, x) in (0..side * side).map(|at| (at / side, at % side)) {
                for (tap, weight) in taps.iter().enumerate() {
                    if let Some((y, x)) = inside(y, tap / 3).zip(inside(x, tap % 3)) {
                        direct += weight * token(y, x);
                    }
                }
            }
            let edge = |at: usize| {
                if at == 0 {
                    0
                } else if at == side - 1 {
                    2
                } else {
                    1
                }
            };
            let edges = edges(&taps, 1);
            let sum: f32 = (0..side * side)
                .map(|at| (at / side, at % side))
                .map(|(y, x)| edges[edge(y) * 3 + edge(x)] * token(y, x))
                .sum();
            assert_eq!(sum, direct, "{side}");
        }
    }
}
