/*!
RepViT against float64 on the host. Stem and neck: `stem_neck.rs`. Blocks: small trunks as a whole;
of EdgeTAM's, at 1024 and 512 pixels, each kind of block by itself. A whole trunk of that size must
give the same finite numbers when it is launched and when it is replayed; its time is that of all
blocks in a row.

On Hopper the kernels for any GPU have rows, too, and times of both are taken in turn. A large trunk
of Hopper's kernels is compared with the other one.
*/

mod drawn;
mod reference;
mod stem_neck;

use anyhow::{Context, Result, ensure};
use half::f16;

use super::fused::{HOPPER_SIDE, serves_hopper};
use super::{HALF, MODULES, RepVitExecutor, RepVitSource};
use crate::selftest::chain_modes::{self, Chained};
use crate::selftest::{
    Bench, Checked, Launches, Limits, POISON, Topic, compare, each_of, f16_bytes, row,
};
use cuda::{CapturedGraph, Gpu, LaunchMode, MemoryTag, Stream, View};
use drawn::{DrawnBlock, Model};
use vos::bundle::trunk::{RepVitBlock, RepVitWeights, STAGES};
use vos::noise::Noise;

const BLOCK: &str = "repvit block";
const WHOLE: &str = "repvit whole";
/// The same by Hopper's kernels, where these serve some of the blocks.
const BLOCK_HOPPER: &str = "repvit block hopper";
const WHOLE_HOPPER: &str = "repvit whole hopper";
const MODES: &str = "repvit modes";

/// Tokens, y and hidden columns are halves, each off by 2⁻¹² on average; all sums are f32.
const BLOCK_LIMITS: Limits = Limits { error: 1e-3, deviation: 2e-2 };
/// Through up to 14 blocks.
const WHOLE_LIMITS: Limits = Limits { error: 4e-3, deviation: 4e-2 };
/// Of a large map some squares of this side are computed on the host.
const SQUARE: usize = 4;
const ALL: usize = 1024;

const EDGETAM: [usize; STAGES] = [48, 96, 192, 384];
/// The last two are small: one with blocks of one launch in three stages, on Hopper in four, and
/// one with none.
const MODELS: [Model; 4] = [
    Model { name: "EdgeTAM at 1024", columns: EDGETAM, depths: [2, 2, 14, 2], grid: 256 },
    Model { name: "EdgeTAM at 512", columns: EDGETAM, depths: [2, 2, 14, 2], grid: 128 },
    Model { name: "as wide as EdgeTAM", columns: EDGETAM, depths: [2, 1, 2, 1], grid: 24 },
    Model { name: "narrow", columns: [16, 24, 40, 64], depths: [1, 1, 2, 1], grid: 24 },
];

impl Model {
    /// A small trunk is computed on the host, too.
    fn is_small(&self) -> bool {
        self.grid * self.grid <= ALL
    }

    /// Small maps test Hopper's kernels, too.
    fn hopper_side(&self) -> usize {
        if self.is_small() { 0 } else { HOPPER_SIDE }
    }
}

pub(crate) const TOPIC: Topic = Topic {
    word: "repvit",
    help: "EdgeTAM's image encoder, a RepViT",
    name: "RepViT's kernels",
    sources: &MODULES,
    used_by: Some("an encoder whose RepViT is ours"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

/// A trunk with drawn weights, and the tokens that it takes.
struct Drawn {
    blocks: Vec<RepVitBlock>,
    ends: [usize; STAGES],
    weights: Vec<DrawnBlock>,
    tokens: Vec<f16>,
    /// Of a small trunk the maps of all stages.
    expected: Vec<Vec<f64>>,
    /// The least side of a map for Hopper's kernels.
    hopper_side: usize,
}

impl Drawn {
    fn new(seed: u64, model: &Model) -> Self {
        let (blocks, ends) = model.blocks();
        let named = |at: usize| format!("{} {at}", model.name);
        let of_block = |(at, block)| DrawnBlock::new(seed, &named(at), block);
        let weights: Vec<DrawnBlock> = blocks.iter().enumerate().map(of_block).collect();
        let tokens = tokens(seed, model.grid * model.grid * model.columns[0]);
        let mut expected = Vec::new();
        if model.is_small() {
            let mut x: Vec<f64> = tokens.iter().map(|value| value.to_f64()).collect();
            for (at, (block, weights)) in blocks.iter().zip(&weights).enumerate() {
                x = reference::block(block, weights, &x, &vec![true; block.tokens_out()]);
                if ends.contains(&at) {
                    expected.push(x.clone());
                }
            }
        }
        Self { blocks, ends, weights, tokens, expected, hopper_side: model.hopper_side() }
    }

    /// Blocks that differ in more than their weights, the first of each kind.
    fn kinds(&self) -> Vec<usize> {
        let first = |at: &usize| !self.blocks[..*at].contains(&self.blocks[*at]);
        (0..self.blocks.len()).filter(first).collect()
    }
}

fn tokens(seed: u64, count: usize) -> Vec<f16> {
    Noise::new(seed, "repvit tokens").halves(count, 1.0)
}

/// Rows for each trunk, and for stem and neck around it; of a large one also for each kind of block.
fn judge(bench: &Bench) {
    let rows = |model: &Model| {
        let (blocks, ends) = model.blocks();
        let hopper_side = model.hopper_side();
        let drawn =
            Drawn { blocks, ends, weights: vec![], tokens: vec![], expected: vec![], hopper_side };
        let hopper = |at: &usize| {
            bench.gpu.runs_hopper_kernels() && serves_hopper(&drawn.blocks[*at], hopper_side)
        };
        let kinds = if model.is_small() { vec![] } else { drawn.kinds() };
        let twice = kinds.iter().filter(|at| hopper(at)).count();
        let wholes = 1 + usize::from((0..drawn.blocks.len()).any(|at| hopper(&at)));
        wholes + chain_modes::rows(bench) + kinds.len() + twice + stem_neck::rows(bench)
    };
    let cases =
        bench.planned(MODELS, |model| (model.grid * model.grid * model.columns[0], rows(model)));
    let seed = bench.seed;
    bench.each(
        &cases,
        |model| Drawn::new(seed, model),
        |model, drawn| {
            let works = match Works::new(bench, &drawn) {
                Ok(works) => works,
                Err(error) => return bench.found(row(WHOLE, model.name, Err(error))),
            };
            works.whole(bench, model.name, &drawn);
            works.own.modes(bench, model.name, &drawn);
            let Drawn { blocks, ends, weights, .. } = &drawn;
            stem_neck::judge(bench, model, blocks, ends, weights);
            for at in drawn.kinds().into_iter().filter(|_| !model.is_small()) {
                let name = format!("{}, {}", model.name, named(&drawn.blocks[at]));
                works.block(bench, &name, &drawn, at);
            }
        },
    );
}

/// "48 to 96 columns of 256 x 256, squeezed"
fn named(block: &RepVitBlock) -> String {
    let RepVitBlock { dim, dim_out, grid, squeeze, .. } = *block;
    let columns = if dim == dim_out { format!("{dim}") } else { format!("{dim} to {dim_out}") };
    let squeezed = if squeeze > 0 { ", squeezed" } else { "" };
    format!("{columns} columns of {grid} x {grid}{squeezed}")
}

/// A trunk by the kernels for this GPU; on Hopper, where these are others, also by those for any.
struct Works {
    own: Work,
    any: Option<Work>,
}

impl Works {
    fn new(bench: &Bench, drawn: &Drawn) -> Result<Self> {
        let own = Work::new(bench, drawn, bench.gpu)?;
        let hopper = (0..drawn.blocks.len()).any(|at| own.executor.is_hopper(at));
        let any = || Work::new(bench, drawn, &bench.gpu.ampere_only());
        let any = hopper.then(any).transpose()?;
        Ok(Self { own, any })
    }

    /// Rows of all blocks.
    fn whole(&self, bench: &Bench, case: &str, drawn: &Drawn) {
        let Self { own, any } = self;
        let Some(any) = any else {
            let check = || -> Result<Checked> {
                let (mut checked, _) = own.whole(bench, drawn, None)?;
                checked.timing =
                    bench.time_recorded(bench.runs, |stream| own.executor.enqueue(stream))?;
                Ok(checked)
            };
            return bench.found(row(WHOLE, case, check()));
        };
        let check = || -> Result<[Checked; 2]> {
            let (first, maps) = any.whole(bench, drawn, None)?;
            let (second, _) = own.whole(bench, drawn, Some(&maps))?;
            let ways = [any, own].map(|work| |stream: &Stream| work.executor.enqueue(stream));
            bench.timed_in_turn([first, second], ways)
        };
        found_both(bench, [WHOLE, WHOLE_HOPPER], case, check());
    }

    /// Rows of one block.
    fn block(&self, bench: &Bench, case: &str, drawn: &Drawn, at: usize) {
        let Self { own, any } = self;
        let Some(any) = any.as_ref().filter(|_| own.executor.is_hopper(at)) else {
            let check = || -> Result<Checked> {
                let mut checked = own.block(bench, drawn, at)?;
                let one = |stream: &Stream| own.executor.enqueue_block(at, stream);
                checked.timing = bench.time_recorded(bench.runs, one)?;
                Ok(checked)
            };
            return bench.found(row(BLOCK, case, check()));
        };
        let check = || -> Result<[Checked; 2]> {
            let both = [any.block(bench, drawn, at)?, own.block(bench, drawn, at)?];
            let ways = [any, own]
                .map(|work| move |stream: &Stream| work.executor.enqueue_block(at, stream));
            bench.timed_in_turn(both, ways)
        };
        found_both(bench, [BLOCK, BLOCK_HOPPER], case, check());
    }
}

fn found_both(bench: &Bench, names: [&str; 2], case: &str, both: Result<[Checked; 2]>) {
    for (name, checked) in names.into_iter().zip(each_of(both)) {
        bench.found(row(name, case, checked));
    }
}

/// A trunk on the device.
struct Work {
    executor: RepVitExecutor,
    maps: Vec<View>,
}

impl Work {
    fn new(bench: &Bench, drawn: &Drawn, gpu: &Gpu) -> Result<Self> {
        let Drawn { blocks, ends, weights, .. } = drawn;
        let memory = gpu.tagged(MemoryTag::Scratch);
        let map = |end: &usize| {
            let block = blocks.get(*end).context("a stage ends at no block")?;
            Ok(View::new(&memory, HALF * block.tokens_out() * block.dim_out)?)
        };
        let maps: Vec<View> = ends.iter().map(map).collect::<Result<_>>()?;
        let scratch = View::new(&memory, RepVitExecutor::scratch_bytes(blocks))?;
        let weights: Vec<RepVitWeights> = weights.iter().map(DrawnBlock::weights).collect();
        let hopper_side = Some(drawn.hopper_side);
        let source = RepVitSource { blocks, ends, weights: &weights, hopper_side };
        let executor = RepVitExecutor::new(gpu, &source, &maps, &scratch, &bench.stream)?;
        Ok(Self { executor, maps })
    }

    /// All blocks, launched and replayed, and the stages' maps. `others`: of other kernels, which a
    /// large trunk is compared with.
    fn whole(
        &self,
        bench: &Bench,
        drawn: &Drawn,
        others: Option<&[Vec<u8>]>,
    ) -> Result<(Checked, Vec<Vec<u8>>)> {
        let (Self { executor, maps }, stream) = (self, &bench.stream);
        let tokens = f16_bytes(&drawn.tokens);
        let begin = || -> Result<()> {
            maps.iter().try_for_each(|map| map.fill(POISON, stream))?;
            Ok(maps[0].upload(&tokens, stream)?)
        };
        let download = || maps.iter().map(|map| Ok(map.download(stream)?)).collect::<Result<_>>();
        begin()?;
        executor.enqueue(stream)?;
        let first: Vec<Vec<u8>> = download()?;
        let mut checked = match others.filter(|_| drawn.expected.is_empty()) {
            None if drawn.expected.is_empty() => finite(&first)?,
            None => of_stages(&first, drawn.expected.iter().map(|map| map.iter().copied())),
            Some(others) => {
                finite(&first)?;
                let values = |map: &Vec<u8>| {
                    let halves = map.as_chunks::<2>().0.to_vec();
                    halves.into_iter().map(|two| f16::from_le_bytes(two).to_f64())
                };
                of_stages(&first, others.iter().map(values))
            }
        };
        let launches = Launches(|stream: &Stream| executor.enqueue(stream), 1);
        let mut recorded = CapturedGraph::new(launches, stream, true);
        // The first run records.
        for _ in 0..2 {
            begin()?;
            recorded.run()?;
        }
        let again: Vec<Vec<u8>> = download()?;
        if again != first {
            checked.not_repeated();
        }
        Ok((checked, first))
    }

    /// All blocks in each launch mode.
    fn modes(&self, bench: &Bench, case: &str, drawn: &Drawn) {
        let (Self { executor, maps }, stream) = (self, &bench.stream);
        let tokens = f16_bytes(&drawn.tokens);
        let begin = || maps.iter().try_for_each(|map| Ok(map.fill(POISON, stream)?));
        let download = || -> Result<Vec<u8>> {
            let all: Result<Vec<Vec<u8>>> =
                maps.iter().map(|map| Ok(map.download(stream)?)).collect();
            Ok(all?.concat())
        };
        let enqueue = |mode: LaunchMode, stream: &Stream| executor.enqueue_in(mode, stream);
        let (begin, enqueue, download) = (&begin, &enqueue, &download);
        let input = (&maps[0], &tokens[..]);
        chain_modes::judge(bench, &Chained { name: MODES, case, input, begin, enqueue, download });
    }

    /// One block, of drawn tokens.
    fn block(&self, bench: &Bench, drawn: &Drawn, at: usize) -> Result<Checked> {
        let (shape, stream) = (&drawn.blocks[at], &bench.stream);
        let [x, out] = self.executor.maps_of(at).context("there is no such block")?;
        let tokens = tokens(bench.seed, shape.tokens() * shape.dim);
        let wanted = looked_at(shape.grid_out());
        let values: Vec<f64> = tokens.iter().map(|value| value.to_f64()).collect();
        let weights = &drawn.weights[at];
        let expected =
            bench.processors.install(|| reference::block(shape, weights, &values, &wanted));
        out.fill(POISON, stream)?;
        x.upload(&f16_bytes(&tokens), stream)?;
        self.executor.enqueue_block(at, stream)?;
        let came = out.download(stream)?;
        let sample = expected.iter().copied().enumerate();
        let sample: Vec<(usize, f64)> =
            sample.filter(|(element, _)| wanted[element / shape.dim_out]).collect();
        Ok(BLOCK_LIMITS.judge(&sample, value_of(&came)))
    }
}

/// Of each stage's map, what is expected there.
fn of_stages<M: Iterator<Item = f64>>(
    maps: &[Vec<u8>],
    expected: impl Iterator<Item = M>,
) -> Checked {
    let judged = maps.iter().zip(expected).enumerate().map(|(stage, (came, expected))| {
        let sample: Vec<(usize, f64)> = expected.enumerate().collect();
        (format!("stage {stage}"), WHOLE_LIMITS.judge(&sample, value_of(came)))
    });
    let judged: Vec<(String, Checked)> = judged.collect();
    let named: Vec<(&str, Checked)> =
        judged.iter().map(|(name, checked)| (name.as_str(), checked.clone())).collect();
    Checked::of_outputs(&named)
}

fn value_of(came: &[u8]) -> impl Fn(usize) -> f64 + '_ {
    let halves = came.as_chunks::<2>().0;
    |at: usize| halves.get(at).map_or(f64::NAN, |two| f16::from_le_bytes(*two).to_f64())
}

/// That all numbers are finite: no host computes a large trunk.
fn finite(maps: &[Vec<u8>]) -> Result<Checked> {
    for (stage, map) in maps.iter().enumerate() {
        let odd =
            map.as_chunks::<2>().0.iter().position(|two| !f16::from_le_bytes(*two).is_finite());
        ensure!(
            odd.is_none(),
            "element {} of stage {stage} is no finite number",
            odd.unwrap_or_default()
        );
    }
    let all = maps.concat();
    compare(&all, &all, HALF)
}

/// Tokens of a map that are computed on the host: all, or squares in the corners, in the middle and
/// across a tile's end.
fn looked_at(grid: usize) -> Vec<bool> {
    if grid * grid <= ALL {
        return vec![true; grid * grid];
    }
    let (last, middle) = (grid - SQUARE, (grid - SQUARE) / 2);
    let squares = [(0, 0), (0, last), (last, 0), (last, last), (middle, middle), (6, 14)];
    let mut wanted = vec![false; grid * grid];
    for (top, left) in squares {
        for y in top..top + SQUARE {
            wanted[y * grid + left..][..SQUARE].fill(true);
        }
    }
    wanted
}
