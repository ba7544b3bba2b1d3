/*!
Necks of EdgeTAM (tokens in f16) and of SAM 2.1's models (f32) against float64, for a sample of the
places of each feature. Then small ones that fill no tile.
*/

use anyhow::Result;
use half::f16;
use rayon::prelude::*;

use super::{HALF, MODULE, Neck, laid_out};
use crate::device_weights::DeviceWeights;
use crate::kernel::{Chain, Modules};
use crate::selftest::f64_reference::dot;
use crate::selftest::{Bench, Checked, Limits, Topic, bytes_of, f16_bytes, f32_bytes, row};
use cuda::{Element, LaunchMode, Stream, View};
use vos::bundle::DType;
use vos::bundle::trunk::{
    LayerBytes, MapShape, NeckShape, STAGES, StemAndNeck, StemAndNeckWeights, StemShape,
    StemWeights,
};
use vos::noise::Noise;

const NAME: &str = "neck";
/// Tokens are rounded to halves, and features are halves.
const LIMITS: Limits = Limits { error: 1e-3, deviation: 2e-2 };
/// Names of the features, and their stages.
const FEATURES: [(&str, usize); 3] = [("feat", 2), ("hr0", 0), ("hr1", 1)];
/// Drawn values, which maps repeat. No number of columns divides it, so no two tokens are alike.
const DRAWN: usize = 131_071;
/// About how many places of a feature are looked at, beside its corners.
const SAMPLE: usize = 64;

/// A model: columns of its stages and channels of `hr0`, `hr1` and `feat`; pixels of its image.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    tokens: Element,
    columns: [usize; STAGES],
    channels: [usize; 3],
    side: usize,
}

const EDGETAM: Case = Case {
    name: "EdgeTAM",
    tokens: Element::F16,
    columns: [48, 96, 192, 384],
    channels: [32, 64, 256],
    side: 1024,
};
const TINY: Case =
    Case { name: "tiny", tokens: Element::F32, columns: [96, 192, 384, 768], ..EDGETAM };
const BASE: Case = Case { name: "base+", columns: [112, 224, 448, 896], ..TINY };
const LARGE: Case = Case { name: "large", columns: [144, 288, 576, 1152], ..TINY };
/// Maps and columns that fill no tile; a side of feat that is no multiple of four.
const NARROW: Case = Case {
    name: "narrow",
    tokens: Element::F16,
    columns: [16, 24, 40, 72],
    channels: [8, 40, 72],
    side: 96,
};

const CASES: [Case; 14] = [
    EDGETAM,
    TINY,
    BASE,
    LARGE,
    Case { side: 512, ..EDGETAM },
    Case { side: 512, ..TINY },
    Case { side: 512, ..BASE },
    Case { side: 512, ..LARGE },
    Case { side: 768, ..EDGETAM },
    Case { side: 768, ..TINY },
    Case { side: 672, ..LARGE },
    NARROW,
    Case { tokens: Element::F32, ..NARROW },
    Case { side: 64, ..TINY },
];

pub(crate) const TOPIC: Topic = Topic {
    word: "neck",
    help: "The neck of image encoders",
    name: "the encoders' neck",
    sources: &[MODULE],
    used_by: Some("an encoder whose neck is ours"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

impl Case {
    fn shape(&self) -> StemAndNeck {
        let [hr0, hr1, feat] = self.channels;
        let stage = |at: usize| MapShape { grid: (self.side / 4) >> at, columns: self.columns[at] };
        let stages = [0, 1, 2, 3].map(stage);
        StemAndNeck {
            stem: StemShape::Convolutions { middle: 8 },
            neck: NeckShape { hr0, hr1, feat },
            tokens: stages[0],
            stages,
            dtype: match self.tokens {
                Element::F16 => DType::F16,
                Element::F32 => DType::F32,
            },
        }
    }
}

fn judge(bench: &Bench) {
    let size = |case: &Case| (case.side * case.side / 16 * case.columns[0], 1);
    let cases = bench.planned(CASES, size);
    let seed = bench.seed;
    bench.each(
        &cases,
        |case| Drawn::new(seed, case),
        |case, drawn| {
            let tokens = match case.tokens {
                Element::F16 => "f16",
                Element::F32 => "f32",
            };
            let name = format!("{} at {} pixels, {tokens} tokens", case.name, case.side);
            let mut checked = row(NAME, &name, check(bench, &drawn));
            let places = drawn.shape.stages.iter().zip(drawn.shape.columns());
            let product =
                |(map, rows): (&MapShape, usize)| map.grid * map.grid * map.columns * rows;
            let flops = 2.0 * places.map(product).sum::<usize>() as f64;
            checked.tflops = checked.timing.as_ref().map(|timing| flops / timing.median_ms / 1e9);
            bench.found(checked);
        },
    );
}

/// A layer's values, as they are stored.
struct Layer {
    weight: Vec<f16>,
    bias: Vec<f32>,
    bytes: (Vec<u8>, Vec<u8>),
}

/// What a launch reads.
struct Drawn {
    shape: StemAndNeck,
    layers: [Layer; STAGES],
    tokens: Element,
    values: Vec<f32>,
    /// The sample of each feature: elements and their values.
    expected: [Vec<(usize, f64)>; 3],
}

impl Drawn {
    fn new(seed: u64, case: &Case) -> Self {
        let shape = case.shape();
        let noise = |what: &str| Noise::new(seed, &format!("neck {} {what}", case.name));
        let layers = [0, 1, 2, 3].map(|at| {
            let (rows, depth) = (shape.columns()[at], shape.stages[at].columns);
            let scale = 1.0 / (depth as f32).sqrt();
            let weight = noise(&format!("weight {at}")).halves(rows * depth, scale);
            let bias = noise(&format!("bias {at}")).normals(rows);
            let bytes = (f16_bytes(&weight), f32_bytes(&bias));
            Layer { weight, bias, bytes }
        });
        let values = noise("tokens").normals(DRAWN);
        let mut drawn =
            Self { shape, layers, tokens: case.tokens, values, expected: Default::default() };
        drawn.expected = FEATURES.map(|(_, stage)| drawn.sample(stage));
        drawn
    }

    /// A stage's map; each begins elsewhere in the drawn values.
    fn value(&self, stage: usize, element: usize) -> f32 {
        self.values[(element + stage * 1009) % DRAWN]
    }

    fn map(&self, stage: usize) -> Vec<u8> {
        let MapShape { grid, columns } = self.shape.stages[stage];
        let all: Vec<f32> =
            (0..grid * grid * columns).map(|element| self.value(stage, element)).collect();
        match self.tokens {
            Element::F32 => f32_bytes(&all),
            Element::F16 => bytes_of(&all, |value| f16::from_f32(*value).to_le_bytes()),
        }
    }

    fn weights(&self) -> StemAndNeckWeights<'_> {
        let nothing = LayerBytes { weight: &[], bias: &[] };
        StemAndNeckWeights {
            stem: StemWeights::Convolutions { first: nothing, second: nothing },
            neck: self
                .layers
                .each_ref()
                .map(|layer| LayerBytes { weight: &layer.bytes.0, bias: &layer.bytes.1 }),
        }
    }

    /// All channels of a stage's product at a place, as the tensor cores get its token.
    fn product(&self, stage: usize, y: usize, x: usize) -> Vec<f64> {
        let MapShape { grid, columns } = self.shape.stages[stage];
        let first = (y * grid + x) * columns;
        let half = |at: usize| f16::from_f32(self.value(stage, first + at)).to_f64();
        let token: Vec<f64> = (0..columns).map(half).collect();
        let Layer { weight, bias, .. } = &self.layers[stage];
        let rows = weight.chunks(columns).zip(bias);
        rows.map(|(row, bias)| dot(&token, row) + f64::from(*bias)).collect()
    }

    /// Elements of a stage's feature: all channels of some places.
    fn sample(&self, stage: usize) -> Vec<(usize, f64)> {
        let (grid, channels) = (self.shape.stages[stage].grid, self.shape.columns()[stage]);
        let all = grid * grid;
        // Odd, so that all places of a tile come in turn.
        let step = (all / SAMPLE).max(1) | 1;
        let corners = [0, grid - 1, all - grid, all - 1];
        let mut places: Vec<usize> = (0..all).step_by(step).chain(corners).collect();
        places.sort_unstable();
        places.dedup();
        let at_place = |at: usize| {
            let (y, x) = (at / grid, at % grid);
            let mut values = self.product(stage, y, x);
            if stage == 2 {
                let upsampled = self.product(3, y / 2, x / 2);
                values.iter_mut().zip(upsampled).for_each(|(sum, more)| *sum += more);
            }
            let numbered = values.into_iter().enumerate();
            let elements = numbered.map(|(channel, value)| (channel * all + at, value));
            elements.take(channels).collect::<Vec<_>>()
        };
        places.into_par_iter().flat_map_iter(at_place).collect()
    }
}

fn check(bench: &Bench, drawn: &Drawn) -> Result<Checked> {
    let (shape, stream) = (&drawn.shape, &bench.stream);
    let modules = Modules::load(bench.gpu, &[MODULE], "the neck")?;
    let tensors = laid_out(shape, &drawn.weights())?;
    let views: Vec<(String, &[u8])> =
        tensors.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
    let loaded = DeviceWeights::upload(bench.gpu, &views, stream)?;
    let neck = Neck::new(&modules, &loaded, shape)?;
    let map = |stage: usize| bench.put(&drawn.map(stage));
    let maps: [View; STAGES] = [map(0)?, map(1)?, map(2)?, map(3)?];
    let out = |(_, stage): (&str, usize)| {
        let grid = shape.stages[stage].grid;
        bench.poisoned(HALF * grid * grid * shape.columns()[stage])
    };
    let [feat, hr0, hr1] = FEATURES.map(out);
    let features = [feat?, hr0?, hr1?];
    let enqueue = |stream: &Stream| {
        let chain = Chain::begin(stream, LaunchMode::Pdl);
        neck.enqueue(&maps, features.each_ref(), &chain)
    };
    enqueue(stream)?;
    let mut judged = Vec::new();
    for ((name, _), (view, expected)) in FEATURES.iter().zip(features.iter().zip(&drawn.expected)) {
        let came = view.download(stream)?;
        let (halves, _) = came.as_chunks::<2>();
        let value = |at: usize| f16::from_le_bytes(halves[at]).to_f64();
        judged.push((*name, LIMITS.judge(expected, value)));
    }
    let mut checked = Checked::of_outputs(&judged);
    checked.timing = bench.time_recorded(bench.runs, enqueue)?;
    Ok(checked)
}
