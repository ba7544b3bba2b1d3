/*!
All blocks of a trunk on Hopper with the kernels for any GPU from sm 80 on, as engines of
`--ampere-plus` run them: an H200 then shows what other GPUs would gain. The rows are compared with
the first of them, since attention of the two kinds rounds differently.
*/

use std::time::Duration;

use anyhow::Result;

use super::super::{StandaloneTrunk, TrunkSource, autotune};
use super::whole_trunk::{BUDGET, alike, check};
use crate::selftest::{Bench, Checked, row};
use cuda::cublaslt::Choices;

/// With cuBLASLt's first algorithms, and fused blocks where they serve.
const FIRST: &str = "trunk whole, any GPU";
/// Without fused blocks: a kernel for each epilogue.
const SEPARATE: &str = "trunk whole, any GPU, separate kernels";
/// After an autotuning.
const CHOSEN: &str = "trunk whole, any GPU, autotuned";
/// The models, and the time of autotuning: more than an H200 needs, or as elsewhere.
const MODELS: [(&str, Duration); 3] = [
    ("tiny at 1024 pixels", Duration::from_secs(30)),
    ("base+ at 1024 pixels", Duration::from_secs(30)),
    ("a small one", BUDGET),
];

/// How many rows the model of that name has.
pub(super) fn rows(bench: &Bench, model: &str) -> usize {
    let has = MODELS.iter().any(|(name, _)| *name == model);
    if has && bench.gpu.runs_hopper_kernels() { 3 } else { 0 }
}

/// A row for each choice of kernels, where the model has rows.
pub(super) fn judge(bench: &Bench, source: &TrunkSource, model: &str) {
    if rows(bench, model) == 0 {
        return;
    }
    let gpu = bench.gpu.ampere_only();
    let laid_out = |choices: Option<&Choices>| {
        StandaloneTrunk::new(&gpu, &TrunkSource { choices, ..*source }, &bench.stream)
    };
    let mut tokens = Vec::new();
    let first = laid_out(None).and_then(|alone| check(bench, &alone, &mut tokens));
    bench.found(row(FIRST, model, first));
    let as_first = |alone: &StandaloneTrunk| -> Result<Checked> {
        let mut found = Vec::new();
        let checked = check(bench, alone, &mut found)?;
        alike(&found, &tokens).map(|()| checked)
    };
    let separate = laid_out(None).and_then(|alone| {
        alone.executor.use_fused_blocks(false);
        as_first(&alone)
    });
    bench.found(row(SEPARATE, model, separate));
    let budget = MODELS.iter().find(|(name, _)| *name == model).map_or(BUDGET, |(_, time)| *time);
    let chosen = autotune(&gpu, source, budget).and_then(|choices| {
        log::debug!("{model} with kernels for any GPU: {choices:?}");
        as_first(&laid_out(Some(&choices))?)
    });
    bench.found(row(CHOSEN, model, chosen));
}
