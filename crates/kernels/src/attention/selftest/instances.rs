/*!
The attention of the bank on Hopper without a bias, by each of its two instances: the one that has no
code for a bias, and the one that takes a bias and gets none. The times, taken in turn, say whether
the first instance is needed.
*/

use anyhow::Result;

use super::{Attention, AttentionKernels, Case, Data, Values, prepare};
use crate::selftest::{Bench, Checked, each_of, row};
use cuda::Stream;

const NAME: &str = "cross-attention without a bias";
const WAYS: [&str; 2] = ["instance without", "instance with"];

/// Rows that [`judge`] makes of a case.
pub(super) fn rows(case: &Case) -> usize {
    if case.values == Values::Memory && case.masked.is_none() { WAYS.len() } else { 0 }
}

/// Of the kernels for Hopper.
pub(super) fn judge(bench: &Bench, case: &Case, kernels: &AttentionKernels, data: &Data) {
    if rows(case) == 0 {
        return;
    }
    let both = each_of(check(bench, case, kernels, data));
    for (checked, way) in both.into_iter().zip(WAYS) {
        let Case { name, objects, queries, keys, .. } = case;
        let mut found =
            row(NAME, &format!("{name}: {objects} x {queries} x {keys}, {way}"), checked);
        case.rate(&mut found);
        bench.found(found);
    }
}

fn check(
    bench: &Bench,
    case: &Case,
    kernels: &AttentionKernels,
    data: &Data,
) -> Result<[Checked; 2]> {
    let with = kernels.with_biased_instance_alone()?;
    let made = |kernels: &AttentionKernels| {
        prepare(bench, Attention::new(bench.gpu, kernels, case.shape())?, data)
    };
    let ((without, run_without), (with, run_with)) = (made(kernels)?, made(&with)?);
    let ways = [run_without, run_with].map(|run| move |stream: &Stream| run(stream).map(drop));
    bench.timed_in_turn([without, with], ways)
}
