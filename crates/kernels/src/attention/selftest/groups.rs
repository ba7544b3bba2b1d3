/*!
The attention of the bank for any GPU with two groups of warps in a block, as it is launched, beside
one group: as many such blocks as a multiprocessor holds, and one alone. Orin and the RTX 30 series
hold one alone, so these rows show on another GPU what the second group is for. Times are taken in
turn.
*/

use anyhow::Result;

use super::{Attention, AttentionKernels, Case, Data, Values, prepare};
use crate::selftest::{Bench, Checked, each_of, row};
use cuda::Stream;

const NAME: &str = "attention_cross groups";
/// The launch with two groups and one that it is compared with: whether its block is alone.
const WAYS: [(bool, [&str; 2]); 2] = [
    (true, ["two groups", "one group, alone on its multiprocessor"]),
    (false, ["two groups again", "one group"]),
];

/// Rows that [`judge`] makes of a case.
pub(super) fn rows(case: &Case) -> usize {
    if case.values == Values::Memory && case.masked.is_none() { 2 * WAYS.len() } else { 0 }
}

/// Of the kernels for any GPU.
pub(super) fn judge(bench: &Bench, case: &Case, kernels: &AttentionKernels, data: &Data) {
    if rows(case) == 0 {
        return;
    }
    for (alone, ways) in WAYS {
        let both = each_of(check(bench, case, kernels, data, alone));
        for (checked, way) in both.into_iter().zip(ways) {
            let Case { name, objects, queries, keys, .. } = case;
            let mut found =
                row(NAME, &format!("{name}: {objects} x {queries} x {keys}, {way}"), checked);
            case.rate(&mut found);
            bench.found(found);
        }
    }
}

fn check(
    bench: &Bench,
    case: &Case,
    kernels: &AttentionKernels,
    data: &Data,
    alone: bool,
) -> Result<[Checked; 2]> {
    let one = kernels.in_one_group(bench.gpu, alone)?;
    let made = |kernels: &AttentionKernels| {
        prepare(bench, Attention::new(bench.gpu, kernels, case.shape())?, data)
    };
    let ((two, run_two), (one, run_one)) = (made(kernels)?, made(&one)?);
    let ways = [run_two, run_one].map(|run| move |stream: &Stream| run(stream).map(drop));
    bench.timed_in_turn([two, one], ways)
}
