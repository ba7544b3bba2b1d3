/*!
All blocks of a trunk one after the other, with drawn weights. Their time exceeds the sum of their
kernels' times, as a kernel timed by itself finds its code and data in the caches. No host reference
computes a whole trunk: launches and a replayed graph must give the same finite numbers. Each trunk
is also in an encoder with stem and neck.
*/

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use super::super::fused::Shape;
use super::super::{StandaloneTrunk, TrunkSource, autotune};
use super::{DRAWN, any_gpu_trunk, bytes_of_halves, drawn, halves, repeated, whole_encoder};
use crate::Source;
use crate::gemm::{GemmKernels, GemmLayerNormKernels};
use crate::neck;
use crate::selftest::{Bench, Checked, Launches, POISON, TimedRuns, Topic, bytes_of, compare, row};
use cuda::cublaslt::{Choices, CublasLt, CublasLtError, PdlKernels};
use cuda::{CapturedGraph, Missed, Stream};
use vos::bundle::FusedPart;
use vos::bundle::trunk::{HieraBlock, HieraWeights, LayerBytes, Trunk, TrunkBlocks};

const NAME: &str = "trunk whole";
/// With the choices of an autotuning of [`BUDGET`].
const CHOSEN: &str = "trunk whole, autotuned";
/// With the same choices, in an encoder of kernels alone.
const ENCODER: &str = "hiera encoder, autotuned";
/// The same three with several kernels for every block, where one kernel serves whole blocks.
const SEPARATE: &str = "trunk whole, separate kernels";
const CHOSEN_SEPARATE: &str = "trunk whole, autotuned, separate kernels";
const ENCODER_SEPARATE: &str = "hiera encoder, autotuned, separate kernels";
/// With the custom kernels for all GEMMs that they serve, faster or not.
const CUSTOM: &str = "trunk whole, custom kernels";
const CUSTOM_PDL: &str = "trunk whole, other custom kernels, early";

/// Time of autotuning: enough to choose other algorithms than the first, which is checked here.
/// With SAM 2.1 large little of it is left for kernels.
pub(super) const BUDGET: Duration = Duration::from_millis(500);
/// Limit of the relative difference between algorithms and kernels.
const ALIKE: f64 = 2e-3;
/// Timed replays, at most: a trunk takes milliseconds.
pub(super) const TIMED: usize = 5;

/// A Hiera as SAM 2.1 has it (sam2/configs/sam2.1), at a side of the first map.
struct Model {
    name: &'static str,
    columns: usize,
    heads: usize,
    stages: [usize; 4],
    windows: [usize; 4],
    /// Blocks with global attention.
    whole: [usize; 3],
    grid: usize,
}

const MODELS: [Model; 6] = [
    Model {
        name: "tiny at 1024 pixels",
        columns: 96,
        heads: 1,
        stages: [1, 2, 7, 2],
        windows: [8, 4, 14, 7],
        whole: [5, 7, 9],
        grid: 256,
    },
    Model {
        name: "small at 1024 pixels",
        columns: 96,
        heads: 1,
        stages: [1, 2, 11, 2],
        windows: [8, 4, 14, 7],
        whole: [7, 10, 13],
        grid: 256,
    },
    Model {
        name: "base+ at 1024 pixels",
        columns: 112,
        heads: 2,
        stages: [2, 3, 16, 3],
        windows: [8, 4, 14, 7],
        whole: [12, 16, 20],
        grid: 256,
    },
    Model {
        name: "large at 1024 pixels",
        columns: 144,
        heads: 2,
        stages: [2, 6, 36, 4],
        windows: [8, 4, 16, 8],
        whole: [23, 33, 43],
        grid: 256,
    },
    Model {
        name: "a small one",
        columns: 8,
        heads: 1,
        stages: [1, 1, 2, 1],
        windows: [4, 4, 2, 2],
        whole: [3, 4, 5],
        grid: 8,
    },
    Model {
        name: "a small one as wide as tiny",
        columns: 96,
        heads: 1,
        stages: [2, 2, 2, 1],
        windows: [8, 4, 2, 2],
        whole: [5, 6, 7],
        grid: 8,
    },
];

impl Model {
    /// Whether one kernel serves whole blocks.
    fn is_fused(&self) -> bool {
        let trunk = self.trunk();
        let blocks = trunk.blocks.hiera().unwrap_or_default();
        blocks.iter().any(|block| Shape::of(block).is_some())
    }

    fn trunk(&self) -> Trunk {
        let mut ends = [0; 4];
        let (mut blocks, mut grid, mut dim, mut heads) =
            (Vec::new(), self.grid, self.columns, self.heads);
        for (stage, count) in self.stages.into_iter().enumerate() {
            for at in 0..count {
                let pooled = stage > 0 && at == 0;
                // The first block of a stage attends in the windows of the stage before.
                let window = self.windows[stage - usize::from(pooled)];
                let whole = self.whole.contains(&blocks.len()) && !pooled;
                let factor = if pooled { 2 } else { 1 };
                heads *= factor;
                blocks.push(HieraBlock {
                    dim,
                    dim_out: dim * factor,
                    heads,
                    grid,
                    window: if whole { 0 } else { window },
                    pooled,
                });
                dim *= factor;
                grid /= factor;
            }
            ends[stage] = blocks.len() - 1;
        }
        Trunk {
            file: Trunk::FILE.to_owned(),
            sha256: String::new(),
            flops: 0,
            ends,
            blocks: TrunkBlocks::Hiera(blocks),
            keys: None,
            stem: None,
            neck: None,
        }
    }
}

pub(crate) const TOPIC: Topic = Topic {
    word: "trunk",
    help: "All Hiera blocks in sequence, alone and with stem and neck",
    name: "whole trunks",
    sources: &[
        Source::GemmLayernormHopper192,
        Source::GemmLayernormHopper224,
        Source::GemmLayernormHopper144,
        Source::GemmLayernormHopper384,
        Source::GemmLayernormHopper448,
        Source::GemmBiasHopper,
        Source::GemmGeluHopper,
        Source::AttentionClusterHopper,
        Source::AttentionGlobalHopper,
        Source::Attention,
        Source::HieraStem,
        neck::MODULE,
    ],
    used_by: Some("an encoder whose trunk is ours"),
    needs_cublaslt: true,
    judge,
};

/// A row for each model and choice of kernels; the reason if there is no cuBLASLt.
fn judge(bench: &Bench) -> Result<(), String> {
    if let Err(error @ CublasLtError::Library(Missed::NotFound(_))) = CublasLt::open(bench.gpu) {
        return Err(error.to_string());
    }
    let gemms = GemmKernels::load_if_supported(bench.gpu, |_| true).is_some();
    let norms = GemmLayerNormKernels::load_if_supported(bench.gpu, |_, _| true).is_some();
    // The first of several kernels, then the last.
    let custom = [(CUSTOM, false, PdlKernels::default()), (CUSTOM_PDL, true, PdlKernels::ALL)];
    let custom = if gemms || norms { &custom[..] } else { &[] };
    let cases = bench.planned(&MODELS, |model| {
        let rows = if model.is_fused() { 6 } else { 3 } + any_gpu_trunk::rows(bench, model.name);
        (model.grid * model.grid * model.columns, rows + custom.len())
    });
    let seed = bench.seed;
    let make = |model: &&Model| {
        let trunk = model.trunk();
        let drawn = Drawn::new(seed, trunk.blocks.hiera().unwrap_or_default());
        let outer = whole_encoder::Drawn::new(seed, &trunk);
        (trunk, drawn, outer)
    };
    bench.each(&cases, make, |model, (trunk, drawn, outer)| {
        let blocks = trunk.blocks.hiera().unwrap_or_default();
        let weights = drawn.blocks(blocks);
        let (ends, weights) = (&trunk.ends, &weights[..]);
        let laid_out = |choices: Option<&Choices>| {
            let source = TrunkSource { blocks, ends, weights, choices };
            trunk.check().and_then(|()| StandaloneTrunk::new(bench.gpu, &source, &bench.stream))
        };
        let mut tokens = Vec::new();
        let first = laid_out(None).and_then(|alone| {
            let checked = check(bench, &alone, &mut tokens)?;
            Ok((alone, checked))
        });
        let as_first = |alone: &StandaloneTrunk| {
            let mut found = Vec::new();
            let checked = check(bench, alone, &mut found)?;
            alike(&found, &tokens).map(|()| checked)
        };
        let report = |names: [&str; 2], checked: Result<Vec<Checked>>| {
            for (at, name) in names.into_iter().take(1 + usize::from(model.is_fused())).enumerate()
            {
                let checked = match &checked {
                    // Where autotuning found several kernels faster, there is one way alone.
                    Ok(all) => all.get(at).or(all.first()).cloned().context("nothing ran"),
                    Err(error) => Err(anyhow!("{error:#}")),
                };
                bench.found(row(name, model.name, checked));
            }
        };
        let first = first.and_then(|(alone, checked)| both_ways(bench, &alone, checked, as_first));
        report([NAME, SEPARATE], first);
        let source = TrunkSource { blocks, ends, weights, choices: None };
        let (chosen, encoder) = match autotune(bench.gpu, &source, BUDGET) {
            Ok(choices) => {
                let choices = Some(&choices);
                let source = TrunkSource { choices, ..source };
                let encoder = outer.and_then(|outer| whole_encoder::check(bench, &source, &outer));
                let chosen = laid_out(choices).and_then(|alone| {
                    let checked = as_first(&alone)?;
                    both_ways(bench, &alone, checked, as_first)
                });
                (chosen, encoder)
            }
            Err(error) => {
                let again = anyhow!("{error:#}");
                (Err(error), Err(again))
            }
        };
        report([CHOSEN, CHOSEN_SEPARATE], chosen);
        report([ENCODER, ENCODER_SEPARATE], encoder);
        for (name, last, pdl) in custom.iter().copied() {
            let checked = laid_out(None).and_then(|alone| {
                alone.executor.use_pdl(pdl);
                let served = alone.executor.use_custom_kernels(last);
                ensure!(served > 0, "no custom kernel serves any of its GEMMs");
                as_first(&alone)
            });
            bench.found(row(name, model.name, checked));
        }
        any_gpu_trunk::judge(bench, &source, model.name);
    });
    Ok(())
}

/// What was found of a trunk and, where one kernel serves whole blocks, the same with several
/// kernels; both ways timed in turn.
fn both_ways(
    bench: &Bench,
    alone: &StandaloneTrunk,
    checked: Checked,
    as_first: impl Fn(&StandaloneTrunk) -> Result<Checked>,
) -> Result<Vec<Checked>> {
    let executor = &alone.executor;
    if executor.use_fused_blocks(false) == 0 {
        return Ok(vec![checked]);
    }
    let separate = as_first(alone)?;
    let ways = [true, false].map(|fused| {
        move |stream: &Stream| {
            executor.use_fused_blocks(fused);
            executor.enqueue(stream)
        }
    });
    Ok(bench.timed_in_turn([checked, separate], ways)?.into())
}

/// Weights, drawn once; every layer has a prefix of them.
struct Drawn {
    halves: Vec<u8>,
    floats: Vec<u8>,
}

impl Drawn {
    fn new(seed: u64, blocks: &[HieraBlock]) -> Self {
        let widest = blocks.iter().map(|block| block.dim_out).max().unwrap_or(0);
        let values = drawn(seed, "trunk weights");
        // The output of a block is then about as large as its input.
        let scale = 1.0 / (widest as f32).sqrt();
        let small: Vec<f32> = values.iter().map(|value| value * scale).collect();
        Self {
            halves: repeated(&bytes_of_halves(&halves(&small)), 2 * 4 * widest * widest),
            floats: repeated(&bytes_of(&values, |value| value.to_le_bytes()), 4 * widest),
        }
    }

    fn norm(&self, columns: usize) -> LayerBytes<'_> {
        let floats = &self.floats[..4 * columns];
        LayerBytes { weight: floats, bias: floats }
    }

    fn linear(&self, rows: usize, columns: usize, width: usize) -> LayerBytes<'_> {
        let bias = if width == 4 { &self.floats } else { &self.halves };
        LayerBytes { weight: &self.halves[..2 * rows * columns], bias: &bias[..width * rows] }
    }

    fn blocks(&self, blocks: &[HieraBlock]) -> Vec<HieraWeights<'_>> {
        blocks.iter().map(|block| self.block(block)).collect()
    }

    fn block(&self, block: &HieraBlock) -> HieraWeights<'_> {
        let (d, e) = (block.dim, block.dim_out);
        HieraWeights {
            norm1: self.norm(d),
            skip: block.skips().then(|| self.linear(e, d, 2)),
            qkv: self.linear(3 * e, d, 2),
            proj: self.linear(e, e, 4),
            norm2: self.norm(e),
            up: self.linear(4 * e, e, 2),
            down: self.linear(e, 4 * e, 4),
        }
    }
}

/// Other algorithms and kernels round differently, up to 48 blocks deep; the difference is far
/// smaller than that of one wrong GEMM.
pub(super) fn alike(found: &[f32], first: &[f32]) -> Result<()> {
    ensure!(found.len() == first.len(), "there is nothing to compare with");
    let square = |values: &mut dyn Iterator<Item = f32>| -> f64 {
        values.map(|value| f64::from(value).powi(2)).sum()
    };
    let differences = square(&mut found.iter().zip(first).map(|(a, b)| a - b));
    let error = (differences / square(&mut first.iter().copied())).sqrt();
    log::debug!("all blocks as chosen differ by {error:.1e} from the first choice");
    ensure!(
        error < ALIKE,
        "the tokens after the stages differ by {error:.1e} (relative) from those of cuBLASLt's \
         first algorithms, {ALIKE:.0e} at most is expected"
    );
    Ok(())
}

pub(super) fn check(
    bench: &Bench,
    alone: &StandaloneTrunk,
    tokens_after: &mut Vec<f32>,
) -> Result<Checked> {
    let (StandaloneTrunk { executor, maps }, stream) = (alone, &bench.stream);
    let values = drawn(bench.seed, "trunk tokens");
    let floats = bytes_of(&values[..DRAWN], |value| value.to_le_bytes());
    let tokens = repeated(&floats, maps[0].len());
    let all = |stream: &Stream| -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for map in maps {
            bytes.extend(map.download(stream)?);
        }
        Ok(bytes)
    };
    let begin = || -> Result<()> {
        maps.iter().try_for_each(|map| map.fill(POISON, stream))?;
        Ok(maps[0].upload(&tokens, stream)?)
    };
    begin()?;
    executor.enqueue(stream)?;
    let first = all(stream)?;
    // What a later replay leaves is held to what the launches left; the first run records.
    let mut recorded =
        CapturedGraph::new(Launches(|stream: &Stream| executor.enqueue(stream), 1), stream, true);
    for _ in 0..3 {
        begin()?;
        recorded.run()?;
    }
    let mut checked = compare(&all(stream)?, &first, 4)?;
    let of = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    tokens_after.extend(first.chunks_exact(4).map(of));
    let odd = tokens_after.iter().position(|value| !value.is_finite());
    ensure!(
        odd.is_none(),
        "element {} of the tokens after the stages is no finite number",
        odd.unwrap_or(0)
    );
    let runs = TimedRuns { runs: bench.runs.runs.min(TIMED), ..bench.runs };
    checked.timing = bench.time_recorded(runs, |stream| executor.enqueue(stream))?;
    Ok(checked)
}
