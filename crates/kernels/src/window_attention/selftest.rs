//! Cases of window attention against float64.

use anyhow::Result;
use rayon::prelude::*;

use super::{WindowAttention, WindowShape};
use crate::HieraKernels;
use crate::hiera::selftest::{DRAWN, SAMPLE, bytes_of_halves, check_near, drawn, halves, repeated};
use crate::selftest::f64_reference::{add, dot};
use crate::selftest::{Bench, Checked, Planned, row};
use cuda::LaunchMode;

/// Map, window, heads, columns of a head, pooled.
type Shape = (usize, usize, usize, usize, bool);

/// The blocks of tiny, base+ and large at 1024 pixels (the first of a stage has the windows of the
/// stage before), then odd ones. Some divide the queries of a window over two blocks (on a GPU of a
/// hundred multiprocessors), also at the edges of the map.
const SHAPES: [Shape; 40] = [
    (256, 8, 1, 96, false),
    (256, 8, 2, 96, true),
    (128, 4, 2, 96, false),
    (128, 4, 4, 96, true),
    (64, 14, 4, 96, false),
    (64, 14, 8, 96, true),
    (32, 7, 8, 96, false),
    (256, 8, 2, 56, false),
    (256, 8, 4, 56, true),
    (128, 4, 4, 56, false),
    (128, 4, 8, 56, true),
    (64, 14, 8, 56, false),
    (64, 14, 16, 56, true),
    (32, 7, 16, 56, false),
    (256, 8, 2, 72, false),
    (256, 8, 4, 72, true),
    (128, 4, 4, 72, false),
    (128, 4, 8, 72, true),
    (64, 16, 8, 72, false),
    (64, 16, 16, 72, true),
    (32, 8, 16, 72, false),
    (16, 4, 1, 8, false),
    (16, 3, 2, 8, false),
    (16, 6, 2, 8, true),
    (20, 14, 2, 96, true),
    (20, 16, 1, 64, false),
    (20, 14, 1, 80, false),
    (11, 11, 1, 88, false),
    (6, 2, 3, 24, true),
    (5, 1, 1, 16, false),
    (40, 14, 16, 40, false),
    (24, 16, 2, 64, false),
    (20, 14, 2, 8, false),
    (20, 15, 2, 56, false),
    (13, 10, 1, 24, false),
    (30, 12, 2, 48, false),
    (3, 16, 1, 32, false),
    (9, 9, 1, 72, false),
    (33, 13, 3, 96, false),
    (64, 14, 2, 72, false),
];

/// A shape, and its kernels or the reason for none. On Hopper the kernel for any GPU follows, so
/// that one run times both.
type Case = (WindowShape, Vec<Result<WindowAttention>>);

/// The cases.
pub(crate) fn planned(bench: &Bench, kernels: &HieraKernels) -> Vec<Planned<Case>> {
    let cases = SHAPES.map(|(grid, window, heads, depth, pooled)| {
        let shape = WindowShape { grid, window, heads, depth, pooled };
        let mut variants = vec![kernels.window_attention(shape)];
        if variants[0].as_ref().is_ok_and(WindowAttention::is_hopper) {
            variants.push(kernels.window_attention_any_gpu(shape));
        }
        (shape, variants)
    });
    let elements = |shape: &WindowShape| shape.tokens_out() * shape.columns();
    bench.planned(cases, |(shape, variants)| (elements(shape), variants.len()))
}

/// A row for each case and variant.
pub(crate) fn judge(bench: &Bench, cases: Vec<Planned<Case>>) {
    let seed = bench.seed;
    bench.each(
        &cases,
        |(shape, _)| Data::new(seed, *shape),
        |(WindowShape { grid, window, heads, depth, pooled }, variants), data| {
            let pooled = if *pooled { ", pooled" } else { "" };
            let case = format!(
                "{grid} x {grid}, windows of {window} x {window}, {heads} heads of {depth}{pooled}"
            );
            for made in variants {
                let hopper = made.as_ref().is_ok_and(WindowAttention::is_hopper);
                let what = if hopper { "window attention hopper" } else { "window attention" };
                let made = made.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"));
                let checked = made.and_then(|made| data.check(bench, made.clone()));
                bench.found(row(what, &case, checked));
            }
        },
    );
}

/// Inputs of a shape, and what must come out.
struct Data {
    shape: WindowShape,
    qkv: Vec<u8>,
    bias: Vec<u8>,
    expected: Vec<(usize, Vec<f64>)>,
}

impl Data {
    fn new(seed: u64, shape: WindowShape) -> Self {
        // Scores with a deviation of about 2; a token has queries, then keys, then values.
        let mut values = drawn(seed, "trunk windows");
        let scale = (2.0 / (shape.depth as f32).sqrt()).sqrt();
        values.iter_mut().for_each(|value| *value *= scale);
        let drawn = halves(&values);
        let bias = &drawn[DRAWN - 3 * shape.columns()..];
        let window = Window {
            shape,
            values: drawn.iter().map(|value| f64::from(value.to_f32())).collect(),
            bias: bias.iter().map(|value| value.to_f32()).map(f64::from).collect(),
        };
        let tokens = shape.tokens_out();
        let places = (0..tokens).step_by((tokens / SAMPLE) | 1);
        let places: Vec<(usize, usize)> =
            places.flat_map(|token| (0..shape.heads).map(move |head| (token, head))).collect();
        let of = |(token, head)| (token * shape.heads + head, window.attend(token, head));
        let expected = places.into_par_iter().map(of);
        Self {
            shape,
            qkv: repeated(&bytes_of_halves(&drawn), 2 * 3 * shape.tokens() * shape.columns()),
            bias: bytes_of_halves(bias),
            expected: expected.collect(),
        }
    }

    fn check(&self, bench: &Bench, attention: WindowAttention) -> Result<Checked> {
        let (qkv, bias) = (bench.put(&self.qkv)?, bench.put(&self.bias)?);
        let out = bench.poisoned(2 * self.shape.tokens_out() * self.shape.columns())?;
        let to = out.clone();
        check_near(bench, &out, &self.expected, self.shape.depth, move |stream| {
            attention.enqueue([&qkv, &bias, &to], LaunchMode::Ordered, stream)
        })
    }
}

/// Window attention in float64, query by query.
struct Window {
    shape: WindowShape,
    values: Vec<f64>,
    bias: Vec<f64>,
}

impl Window {
    /// Columns of a head of a token's queries (part 0), keys or values; of a padding token, the
    /// bias.
    fn part(&self, [y, x]: [usize; 2], part: usize, head: usize) -> Vec<f64> {
        let WindowShape { grid, depth, .. } = self.shape;
        let (columns, start) =
            (3 * self.shape.columns(), part * self.shape.columns() + head * depth);
        if y >= grid || x >= grid {
            return self.bias[start..start + depth].to_vec();
        }
        let start = (y * grid + x) * columns + start;
        (start..start + depth).map(|at| self.values[at % DRAWN]).collect()
    }

    fn attend(&self, token: usize, head: usize) -> Vec<f64> {
        let WindowShape { grid, window, depth, pooled, .. } = self.shape;
        let factor = if pooled { 2 } else { 1 };
        let [y, x] = [token / (grid / factor), token % (grid / factor)].map(|at| at * factor);
        let mut query = vec![f64::NEG_INFINITY; depth];
        for at in 0..factor * factor {
            let of = self.part([y + at / factor, x + at % factor], 0, head);
            query.iter_mut().zip(of).for_each(|(most, value)| *most = most.max(value));
        }
        let [top, left] = [y, x].map(|at| at / window * window);
        let key = |at: usize| [top + at / window, left + at % window];
        let scores: Vec<f64> =
            (0..window * window).map(|at| dot(&query, &self.part(key(at), 1, head))).collect();
        let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut total, mut result) = (0.0, vec![0.0; depth]);
        for (at, score) in scores.iter().enumerate() {
            let weight = (score - greatest).exp();
            total += weight;
            add(&mut result, weight, &self.part(key(at), 2, head));
        }
        result.iter_mut().for_each(|sum| *sum /= total);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_tokens_take_part_as_keys() {
        // A map of one token in a window of four: the others have the bias, whose key scores as the
        // token's does.
        let shape = WindowShape { grid: 1, window: 2, heads: 1, depth: 8, pooled: false };
        let mut values = vec![0.0; DRAWN];
        values[16..24].fill(4.0);
        let window = Window { shape, values, bias: vec![0.0; 24] };
        assert_eq!(window.attend(0, 0), [1.0; 8]);
    }
}
