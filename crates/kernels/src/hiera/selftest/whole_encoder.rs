/*!
Whole encoders, of the same models as the trunks, with drawn weights. Stem and neck have references
of their own, so the whole is compared with its three parts. The first norm of the blocks alone may
be another kernel, which rounds differently. Launches and replays of the whole must give the same
numbers.
*/

use anyhow::{Context, Result};
use half::f16;

use super::super::{HieraEncoder, TrunkExecutor, TrunkSource};
use crate::attention::{AttentionKernels, AttentionUse};
use crate::selftest::{Bench, Checked, Launches, Limits, POISON, TimedRuns, f16_bytes, f32_bytes};
use cuda::cublaslt::PdlKernels;
use cuda::{CapturedGraph, LaunchMode, MemoryTag, Stream, View};
use vos::bundle::trunk::{
    LayerBytes, NeckShape, StemAndNeck, StemAndNeckWeights, StemShape, StemWeights, Trunk,
};
use vos::noise::Noise;

/// Bytes of a feature's element.
const F16: usize = 2;
/// Side of the stem's patches, and their taps.
const KERNEL: usize = 7;
const DEPTH: usize = 3 * KERNEL * KERNEL;

/// As far as the norm's kernels may differ, behind up to 48 blocks.
const LIMITS: Limits = Limits { error: 2e-3, deviation: 5e-2 };

/// A layer's weight and bias.
type Layer = [Vec<u8>; 2];

/// Stem and neck of a trunk, with drawn weights, and an image.
pub(super) struct Drawn {
    shape: StemAndNeck,
    patch: Layer,
    position: Vec<u8>,
    neck: [Layer; 4],
    image: Vec<u8>,
}

impl Drawn {
    /// Around these blocks, with features as wide as SAM 2.1's.
    ///
    /// # Errors
    /// A trunk without blocks.
    pub fn new(seed: u64, trunk: &Trunk) -> Result<Self> {
        let noise = |what: &str| Noise::new(seed, &format!("hiera encoder {what}"));
        let (stem, neck) =
            (StemShape::Patches { kernel: KERNEL }, NeckShape { hr0: 32, hr1: 64, feat: 256 });
        let with = Trunk { stem: Some(stem), neck: Some(neck), ..trunk.clone() };
        let shape = with.stem_and_neck().context("a trunk without blocks")?;
        let layer = |what: &str, rows: usize, depth: usize| {
            let weight = noise(what).halves(rows * depth, 1.0 / (depth as f32).sqrt());
            [f16_bytes(&weight), f32_bytes(&noise(&format!("{what} bias")).normals(rows))]
        };
        let (tokens, rows) = (shape.tokens, shape.columns());
        let places = tokens.grid * tokens.grid * tokens.columns;
        let pixels = 3 * shape.side() * shape.side();
        let product = |at: usize| layer(&format!("neck {at}"), rows[at], shape.stages[at].columns);
        Ok(Self {
            patch: layer("patch", tokens.columns, DEPTH),
            position: f16_bytes(&noise("position").halves(places, 0.5)),
            neck: [0, 1, 2, 3].map(product),
            image: f16_bytes(&noise("image").halves(pixels, 1.0)),
            shape,
        })
    }

    fn weights(&self) -> StemAndNeckWeights<'_> {
        fn view([weight, bias]: &Layer) -> LayerBytes<'_> {
            LayerBytes { weight, bias }
        }
        let stem = StemWeights::Patches { patch: view(&self.patch), position: &self.position };
        StemAndNeckWeights { stem, neck: self.neck.each_ref().map(view) }
    }
}

/// An element of halves; what is missing is no number.
fn value(bytes: &[u8], at: usize) -> f64 {
    let found = bytes.as_chunks::<F16>().0.get(at);
    found.map_or(f64::NAN, |two| f16::from_le_bytes(*two).to_f64())
}

/// An encoder of these blocks, stem and neck against its parts. Where one kernel serves whole blocks,
/// the same with several kernels for each of them follows, and both are timed in turn.
pub(super) fn check(bench: &Bench, source: &TrunkSource, drawn: &Drawn) -> Result<Vec<Checked>> {
    let stream = &bench.stream;
    let memory = bench.gpu.tagged(MemoryTag::Scratch);
    let scratch = View::new(&memory, TrunkExecutor::scratch_bytes(source.blocks))?;
    let attention = AttentionKernels::load_for(bench.gpu, &[AttentionUse::Encoder])?;
    let outer = (&drawn.shape, &drawn.weights());
    let encoder = HieraEncoder::new(bench.gpu, source, outer, Some(&attention), &scratch, stream)?;
    let image = bench.put(&drawn.image)?;
    let [hr0, hr1, feat, _] = drawn.shape.columns();
    let feature = |stage: usize, columns: usize| {
        let grid = drawn.shape.stages[stage].grid;
        bench.poisoned(F16 * grid * grid * columns)
    };
    let features = [feature(2, feat)?, feature(0, hr0)?, feature(1, hr1)?];
    let begin = || -> Result<()> {
        let written = encoder.maps().iter().chain(&features);
        Ok(written.into_iter().try_for_each(|view| view.fill(POISON, stream))?)
    };
    let download = || -> Result<Vec<u8>> {
        let all: Result<Vec<Vec<u8>>> =
            features.iter().map(|view| Ok(view.download(stream)?)).collect();
        Ok(all?.concat())
    };
    let (encoder, image, features) = (&encoder, &image, &features);
    let way = |fused: bool| {
        move |stream: &Stream| {
            encoder.blocks().use_fused_blocks(fused);
            encoder.enqueue(image, features.each_ref(), stream)
        }
    };
    let one_way = |fused: bool| -> Result<Checked> {
        let enqueue = way(fused);
        begin()?;
        encoder.blocks().use_fused_blocks(fused);
        encoder.enqueue_stem(image, stream)?;
        encoder.blocks().enqueue(stream)?;
        encoder.enqueue_neck(features.each_ref(), LaunchMode::Ordered, stream)?;
        let parts = download()?;
        begin()?;
        enqueue(stream)?;
        let first = download()?;
        let expected: Vec<(usize, f64)> =
            (0..parts.len() / F16).map(|at| (at, value(&parts, at))).collect();
        let mut checked = LIMITS.judge(&expected, |at| value(&first, at));
        // Each kernel that can start early does, and the neck behind the last block.
        let chosen = encoder.blocks().use_pdl(PdlKernels::ALL);
        begin()?;
        enqueue(stream)?;
        let early = download()?;
        encoder.blocks().use_pdl(chosen);
        if let Some(why) = LIMITS.judge(&expected, |at| value(&early, at)).first {
            checked.first.get_or_insert_with(|| format!("with early launches: {why}"));
        }
        let mut recorded = CapturedGraph::new(Launches(enqueue, 1), stream, true);
        // The first run records.
        for _ in 0..3 {
            begin()?;
            recorded.run()?;
        }
        if download()? != first {
            checked.not_repeated();
        }
        Ok(checked)
    };
    let mut checked = one_way(true)?;
    if encoder.blocks().use_fused_blocks(false) > 0 {
        let both = [checked, one_way(false)?];
        return Ok(bench.timed_in_turn(both, [way(true), way(false)])?.into());
    }
    let runs = TimedRuns { runs: bench.runs.runs.min(super::whole_trunk::TIMED), ..bench.runs };
    checked.timing = bench.time_recorded(runs, way(false))?;
    Ok(vec![checked])
}
