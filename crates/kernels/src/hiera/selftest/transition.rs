/*!
The attention half of the block that begins the second stage in one launch
(`cuda/hiera_transition.cu`), and kernel by kernel: residual and second norm of both against
float64, for some windows of a large map, and both timed in turn.
*/

use std::rc::Rc;

use anyhow::{Context, Result};
use half::f16;
use rayon::prelude::*;

use super::super::fused::{FusedKernel, FusedTransition, Shape, TRANSITIONS};
use super::super::{StandaloneTrunk, TrunkSource};
use super::block::{LIMITS, Layer, Norm, attended, sampled_windows};
use super::two_ways::{self, Outputs};
use super::{DRAWN, can_multiply, repeated};
use crate::Source;
use crate::selftest::{Bench, Checked, POISON, Topic, f16_bytes};
use cuda::{LaunchMode, Stream, View};
use vos::bundle::trunk::{HieraBlock, HieraWeights, LayerBytes};
use vos::noise::Noise;

const FUSED: &str = "hiera transition fused";
const SEPARATE: &str = "hiera transition separate kernels";
/// Side and tokens of a window, and its side when it is pooled.
const WINDOW: usize = 8;
const TOKENS: usize = WINDOW * WINDOW;
const POOLED_WINDOW: usize = WINDOW / 2;

/// A name, side of the map that comes, and its columns.
const CASES: [(&str, usize, usize); 10] = [
    ("tiny, 1024 pixels", 256, 96),
    ("tiny, 512 pixels", 128, 96),
    ("base+, 1024 pixels", 256, 112),
    ("base+, 512 pixels", 128, 112),
    ("large, 1024 pixels", 256, 144),
    ("large, 512 pixels", 128, 144),
    ("as wide as tiny, one window", 8, 96),
    ("as wide as base+, one window", 8, 112),
    ("as wide as large, one window", 8, 144),
    ("as wide as base+, nine windows", 24, 112),
];

pub(crate) const TOPIC: Topic = Topic {
    word: "hiera-transition",
    help: "Attention of the Hiera block that pools, in one launch and kernel by kernel",
    name: "Hiera's fused transitions",
    sources: &[Source::HieraTransition96, Source::HieraTransition112, Source::HieraTransition144],
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
    let cases = bench.planned(CASES, |(_, grid, columns)| (grid * grid * columns, rows));
    let seed = bench.seed;
    let make = |(_, grid, columns): &(&str, usize, usize)| {
        let shape = TRANSITIONS.iter().find(|shape| shape.columns == *columns);
        shape.map(|shape| Drawn::new(seed, *grid, shape))
    };
    bench.each(&cases, make, |(name, ..), drawn| {
        let Some(drawn) = drawn else { return };
        let case = format!("stage 0 to 1, {name}");
        let both = separate.then_some(|alone| check_both(bench, &drawn, alone));
        let alone = check_fused(bench, &drawn);
        two_ways::found(bench, [FUSED, SEPARATE], &case, alone, both);
    });
}

/// A block with drawn weights, its normalised tokens, and what must come out: places and elements
/// of the residual and of the second norm.
struct Drawn {
    shape: &'static Shape,
    block: HieraBlock,
    values: Vec<f16>,
    norm: Norm,
    /// Shortcut, queries with keys and values, projection.
    layers: [Layer; 3],
    /// Weights of zero for the MLP, which does not run.
    zeros: Vec<u8>,
    expected: [Vec<(usize, f64)>; 2],
}

impl Drawn {
    fn new(seed: u64, grid: usize, shape: &'static Shape) -> Self {
        let Shape { columns, heads, .. } = *shape;
        let (dim, dim_out, window, pooled) = (columns, 2 * columns, WINDOW, true);
        let block = HieraBlock { dim, dim_out, heads, grid, window, pooled };
        let noise = |what: &str| Noise::new(seed, &format!("hiera transition {columns} {what}"));
        let values = noise("tokens").normals(DRAWN).into_iter().map(f16::from_f32).collect();
        // Queries are scaled by the export: scores of deviation 2.
        let queries = (dim_out, 2.0 / (block.depth() as f32).sqrt());
        let layers = [
            Layer::new(noise("skip"), [dim_out, dim], true, (0, 1.0)),
            Layer::new(noise("qkv"), [3 * dim_out, dim], true, queries),
            Layer::new(noise("proj"), [dim_out, dim_out], false, (0, 1.0)),
        ];
        let norm = Norm::new(noise("norm"), dim_out);
        let zeros = vec![0; 2 * 4 * dim_out * dim_out];
        let expected = Default::default();
        let mut drawn = Self { shape, block, values, norm, layers, zeros, expected };
        let windows = sampled_windows(grid, WINDOW).into_par_iter();
        let tokens: Vec<_> = windows.flat_map_iter(|window| drawn.window(window)).collect();
        for (token, after) in tokens {
            for (expected, row) in drawn.expected.iter_mut().zip(after) {
                let elements = row.into_iter().enumerate();
                expected.extend(elements.map(|(column, value)| (token * dim_out + column, value)));
            }
        }
        drawn
    }

    /// Each pooled token of a window: its place, itself and its norm after the attention.
    fn window(&self, window: usize) -> Vec<(usize, [Vec<f64>; 2])> {
        let HieraBlock { dim, dim_out, heads, grid, .. } = self.block;
        let side = grid / WINDOW;
        let [skip, qkv, proj] = &self.layers;
        let token = |at: usize| -> Vec<f64> {
            let (line, column) = (at / WINDOW, at % WINDOW);
            let place = (window / side * WINDOW + line) * grid + window % side * WINDOW + column;
            (place * dim..(place + 1) * dim).map(|at| self.values[at % DRAWN].to_f64()).collect()
        };
        let each: Vec<Vec<f64>> = (0..TOKENS).map(|at| qkv.of(&token(at))).collect();
        let past: Vec<Vec<f64>> = (0..TOKENS).map(|at| skip.of(&token(at))).collect();
        let after = |pooled: usize| {
            let (line, column) = (pooled / POOLED_WINDOW, pooled % POOLED_WINDOW);
            let cell = [0, 1, WINDOW, WINDOW + 1].map(|at| 2 * (line * WINDOW + column) + at);
            let most = |of: &[Vec<f64>]| -> Vec<f64> {
                let column = |column: usize| cell.map(|at| of[at][column]);
                let most = |four: [f64; 4]| four.into_iter().fold(f64::NEG_INFINITY, f64::max);
                (0..dim_out).map(column).map(most).collect()
            };
            let added = proj.of(&attended(&most(&each), &each, heads));
            let x: Vec<f64> = most(&past).iter().zip(added).map(|(a, b)| a + b).collect();
            let place = (window / side * POOLED_WINDOW + line) * (grid / 2)
                + window % side * POOLED_WINDOW
                + column;
            let normed = self.norm.of(&x);
            (place, [x, normed])
        };
        (0..POOLED_WINDOW * POOLED_WINDOW).map(after).collect()
    }

    fn weights(&self) -> HieraWeights<'_> {
        let [skip, qkv, proj] = self.layers.each_ref().map(Layer::view);
        let zeros = LayerBytes { weight: &self.zeros, bias: &self.zeros };
        let (norm, wide) = (self.norm.view(), self.block.dim_out);
        let up = part(zeros, [4 * wide, wide], 2);
        let down = part(zeros, [wide, 4 * wide], 4);
        HieraWeights { norm1: norm, skip: Some(skip), qkv, proj, norm2: norm, up, down }
    }

    fn tokens(&self) -> Vec<u8> {
        let HieraBlock { grid, dim, .. } = self.block;
        repeated(&f16_bytes(&self.values), 2 * grid * grid * dim)
    }

    /// Residual and norm that came against those that must.
    fn judge(&self, [tokens, norm]: &Outputs) -> Checked {
        let (floats, halves) = (tokens.as_chunks::<4>().0, norm.as_chunks::<2>().0);
        let float =
            |at: usize| floats.get(at).map_or(f64::NAN, |four| f32::from_le_bytes(*four).into());
        let half =
            |at: usize| halves.get(at).map_or(f64::NAN, |two| f16::from_le_bytes(*two).to_f64());
        Checked::of_outputs(&[
            ("tokens", LIMITS.judge(&self.expected[0], float)),
            ("norm", LIMITS.judge(&self.expected[1], half)),
        ])
    }
}

/// The first rows and columns of a larger layer; `bias`: bytes of a number of its bias.
fn part(of: LayerBytes<'_>, [rows, columns]: [usize; 2], bias: usize) -> LayerBytes<'_> {
    LayerBytes { weight: &of.weight[..2 * rows * columns], bias: &of.bias[..bias * rows] }
}

/// The fused kernel by itself.
fn check_fused(bench: &Bench, drawn: &Drawn) -> Result<Checked> {
    let (stream, HieraBlock { grid, dim_out, .. }) = (&bench.stream, drawn.block);
    let kernel = Rc::new(FusedKernel::load(bench.gpu, drawn.shape)?);
    let fused = FusedTransition::new(bench.gpu, kernel, grid, &drawn.weights(), stream)?;
    let elements = grid * grid / 4 * dim_out;
    let normed = bench.put(&drawn.tokens())?;
    let (x, next) = (bench.poisoned(4 * elements)?, bench.poisoned(2 * elements)?);
    let enqueue = |stream: &Stream| {
        let later = Some(fused.units());
        fused.enqueue([&normed, &x, &next], later, LaunchMode::Ordered, stream)
    };
    let run = || -> Result<Outputs> {
        x.fill(POISON, stream)?;
        next.fill(POISON, stream)?;
        enqueue(stream)?;
        Ok([x.download(stream)?, next.download(stream)?])
    };
    two_ways::repeated(bench, run, |came| drawn.judge(came), enqueue)
}

/// The fused kernel and the kernels one by one, in turn, as the second block of a trunk.
fn check_both(bench: &Bench, drawn: &Drawn, alone: Checked) -> Result<[Checked; 2]> {
    let (stream, weights, c) = (&bench.stream, drawn.weights(), drawn.block.dim);
    // The block before has the same columns throughout, and parts of the same weights; it does not
    // run.
    let before =
        HieraBlock { dim_out: c, heads: drawn.block.heads / 2, pooled: false, ..drawn.block };
    let HieraWeights { norm1, qkv, proj, .. } = weights;
    let norm1 = LayerBytes { weight: &norm1.weight[..4 * c], bias: &norm1.bias[..4 * c] };
    let weights = HieraWeights { norm1, ..weights };
    let of_before = HieraWeights {
        norm1,
        skip: None,
        qkv: part(qkv, [3 * c, c], 2),
        proj: part(proj, [c, c], 4),
        norm2: norm1,
        up: part(qkv, [4 * c, c], 2),
        down: LayerBytes { weight: &qkv.weight[..8 * c * c], bias: &proj.bias[..4 * c] },
    };
    let (blocks, ends) = (&[before, drawn.block], &[0, 1, 1, 1]);
    let source = TrunkSource { blocks, ends, weights: &[of_before, weights], choices: None };
    let trunk = StandaloneTrunk::new(bench.gpu, &source, stream)?;
    let (executor, tokens) = (&trunk.executor, drawn.tokens());
    let [normed, x, next]: [&View; 3] =
        executor.around_attention(1).context("a trunk without its second block")?;
    let judge = |way: &dyn Fn(&Stream) -> Result<()>| {
        normed.upload(&tokens, stream)?;
        executor.clear(stream)?;
        way(stream)?;
        Ok(drawn.judge(&[x.download(stream)?, next.download(stream)?]))
    };
    let enqueue = |stream: &Stream| executor.enqueue_attention_of(1, stream);
    two_ways::in_turn(bench, executor, alone, enqueue, judge)
}
