/*!
Stem and neck against float64, of the same models as the blocks; and whole encoders, against their
parts: alone the blocks add up all of their sums themselves, so that halves on the way are rounded
elsewise. They must give the same numbers when they are launched and when they are replayed.
*/

use anyhow::Result;
use half::f16;
use rayon::prelude::*;

use super::drawn::{DrawnBlock, Layer, Model, TAPS};
use super::{WHOLE_LIMITS, looked_at, value_of};
use crate::repvit::{HALF, RepVitEncoder, RepVitExecutor, RepVitSource};
use crate::selftest::chain_modes::{self, Chained};
use crate::selftest::f64_reference::{dot, gelu};
use crate::selftest::{Bench, Checked, Launches, Limits, POISON, f16_bytes, row};
use cuda::{CapturedGraph, LaunchMode, MemoryTag, Stream, View};
use vos::bundle::DType;
use vos::bundle::trunk::{
    MapShape, NeckShape, RepVitBlock, RepVitWeights, STAGES, StemAndNeck, StemAndNeckWeights,
    StemShape, StemWeights,
};
use vos::noise::Noise;

const STEM: &str = "repvit stem";
const NECK: &str = "repvit neck";
const ENCODER: &str = "repvit encoder";
const MODES: &str = "repvit encoder modes";

/// Tokens and what lies between the stem's convolutions are halves; features are halves.
const LIMITS: Limits = Limits { error: 1e-3, deviation: 2e-2 };
/// Channels of an image.
const IMAGE: usize = 3;
/// Names of the features, in the order of the neck's.
const FEATURES: [&str; 3] = ["feat", "hr0", "hr1"];

/// Rows of each model.
pub fn rows(bench: &Bench) -> usize {
    3 + chain_modes::rows(bench)
}

/// Stem and neck with drawn weights, an image and the stages' tokens.
pub struct Drawn {
    shape: StemAndNeck,
    first: Layer,
    second: Layer,
    neck: [Layer; STAGES],
    image: Vec<f16>,
    maps: [Vec<f16>; STAGES],
}

impl Drawn {
    pub fn new(seed: u64, model: &Model) -> Self {
        let noise = |what: &str| Noise::new(seed, &format!("repvit {} {what}", model.name));
        let stage = |at: usize| MapShape { grid: model.grid >> at, columns: model.columns[at] };
        let stages = [0, 1, 2, 3].map(stage);
        let widest = model.columns[0];
        // EdgeTAM's features have 256 channels.
        let feat = if widest == 48 { 256 } else { 72 };
        let shape = StemAndNeck {
            stem: StemShape::Convolutions { middle: widest / 2 / 8 * 8 },
            neck: NeckShape { hr0: feat / 64 * 8, hr1: feat / 32 * 8, feat },
            tokens: stages[0],
            stages,
            dtype: DType::F16,
        };
        let layer =
            |what: &str, rows: usize, depth: usize| Layer::drawn(noise(what), rows, depth, 1.0);
        let (middle, rows) = (middle(&shape), shape.columns());
        let product = |at: usize| layer(&format!("neck {at}"), rows[at], stages[at].columns);
        let map = |at: usize| {
            let MapShape { grid, columns } = stages[at];
            noise(&format!("map {at}")).halves(grid * grid * columns, 1.0)
        };
        Self {
            first: layer("first", middle, IMAGE * TAPS),
            second: layer("second", widest, middle * TAPS),
            neck: [0, 1, 2, 3].map(product),
            image: noise("image").halves(IMAGE * shape.side() * shape.side(), 1.0),
            maps: [0, 1, 2, 3].map(map),
            shape,
        }
    }

    fn weights(&self) -> StemAndNeckWeights<'_> {
        let Self { first, second, neck, .. } = self;
        StemAndNeckWeights {
            stem: StemWeights::Convolutions { first: first.view(), second: second.view() },
            neck: neck.each_ref().map(Layer::view),
        }
    }

    /// The token at a place of the stem's map.
    fn token(&self, y: usize, x: usize) -> Vec<f64> {
        let (side, middle) = (self.shape.side(), middle(&self.shape));
        // Places of a 3 x 3 kernel with stride 2 that lie in a map, and their numbers.
        let places = |y: usize, x: usize, side: usize| {
            (0..TAPS).filter_map(move |tap| {
                let (y, x) = ((2 * y + tap / 3).checked_sub(1)?, (2 * x + tap % 3).checked_sub(1)?);
                (y < side && x < side).then_some((tap, y, x))
            })
        };
        let mut taps = vec![0.0; middle * TAPS];
        for (place, y, x) in places(y, x, side / 2) {
            let mut pixels = [0.0; IMAGE * TAPS];
            for (tap, y, x) in places(y, x, side) {
                for channel in 0..IMAGE {
                    pixels[channel * TAPS + tap] =
                        self.image[(channel * side + y) * side + x].to_f64();
                }
            }
            for (channel, sum) in self.first.product(&pixels).into_iter().enumerate() {
                taps[channel * TAPS + place] = gelu(sum);
            }
        }
        self.second.product(&taps)
    }

    /// All channels of a feature at a place of its map: of the stage with this number.
    fn feature(&self, stage: usize, y: usize, x: usize) -> Vec<f64> {
        let of = |stage: usize, y: usize, x: usize| {
            let MapShape { grid, columns } = self.shape.stages[stage];
            let token = &self.maps[stage][(y * grid + x) * columns..][..columns];
            let token: Vec<f64> = token.iter().map(|value| value.to_f64()).collect();
            self.neck[stage].product(&token)
        };
        let mut channels = of(stage, y, x);
        if stage == 2 {
            let upsampled = of(3, y / 2, x / 2);
            channels.iter_mut().zip(upsampled).for_each(|(sum, more)| *sum += more);
        }
        channels
    }
}

/// Columns between the stem's convolutions.
fn middle(shape: &StemAndNeck) -> usize {
    let StemShape::Convolutions { middle } = shape.stem else { return 0 };
    middle
}

impl Layer {
    fn product(&self, of: &[f64]) -> Vec<f64> {
        let rows = self.weight.chunks(of.len()).zip(&self.bias);
        rows.map(|(row, bias)| dot(of, row) + f64::from(*bias)).collect()
    }
}

/// What `of` gives at the wanted places of a map; `element` numbers a place's channel.
fn sample(
    bench: &Bench,
    grid: usize,
    of: impl Fn(usize, usize) -> Vec<f64> + Sync,
    element: impl Fn(usize, usize, usize) -> usize + Sync,
) -> Vec<(usize, f64)> {
    let wanted = looked_at(grid);
    let places = |at: usize| {
        let channels = of(at / grid, at % grid);
        let count = channels.len();
        let numbered = channels.into_iter().enumerate();
        numbered.map(|(channel, value)| (element(at, channel, count), value)).collect::<Vec<_>>()
    };
    let all = || {
        (0..grid * grid).into_par_iter().filter(|at| wanted[*at]).flat_map_iter(places).collect()
    };
    bench.processors.install(all)
}

/// Rows of a model whose blocks have these weights.
pub fn judge(
    bench: &Bench,
    model: &Model,
    blocks: &[RepVitBlock],
    ends: &[usize; STAGES],
    weights: &[DrawnBlock],
) {
    let drawn = Drawn::new(bench.seed, model);
    let work = match Work::new(bench, &drawn, blocks, ends, weights) {
        Ok(work) => work,
        Err(error) => {
            let said = format!("{error:#}");
            let failed = |kernel| row(kernel, model.name, Err(anyhow::anyhow!(said.clone())));
            let modes = std::iter::repeat_n(MODES, chain_modes::rows(bench));
            let all = [STEM, NECK, ENCODER].into_iter().chain(modes);
            return all.for_each(|kernel| bench.found(failed(kernel)));
        }
    };
    bench.found(row(STEM, model.name, work.stem(bench, &drawn)));
    bench.found(row(NECK, model.name, work.neck(bench, &drawn)));
    bench.found(row(ENCODER, model.name, work.whole(bench)));
    work.modes(bench, model.name, &drawn);
}

/// An encoder on the device.
struct Work {
    encoder: RepVitEncoder,
    image: View,
    /// `feat`, `hr0`, `hr1`.
    features: [View; 3],
}

impl Work {
    fn new(
        bench: &Bench,
        drawn: &Drawn,
        blocks: &[RepVitBlock],
        ends: &[usize; STAGES],
        weights: &[DrawnBlock],
    ) -> Result<Self> {
        let memory = bench.gpu.tagged(MemoryTag::Scratch);
        let weights: Vec<RepVitWeights> = weights.iter().map(DrawnBlock::weights).collect();
        let source = RepVitSource { blocks, ends, weights: &weights, hopper_side: None };
        let scratch = View::new(&memory, RepVitExecutor::scratch_bytes(blocks))?;
        let (shape, of) = (&drawn.shape, drawn.weights());
        let encoder = RepVitEncoder::new(bench.gpu, &source, shape, &of, &scratch, &bench.stream)?;
        let [hr0, hr1, feat, _] = shape.columns();
        let feature = |stage: usize, columns: usize| {
            let grid = shape.stages[stage].grid;
            bench.poisoned(HALF * grid * grid * columns)
        };
        let features = [feature(2, feat)?, feature(0, hr0)?, feature(1, hr1)?];
        Ok(Self { encoder, image: bench.put(&f16_bytes(&drawn.image))?, features })
    }

    fn stem(&self, bench: &Bench, drawn: &Drawn) -> Result<Checked> {
        let stream = &bench.stream;
        let [tokens, ..] = self.encoder.maps();
        let MapShape { grid, columns } = drawn.shape.tokens;
        let expected =
            sample(bench, grid, |y, x| drawn.token(y, x), |at, channel, _| at * columns + channel);
        tokens.fill(POISON, stream)?;
        self.encoder.enqueue_stem(&self.image, stream)?;
        let judged = LIMITS.judge(&expected, value_of(&tokens.download(stream)?));
        let mut checked = Checked::of_outputs(&[("tokens", judged)]);
        let one = |stream: &Stream| self.encoder.enqueue_stem(&self.image, stream);
        checked.timing = bench.time_recorded(bench.runs, one)?;
        Ok(checked)
    }

    fn neck(&self, bench: &Bench, drawn: &Drawn) -> Result<Checked> {
        let stream = &bench.stream;
        for (map, values) in self.encoder.maps().iter().zip(&drawn.maps) {
            map.upload(&f16_bytes(values), stream)?;
        }
        self.encoder.enqueue_neck(self.features.each_ref(), stream)?;
        let stages = [2, 0, 1];
        let judged =
            FEATURES.into_iter().zip(stages).zip(&self.features).map(|((name, stage), view)| {
                let grid = drawn.shape.stages[stage].grid;
                let planar = |at: usize, channel: usize, _: usize| channel * grid * grid + at;
                let expected = sample(bench, grid, |y, x| drawn.feature(stage, y, x), planar);
                Ok((name, LIMITS.judge(&expected, value_of(&view.download(stream)?))))
            });
        let mut checked = Checked::of_outputs(&judged.collect::<Result<Vec<_>>>()?);
        let one = |stream: &Stream| self.encoder.enqueue_neck(self.features.each_ref(), stream);
        checked.timing = bench.time_recorded(bench.runs, one)?;
        Ok(checked)
    }

    /// All of it, beside its parts: launched and replayed, the latter with its time.
    fn whole(&self, bench: &Bench) -> Result<Checked> {
        let (Self { encoder, image, features }, stream) = (self, &bench.stream);
        let enqueue = |stream: &Stream| encoder.enqueue(image, features.each_ref(), stream);
        let download = || -> Result<Vec<Vec<u8>>> {
            features.iter().map(|view| Ok(view.download(stream)?)).collect()
        };
        let begin = || features.iter().try_for_each(|view| view.fill(POISON, stream));
        begin()?;
        encoder.enqueue_stem(image, stream)?;
        encoder.enqueue_blocks(stream)?;
        encoder.enqueue_neck(features.each_ref(), stream)?;
        let parts = download()?;
        begin()?;
        enqueue(stream)?;
        let first = download()?;
        let judged =
            FEATURES.into_iter().zip(parts.iter().zip(&first)).map(|(name, (parts, came))| {
                let expected = (0..parts.len() / HALF).map(|at| (at, value_of(parts)(at)));
                (name, WHOLE_LIMITS.judge(&expected.collect::<Vec<_>>(), value_of(came)))
            });
        let mut checked = Checked::of_outputs(&judged.collect::<Vec<_>>());
        let launches = Launches(enqueue, 1);
        let mut recorded = CapturedGraph::new(launches, stream, true);
        // The first run records.
        for _ in 0..2 {
            begin()?;
            recorded.run()?;
        }
        if download()? != first {
            checked.not_repeated();
        }
        checked.timing = bench.time_recorded(bench.runs, enqueue)?;
        Ok(checked)
    }

    /// All of it in each launch mode.
    fn modes(&self, bench: &Bench, case: &str, drawn: &Drawn) {
        let (Self { encoder, image, features }, stream) = (self, &bench.stream);
        let given = f16_bytes(&drawn.image);
        let begin = || features.iter().try_for_each(|view| Ok(view.fill(POISON, stream)?));
        let download = || -> Result<Vec<u8>> {
            let all: Result<Vec<Vec<u8>>> =
                features.iter().map(|view| Ok(view.download(stream)?)).collect();
            Ok(all?.concat())
        };
        let enqueue = |mode: LaunchMode, stream: &Stream| {
            encoder.enqueue_in(mode, image, features.each_ref(), stream)
        };
        let (begin, enqueue, download) = (&begin, &enqueue, &download);
        let input = (image, &given[..]);
        chain_modes::judge(bench, &Chained { name: MODES, case, input, begin, enqueue, download });
    }
}
