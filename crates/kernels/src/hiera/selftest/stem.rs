//! The stem against float64, at the models' columns and image sizes, and at odd ones.

use anyhow::{Context, Result};
use half::f16;
use rayon::prelude::*;

use super::super::stem::{self, Stem};
use crate::device_weights::DeviceWeights;
use crate::kernel::{Chain, Modules};
use crate::selftest::{Bench, Checked, Limits, POISON, Topic, f16_bytes, f32_bytes, row};
use cuda::{LaunchMode, Stream};
use vos::bundle::DType;
use vos::bundle::trunk::{LayerBytes, MapShape, NeckShape, StemAndNeck, StemShape, StemWeights};
use vos::noise::Noise;

const NAME: &str = "hiera stem";
/// Factors are halves, sums and tokens f32; tensor cores round sums towards zero.
const LIMITS: Limits = Limits { error: 1e-5, deviation: 1e-4 };
const KERNEL: usize = 7;
const STRIDE: usize = 4;
const DEPTH: usize = 3 * KERNEL * KERNEL;
/// Of a larger map some tokens are computed on the host.
const ALL: usize = 1024;
/// Side of their squares.
const SQUARE: usize = 4;

/// Side of the map and columns: the models at 1024 and 512 pixels, then odd ones.
const CASES: [(usize, usize); 8] =
    [(256, 96), (256, 112), (256, 144), (128, 96), (128, 112), (128, 144), (18, 56), (10, 8)];

pub(crate) const TOPIC: Topic = Topic {
    word: "stem",
    help: "Hiera's stem: patch and position embedding",
    name: "Hiera's stem",
    sources: &[stem::MODULE],
    used_by: Some("an encoder whose stem is ours"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    let cases = bench.planned(CASES, |(grid, columns)| (grid * grid * columns, 1));
    let seed = bench.seed;
    bench.each(
        &cases,
        |(grid, columns)| Drawn::new(seed, MapShape { grid: *grid, columns: *columns }),
        |(grid, columns), drawn| {
            let case = format!("{columns} columns, image of {0} x {0}", STRIDE * grid);
            bench.found(row(NAME, &case, check(bench, &drawn)));
        },
    );
}

/// A stem with drawn weights, an image, and tokens that must come out.
struct Drawn {
    tokens: MapShape,
    weight: Vec<f16>,
    bias: Vec<f32>,
    position: Vec<f16>,
    image: Vec<f16>,
    expected: Vec<(usize, f64)>,
    bytes: [Vec<u8>; 3],
}

impl Drawn {
    fn new(seed: u64, tokens: MapShape) -> Self {
        let MapShape { grid, columns } = tokens;
        let noise = |what: &str| Noise::new(seed, &format!("hiera stem {grid} {columns} {what}"));
        let side = STRIDE * grid;
        let scale = 1.0 / (DEPTH as f32).sqrt();
        let weight = noise("weight").halves(columns * DEPTH, scale);
        let bias = noise("bias").normals(columns);
        let position = noise("position").halves(grid * grid * columns, 0.5);
        let image = noise("image").halves(3 * side * side, 1.0);
        let bytes = [f16_bytes(&weight), f32_bytes(&bias), f16_bytes(&position)];
        let mut all = Self { tokens, weight, bias, position, image, expected: Vec::new(), bytes };
        let places = (0..grid * grid).into_par_iter().filter(|at| all.is_looked_at(*at));
        all.expected = places.flat_map_iter(|at| all.token(at)).collect();
        all
    }

    /// All tokens of a small map; of a large one squares in the corners, in the middle and where
    /// tiles meet.
    fn is_looked_at(&self, at: usize) -> bool {
        let grid = self.tokens.grid;
        let (last, middle) = (grid.saturating_sub(SQUARE), grid / 2);
        let squares = [(0, 0), (0, last), (last, 0), (last, last), (middle, middle), (6, 14)];
        let near = |at: usize, first: usize| (first..first + SQUARE).contains(&at);
        grid * grid <= ALL
            || squares.iter().any(|(y, x)| near(at / grid, *y) && near(at % grid, *x))
    }

    /// The elements of a token and their values.
    fn token(&self, at: usize) -> Vec<(usize, f64)> {
        let MapShape { grid, columns } = self.tokens;
        let side = STRIDE * grid;
        let pixel = |tap: usize| {
            let (channel, y, x) = (tap / (KERNEL * KERNEL), tap / KERNEL % KERNEL, tap % KERNEL);
            let y = (at / grid * STRIDE + y).checked_sub(KERNEL / 2).filter(|y| *y < side)?;
            let x = (at % grid * STRIDE + x).checked_sub(KERNEL / 2).filter(|x| *x < side)?;
            Some((tap, self.image[(channel * side + y) * side + x].to_f64()))
        };
        let pixels: Vec<(usize, f64)> = (0..DEPTH).filter_map(pixel).collect();
        let of = |column: usize| {
            let weights = &self.weight[column * DEPTH..][..DEPTH];
            let sum: f64 = pixels.iter().map(|(tap, pixel)| pixel * weights[*tap].to_f64()).sum();
            let element = at * columns + column;
            (element, sum + f64::from(self.bias[column]) + self.position[element].to_f64())
        };
        (0..columns).map(of).collect()
    }

    fn weights(&self) -> StemWeights<'_> {
        let [weight, bias, position] = &self.bytes;
        StemWeights::Patches { patch: LayerBytes { weight, bias }, position }
    }
}

fn check(bench: &Bench, drawn: &Drawn) -> Result<Checked> {
    let (stream, tokens) = (&bench.stream, drawn.tokens);
    let shape = StemAndNeck {
        stem: StemShape::Patches { kernel: KERNEL },
        // Nothing asks for more than the stem.
        neck: NeckShape { hr0: 8, hr1: 8, feat: 8 },
        tokens,
        stages: [tokens; 4],
        dtype: DType::F32,
    };
    let modules = Modules::load(bench.gpu, &[stem::MODULE], "Hiera's stem")?;
    let laid_out = stem::laid_out(&shape, &drawn.weights())?;
    let views: Vec<(String, &[u8])> =
        laid_out.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
    let loaded = DeviceWeights::upload(bench.gpu, &views, stream).context("the stem's weights")?;
    let stem = Stem::new(&modules, &loaded, &shape)?;
    let image = bench.put(&f16_bytes(&drawn.image))?;
    let out = bench.poisoned(4 * tokens.grid * tokens.grid * tokens.columns)?;
    let enqueue =
        |stream: &Stream| stem.enqueue(&image, &out, &Chain::begin(stream, LaunchMode::Ordered));
    out.fill(POISON, stream)?;
    enqueue(stream)?;
    let came = out.download(stream)?;
    let floats = came.as_chunks::<4>().0;
    let value =
        |at: usize| floats.get(at).map_or(f64::NAN, |four| f32::from_le_bytes(*four).into());
    let mut checked = LIMITS.judge(&drawn.expected, value);
    checked.timing = bench.time_recorded(bench.runs, enqueue)?;
    Ok(checked)
}
