/*!
A whole block in one launch (`cuda/hiera_block.cu`, `cuda/hiera_block_windows.cu`), and the same
block kernel by kernel: both against float64, for some windows of a large map, and both timed in
turn. The next block's norm is compared too; it is no part of the times.
*/

use std::rc::Rc;

use anyhow::Result;
use half::f16;
use rayon::prelude::*;

use super::super::fused::{FusedBlock, FusedKernel, SHAPES, Shape};
use super::super::{StandaloneTrunk, TrunkSource};
use super::two_ways::{self, Outputs};
use super::{DRAWN, EPSILON, can_multiply, repeated};
use crate::Source;
use crate::selftest::f64_reference::{dot, gelu, layer_norm};
use crate::selftest::{Bench, Checked, Limits, POISON, Topic, f16_bytes, f32_bytes};
use cuda::{LaunchMode, Stream};
use vos::bundle::trunk::{HieraBlock, HieraWeights, LayerBytes};
use vos::noise::Noise;

const FUSED: &str = "hiera block fused";
const SEPARATE: &str = "hiera block separate kernels";
/// Factors are halves, and so are queries, keys, values, the attention's weights and the hidden
/// layer; sums and tokens are f32.
pub(super) const LIMITS: Limits = Limits { error: 1e-3, deviation: 1e-2 };
/// Of a map with more windows only its corners and one in the middle are computed on the host.
const ALL: usize = 9;

/// A name, side of the map and columns.
const CASES: [(&str, usize, usize); 18] = [
    ("tiny, 1024 pixels", 256, 96),
    ("tiny, 512 pixels", 128, 96),
    ("base+, 1024 pixels", 256, 112),
    ("base+, 512 pixels", 128, 112),
    ("large, 1024 pixels", 256, 144),
    ("large, 512 pixels", 128, 144),
    ("tiny, 1024 pixels", 128, 192),
    ("tiny, 512 pixels", 64, 192),
    ("base+, 1024 pixels", 128, 224),
    ("base+, 512 pixels", 64, 224),
    ("as wide as tiny, one window", 8, 96),
    ("as wide as base+, one window", 8, 112),
    ("as wide as base+, nine windows", 24, 112),
    ("as wide as large, one window", 8, 144),
    ("as wide as large, nine windows", 24, 144),
    ("as wide as tiny, one window", 4, 192),
    ("as wide as base+, one window", 4, 224),
    ("as wide as base+, nine windows", 12, 224),
];

pub(crate) const TOPIC: Topic = Topic {
    word: "hiera-block",
    help: "A whole Hiera block in one launch, and kernel by kernel",
    name: "Hiera's fused blocks",
    sources: &[
        Source::HieraBlock96,
        Source::HieraBlock112,
        Source::HieraBlock144,
        Source::HieraBlock192,
        Source::HieraBlock224,
    ],
    used_by: Some("an encoder whose trunk is ours"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    let separate = can_multiply(bench);
    let rows = 1 + usize::from(separate);
    let shape = |columns: usize| SHAPES.iter().find(|shape| shape.columns == columns);
    let cases = bench.planned(CASES, |(_, grid, columns)| (grid * grid * columns, rows));
    let seed = bench.seed;
    let make = |(_, grid, columns): &(&str, usize, usize)| {
        shape(*columns).map(|shape| Drawn::new(seed, *grid, shape))
    };
    bench.each(&cases, make, |(name, ..), drawn| {
        let Some(drawn) = drawn else { return };
        let case = format!("stage {}, {name}", usize::from(drawn.shape.has_small_windows()));
        let both = separate.then_some(|alone| check_both(bench, &drawn, alone));
        let alone = check_fused(bench, &drawn);
        two_ways::found(bench, [FUSED, SEPARATE], &case, alone, both);
    });
}

/// A layer's weight and bias, and their numbers.
pub(super) struct Layer {
    rows: usize,
    weight: Vec<f16>,
    bias: Vec<f64>,
    bytes: [Vec<u8>; 2],
}

impl Layer {
    /// `half`: whether the bias is one. `by` is a factor for the first rows.
    pub fn new(noise: Noise, [rows, columns]: [usize; 2], half: bool, by: (usize, f32)) -> Self {
        let mut noise = noise;
        let drawn = noise.normals(rows * columns + rows);
        let scale = |row: usize| if row < by.0 { by.1 } else { 1.0 };
        let of = |at: usize| drawn[at] * scale(at / columns) / (columns as f32).sqrt();
        let weight: Vec<f16> = (0..rows * columns).map(|at| f16::from_f32(of(at))).collect();
        let bias: Vec<f32> = (0..rows)
            .map(|row| f16::from_f32(0.3 * scale(row) * drawn[rows * columns + row]).to_f32())
            .collect();
        let halves: Vec<f16> = bias.iter().map(|one| f16::from_f32(*one)).collect();
        let bytes = [f16_bytes(&weight), if half { f16_bytes(&halves) } else { f32_bytes(&bias) }];
        Self { rows, weight, bias: bias.into_iter().map(f64::from).collect(), bytes }
    }

    pub fn view(&self) -> LayerBytes<'_> {
        LayerBytes { weight: &self.bytes[0], bias: &self.bytes[1] }
    }

    pub fn of(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.weight.chunks(x.len()).zip(&self.bias);
        debug_assert_eq!(self.rows, self.bias.len());
        rows.map(|(row, bias)| bias + dot(x, row)).collect()
    }
}

/// Weights and bias of a norm, and their bytes.
pub(super) struct Norm {
    values: [Vec<f32>; 2],
    bytes: [Vec<u8>; 2],
}

impl Norm {
    pub fn new(mut noise: Noise, columns: usize) -> Self {
        let weight: Vec<f32> = noise.normals(columns).iter().map(|x| 0.8 + 0.3 * x).collect();
        let bias: Vec<f32> = noise.normals(columns).iter().map(|x| 0.3 * x).collect();
        let bytes = [f32_bytes(&weight), f32_bytes(&bias)];
        Self { values: [weight, bias], bytes }
    }

    pub fn view(&self) -> LayerBytes<'_> {
        LayerBytes { weight: &self.bytes[0], bias: &self.bytes[1] }
    }

    pub fn of(&self, x: &[f64]) -> Vec<f64> {
        layer_norm(x, &self.values[0], &self.values[1], EPSILON)
    }
}

/// Windows of a map of `grid` tokens a side that are computed on the host.
pub(super) fn sampled_windows(grid: usize, window: usize) -> Vec<usize> {
    let side = grid / window;
    if side * side <= ALL {
        (0..side * side).collect()
    } else {
        let last = side * side - 1;
        vec![0, side - 1, side * side / 2 + side / 2, last + 1 - side, last]
    }
}

/// What a query of all heads attends to in a window, whose tokens are queries, keys and values.
pub(super) fn attended(query: &[f64], tokens: &[Vec<f64>], heads: usize) -> Vec<f64> {
    let (columns, depth) = (query.len(), query.len() / heads);
    let of_head = |head: usize| {
        let (query, head) = (&query[head * depth..][..depth], head * depth);
        let score = |token: &Vec<f64>| dot(query, &token[columns + head..][..depth]).exp();
        let scores: Vec<f64> = tokens.iter().map(score).collect();
        let all: f64 = scores.iter().sum();
        let of = move |column: usize| {
            let values = tokens.iter().map(|token| token[2 * columns + head + column]);
            scores.iter().zip(values).map(|(score, value)| score * value).sum::<f64>() / all
        };
        (0..depth).map(of)
    };
    (0..heads).flat_map(of_head).collect()
}

/// A block with drawn weights, its tokens, and what must come out: places and elements of the
/// tokens, and of the next norm.
struct Drawn {
    shape: &'static Shape,
    block: HieraBlock,
    values: Vec<f32>,
    norms: [Norm; 3],
    layers: [Layer; 4],
    expected: [Vec<(usize, f64)>; 2],
}

impl Drawn {
    fn new(seed: u64, grid: usize, shape: &'static Shape) -> Self {
        let Shape { columns, heads, .. } = *shape;
        let (dim, dim_out, window, pooled) = (columns, columns, shape.window, false);
        let block = HieraBlock { dim, dim_out, heads, grid, window, pooled };
        let noise = |what: &str| Noise::new(seed, &format!("hiera block {columns} {what}"));
        let mut values = noise("tokens").normals(DRAWN);
        values.iter_mut().for_each(|value| *value = 2.0 * *value + 0.5);
        // Queries are scaled by the export: scores of deviation 2.
        let queries = (columns, 2.0 / (block.depth() as f32).sqrt());
        let layer = |what: &str, rows: usize, depth: usize, half: bool| {
            Layer::new(noise(what), [rows, depth], half, (0, 1.0))
        };
        let layers = [
            Layer::new(noise("qkv"), [3 * columns, columns], true, queries),
            layer("proj", columns, columns, false),
            layer("up", 4 * columns, columns, true),
            layer("down", columns, 4 * columns, false),
        ];
        let norms = ["norm1", "norm2", "next"].map(|what| Norm::new(noise(what), columns));
        let mut drawn = Self { shape, block, values, norms, layers, expected: Default::default() };
        let windows = sampled_windows(grid, window);
        let tokens: Vec<_> =
            windows.into_par_iter().flat_map_iter(|window| drawn.window(window)).collect();
        for (token, after) in tokens {
            for (expected, row) in drawn.expected.iter_mut().zip(after) {
                let elements = row.into_iter().enumerate();
                expected.extend(elements.map(|(column, value)| (token * columns + column, value)));
            }
        }
        drawn
    }

    /// Each token of a window: its place, itself and its norm after the block.
    fn window(&self, window: usize) -> Vec<(usize, [Vec<f64>; 2])> {
        let HieraBlock { dim, heads, grid, window: width, .. } = self.block;
        let (side, tokens) = (grid / width, width * width);
        let [norm1, norm2, next] = &self.norms;
        let [qkv, proj, up, down] = &self.layers;
        let place = |at: usize| {
            (window / side * width + at / width) * grid + window % side * width + at % width
        };
        let token = |at: usize| -> Vec<f64> {
            let first = place(at) * dim;
            (first..first + dim).map(|at| f64::from(self.values[at % DRAWN])).collect()
        };
        let each: Vec<Vec<f64>> = (0..tokens).map(|at| qkv.of(&norm1.of(&token(at)))).collect();
        let attend = |at: usize| -> Vec<f64> { attended(&each[at][..dim], &each, heads) };
        let plus = |a: Vec<f64>, b: Vec<f64>| -> Vec<f64> {
            a.into_iter().zip(b).map(|(a, b)| a + b).collect()
        };
        let after = |at: usize| {
            let x = plus(token(at), proj.of(&attend(at)));
            let hidden: Vec<f64> = up.of(&norm2.of(&x)).into_iter().map(gelu).collect();
            let x = plus(x, down.of(&hidden));
            let normed = next.of(&x);
            (place(at), [x, normed])
        };
        (0..tokens).map(after).collect()
    }

    fn weights(&self) -> HieraWeights<'_> {
        let [norm1, norm2, _] = self.norms.each_ref().map(Norm::view);
        let [qkv, proj, up, down] = self.layers.each_ref().map(Layer::view);
        HieraWeights { norm1, skip: None, qkv, proj, norm2, up, down }
    }

    fn tokens(&self) -> Vec<u8> {
        let HieraBlock { grid, dim, .. } = self.block;
        repeated(&f32_bytes(&self.values), 4 * grid * grid * dim)
    }

    /// Tokens that came against those that must.
    fn judge(&self, came: &[u8]) -> Checked {
        let floats = came.as_chunks::<4>().0;
        let value =
            |at: usize| floats.get(at).map_or(f64::NAN, |four| f32::from_le_bytes(*four).into());
        LIMITS.judge(&self.expected[0], value)
    }
}

/// The fused kernel by itself, with the next norm.
fn check_fused(bench: &Bench, drawn: &Drawn) -> Result<Checked> {
    let (stream, HieraBlock { grid, dim, .. }) = (&bench.stream, drawn.block);
    let kernel = Rc::new(FusedKernel::load(bench.gpu, drawn.shape)?);
    let (weights, next) = (drawn.weights(), drawn.norms[2].view());
    let next = HieraWeights { norm1: next, ..weights };
    let block = FusedBlock::new(bench.gpu, kernel, grid, &weights, Some(&next), stream)?;
    let tokens = drawn.tokens();
    let (x, normed) = (bench.put(&tokens)?, bench.poisoned(2 * grid * grid * dim)?);
    let later = Some(block.units());
    let enqueue =
        |stream: &Stream| block.enqueue(&x, Some(&normed), later, LaunchMode::Ordered, stream);
    let run = || -> Result<Outputs> {
        x.upload(&tokens, stream)?;
        normed.fill(POISON, stream)?;
        enqueue(stream)?;
        Ok([x.download(stream)?, normed.download(stream)?])
    };
    let judge = |[came, norm]: &Outputs| {
        let halves = norm.as_chunks::<2>().0;
        let value =
            |at: usize| halves.get(at).map_or(f64::NAN, |two| f16::from_le_bytes(*two).to_f64());
        let norms = LIMITS.judge(&drawn.expected[1], value);
        Checked::of_outputs(&[("tokens", drawn.judge(came)), ("norm", norms)])
    };
    two_ways::repeated(bench, run, judge, enqueue)
}

/// The fused kernel, and the block kernel by kernel, in turn.
fn check_both(bench: &Bench, drawn: &Drawn, alone: Checked) -> Result<[Checked; 2]> {
    let (stream, weights) = (&bench.stream, [drawn.weights()]);
    // A trunk of one block, after which all stages end.
    let (blocks, ends) = (&[drawn.block], &[0; 4]);
    let source = TrunkSource { blocks, ends, weights: &weights, choices: None };
    let trunk = StandaloneTrunk::new(bench.gpu, &source, stream)?;
    let (executor, tokens, x) = (&trunk.executor, drawn.tokens(), &trunk.maps[0]);
    let judge = |way: &dyn Fn(&Stream) -> Result<()>| {
        x.upload(&tokens, stream)?;
        way(stream)?;
        Ok(drawn.judge(&x.download(stream)?))
    };
    two_ways::in_turn(bench, executor, alone, |stream| executor.enqueue(stream), judge)
}
