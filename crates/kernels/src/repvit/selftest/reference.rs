/*!
A block in float64, which rounds nothing.
*/

use rayon::prelude::*;

use super::drawn::{DrawnBlock, Layer, TAPS};
use crate::selftest::f64_reference::{dot, gelu};
use vos::bundle::trunk::RepVitBlock;

/// z of the tokens in `wanted`; of all others zeros.
pub fn block(shape: &RepVitBlock, drawn: &DrawnBlock, x: &[f64], wanted: &[bool]) -> Vec<f64> {
    let gate = gate(shape, drawn, x);
    let token = |(at, wanted): (usize, &bool)| {
        if !wanted {
            return vec![0.0; shape.dim_out];
        }
        let mut y = convolved(shape, drawn, x, at);
        y.iter_mut().zip(&gate).for_each(|(value, factor)| *value *= factor);
        if let Some(layer) = &drawn.pointwise {
            y = product(layer, &y);
        }
        let hidden: Vec<f64> = product(&drawn.up, &y).into_iter().map(gelu).collect();
        let sums = product(&drawn.down, &hidden);
        y.iter().zip(sums).map(|(value, sum)| value + sum).collect()
    };
    wanted.par_iter().enumerate().flat_map_iter(token).collect()
}

/// All channels of the convolution's result `at`.
fn convolved(shape: &RepVitBlock, drawn: &DrawnBlock, x: &[f64], at: usize) -> Vec<f64> {
    let RepVitBlock { dim, grid, stride, .. } = *shape;
    let (row, column) = (at / shape.grid_out() * stride, at % shape.grid_out() * stride);
    let mut sums: Vec<f64> = drawn.depthwise.bias.iter().map(|bias| f64::from(*bias)).collect();
    for tap in 0..TAPS {
        // One row and one column before the first.
        let (y, x_at) = (row + tap / 3, column + tap % 3);
        if !(1..=grid).contains(&y) || !(1..=grid).contains(&x_at) {
            continue;
        }
        let token = &x[((y - 1) * grid + x_at - 1) * dim..][..dim];
        let weights = &drawn.depthwise.weight[tap * dim..][..dim];
        for (sum, (value, weight)) in sums.iter_mut().zip(token.iter().zip(weights)) {
            *sum += value * weight.to_f64();
        }
    }
    sums
}

/// Factors of the channels: 1 without squeeze-and-excite.
fn gate(shape: &RepVitBlock, drawn: &DrawnBlock, x: &[f64]) -> Vec<f64> {
    let Some([squeeze, excite]) = &drawn.squeeze else { return vec![1.0; shape.dim] };
    let rows: Vec<Vec<f64>> = (0..shape.grid_out())
        .into_par_iter()
        .map(|row| {
            let mut sums = vec![0.0; shape.dim];
            for column in 0..shape.grid_out() {
                let token = convolved(shape, drawn, x, row * shape.grid_out() + column);
                sums.iter_mut().zip(token).for_each(|(sum, value)| *sum += value);
            }
            sums
        })
        .collect();
    let count = shape.tokens_out() as f64;
    let mean = |channel: usize| rows.iter().map(|row| row[channel]).sum::<f64>() / count;
    let means: Vec<f64> = (0..shape.dim).map(mean).collect();
    let squeezed: Vec<f64> = product(squeeze, &means).into_iter().map(|x| x.max(0.0)).collect();
    product(excite, &squeezed).into_iter().map(|x| (1.0 + (-x).exp()).recip()).collect()
}

fn product(layer: &Layer, of: &[f64]) -> Vec<f64> {
    let rows = layer.weight.chunks(of.len()).zip(&layer.bias);
    rows.map(|(row, bias)| dot(of, row) + f64::from(*bias)).collect()
}
