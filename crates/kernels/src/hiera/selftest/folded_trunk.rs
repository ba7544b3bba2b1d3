/*!
All blocks of a trunk on Hopper whose LayerNorms are folded into the GEMMs around them, wherever
kernels can, faster or not. The same trunk with its norms apart is timed in turn with it.

The numbers are held to those of cuBLASLt's first algorithms, with norms apart. Tokens are rounded
before they are folded, so that rows off zero lose digits: one case has them.
*/

use anyhow::{Result, anyhow, ensure};

use super::super::shapes::BlockGemms;
use super::super::{StandaloneTrunk, TrunkSource};
use super::models::Model;
use super::whole_trunk::{Drawn, alike, check};
use crate::gemm::{GemmKernels, GemmMomentsKernels};
use crate::selftest::{Bench, Checked, row};
use cuda::Stream;
use cuda::cublaslt::PdlKernels;
use vos::bundle::trunk::HieraBlock;

/// With the first kernels of several, which begin early; a kernel computes whole blocks where it
/// can.
const FOLDED: [&str; 2] = ["trunk whole, folded norms", "trunk whole, norms apart"];
/// With the last kernels, in order, and no kernel of whole blocks: more norms are folded. Then the
/// same by choices, as a manifest has them.
const SEPARATE: &str = "trunk whole, folded norms, other separate kernels";
/// As the first.
const OFF_ZERO: [&str; 2] =
    ["trunk whole, folded norms, rows off zero", "trunk whole, norms apart, rows off zero"];
/// The mean of the biases that blocks add to the residual, in their deviations. A block's input has
/// the same, as every block adds the same biases.
const OFFSET: f32 = 1.0;

/// How many rows a model has.
pub(super) fn rows(bench: &Bench, model: &Model) -> usize {
    let trunk = model.trunk();
    let served = |block: &HieraBlock| {
        let BlockGemms { proj, up, .. } = BlockGemms::of(block);
        GemmMomentsKernels::supports(proj.n, proj.k) && GemmKernels::supports(up.n, up.k)
    };
    let served = trunk.blocks.hiera().unwrap_or_default().iter().any(served);
    if served && bench.gpu.runs_hopper_kernels() { 2 * FOLDED.len() + 1 } else { 0 }
}

/// A row for each case; `first`: the tokens of cuBLASLt's first algorithms.
pub(super) fn judge(bench: &Bench, model: &Model, source: &TrunkSource, first: &[f32]) {
    if rows(bench, model) == 0 {
        return;
    }
    let source = &TrunkSource { choices: None, ..*source };
    let report = |names: [&str; 2], both: Result<[Checked; 2]>| {
        for (at, name) in names.into_iter().enumerate() {
            let checked = both.as_ref().map(|both| both[at].clone());
            bench.found(row(name, model.name, checked.map_err(|error| anyhow!("{error:#}"))));
        }
    };
    report(FOLDED, in_turn(bench, source, first));
    let separate = by_choices(bench, source, first);
    bench.found(row(SEPARATE, model.name, separate));
    let drawn = Drawn::new(bench.seed, source.blocks, OFFSET);
    let source = &TrunkSource { weights: &drawn.blocks(source.blocks), ..*source };
    let mut first = Vec::new();
    let both = laid_out(bench, source)
        .and_then(|alone| check(bench, &alone, &mut first))
        .and_then(|_| in_turn(bench, source, &first));
    report(OFF_ZERO, both);
}

fn laid_out(bench: &Bench, source: &TrunkSource) -> Result<StandaloneTrunk> {
    StandaloneTrunk::new(bench.gpu, source, &bench.stream)
}

/// What is found of a trunk whose tokens must be almost these.
fn held_to(bench: &Bench, alone: &StandaloneTrunk, first: &[f32]) -> Result<Checked> {
    let mut found = Vec::new();
    let checked = check(bench, alone, &mut found)?;
    alike(&found, first).map(|()| checked)
}

/// What is chosen gives the same numbers where it is read from choices.
fn by_choices(bench: &Bench, source: &TrunkSource, first: &[f32]) -> Result<Checked> {
    let alone = laid_out(bench, source)?;
    let executor = &alone.executor;
    executor.use_fused_blocks(false);
    executor.use_custom_kernels(true);
    ensure!(executor.fold_norms(Some(true)) > 0, "no norm can be folded");
    let (mut tried, mut found) = (Vec::new(), Vec::new());
    check(bench, &alone, &mut tried)?;
    alike(&tried, first)?;
    let choices = executor.choices(bench.gpu, [1.0; 2], &executor.fused().names());
    drop(alone);
    let chosen = laid_out(bench, &TrunkSource { choices: Some(&choices), ..*source })?;
    let checked = check(bench, &chosen, &mut found)?;
    ensure!(found == tried, "the kernels of the choices give other numbers");
    Ok(checked)
}

/// Folded norms and norms apart, with this crate's other kernels.
fn in_turn(bench: &Bench, source: &TrunkSource, first: &[f32]) -> Result<[Checked; 2]> {
    let alone = laid_out(bench, source)?;
    let executor = &alone.executor;
    executor.use_custom_kernels(false);
    executor.use_pdl(PdlKernels::ALL);
    ensure!(executor.fold_norms(Some(false)) > 0, "no norm can be folded");
    let folded = held_to(bench, &alone, first)?;
    executor.fold_norms(None);
    let apart = held_to(bench, &alone, first)?;
    let ways = [Some(false), None].map(|last| {
        move |stream: &Stream| {
            executor.fold_norms(last);
            executor.enqueue(stream)
        }
    });
    bench.timed_in_turn([folded, apart], ways)
}
