/*!
The ConvNeXt MLPs alone: as any GPU computes them and on Hopper, on the same tokens, with times that
are taken in turn. The whole encoder is compared with float64; here, one way with the other.
*/

use anyhow::Result;
use half::f16;

use super::{Case, LIMITS, Work};
use crate::kernel::Chain;
use crate::selftest::{Bench, Checked, compare, each_of, row};
use cuda::{LaunchMode, Stream, View};

const NAME: &str = "memory encoder MLP";
/// What follows an MLP, and the ways to compute it.
const KINDS: [(bool, &str); 2] = [(false, "MLP"), (true, "MLP with projection")];
const WAYS: [&str; 2] = ["for any GPU", "on Hopper"];

/// Rows that [`judge`] makes of a case: without latents, which are not in front of an MLP.
pub(super) fn rows(case: &Case) -> usize {
    if case.latents { 0 } else { KINDS.len() * WAYS.len() }
}

/// Of encoders that have computed a frame; the second has Hopper's MLP.
pub(super) fn judge(bench: &Bench, case: &Case, works: [&Work; 2]) {
    if rows(case) == 0 {
        return;
    }
    for (projected, kind) in KINDS {
        let both = each_of(check(bench, works, projected));
        for (checked, way) in both.into_iter().zip(WAYS) {
            bench.found(row(NAME, &format!("{}, {kind}, {way}", case.name), checked));
        }
    }
}

fn check(bench: &Bench, [old, new]: [&Work; 2], projected: bool) -> Result<[Checked; 2]> {
    let stream = &bench.stream;
    // The tokens of the first, as its last frame left them.
    for (from, to) in views(old).into_iter().zip(views(new)) {
        to.upload(&from.download(stream)?, stream)?;
    }
    let run = |work: &Work| -> Result<Vec<u8>> {
        enqueue(work, projected, stream)?;
        let out = if projected { &work.memory } else { &work.encoder.scratch.x };
        Ok(out.download(stream)?)
    };
    let (expected, came) = (run(old)?, run(new)?);
    let values = |bytes: &[u8]| -> Vec<f64> {
        let halves = bytes.as_chunks::<2>().0;
        halves.iter().map(|two| f16::from_le_bytes(*two).to_f64()).collect()
    };
    let sample: Vec<(usize, f64)> = values(&expected).into_iter().enumerate().collect();
    let found = values(&came);
    let judged = LIMITS.judge(&sample, |at| found.get(at).copied().unwrap_or(f64::NAN));
    let both = [compare(&expected, &expected, 2)?, judged];
    // Each run adds to the tokens; a few hundred are far from the largest half.
    let ways = [old, new].map(|work| move |stream: &Stream| enqueue(work, projected, stream));
    bench.timed_in_turn(both, ways)
}

/// What an MLP reads besides weights.
fn views(work: &Work) -> [&View; 3] {
    let scratch = &work.encoder.scratch;
    [&scratch.x, &scratch.y, &work.score]
}

fn enqueue(work: &Work, projected: bool, stream: &Stream) -> Result<()> {
    let (encoder, chain) = (&work.encoder, Chain::begin(stream, LaunchMode::Ordered));
    let [first, last] = &encoder.weights.blocks;
    if projected {
        encoder.convnext_mlp_proj(last, &work.score, &work.memory, &chain)
    } else {
        encoder.convnext_mlp(first, &chain)
    }
}
