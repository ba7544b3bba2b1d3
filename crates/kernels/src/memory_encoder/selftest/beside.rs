/*!
A part of the memory encoder computed in two ways, one beside the other: the usual one gives the
expected results. Either must give the same bits in each run.
*/

use anyhow::Result;
use half::f16;

use super::{LIMITS, RUNS, Work};
use crate::selftest::{Bench, Checked};
use cuda::Stream;

/// Two ways, with times that are taken in turn. `run` gives a result of the same inputs each time;
/// `enqueue` is what is timed.
pub(super) fn in_turn(
    bench: &Bench,
    [usual, other]: [&Work; 2],
    run: impl Fn(&Work) -> Result<Vec<u8>>,
    enqueue: impl Fn(&Work, &Stream) -> Result<()>,
) -> Result<[Checked; 2]> {
    let runs = |work: &Work| -> Result<Vec<Vec<u8>>> { (0..RUNS).map(|_| run(work)).collect() };
    let (expected, came) = (runs(usual)?, runs(other)?);
    let both = judge([&expected, &came]);
    let ways = [usual, other].map(|work| {
        let enqueue = &enqueue;
        move |stream: &Stream| enqueue(work, stream)
    });
    bench.timed_in_turn(both, ways)
}

/// The last run of each way within limits of the usual way's first run, and all runs of a way the
/// same.
fn judge(ways: [&[Vec<u8>]; 2]) -> [Checked; 2] {
    let values = |bytes: Option<&Vec<u8>>| -> Vec<f64> {
        let halves = bytes.map_or(&[][..], |bytes| bytes.as_chunks::<2>().0);
        halves.iter().map(|two| f16::from_le_bytes(*two).to_f64()).collect()
    };
    let expected: Vec<(usize, f64)> = values(ways[0].first()).into_iter().enumerate().collect();
    ways.map(|runs| {
        let found = values(runs.last());
        let mut checked = LIMITS.judge(&expected, |at| found.get(at).copied().unwrap_or(f64::NAN));
        if runs.windows(2).any(|two| two[0] != two[1]) {
            checked.not_repeated();
        }
        checked
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_way_can_fail() {
        let run = |values: [f32; 2]| -> Vec<u8> {
            values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect()
        };
        let (usual, near, far) = (run([1.0, 2.0]), run([1.0, 2.001]), run([1.0, -2.0]));
        let reasons = |usual: [&Vec<u8>; 2], other: [&Vec<u8>; 2]| {
            let [usual, other] = [usual, other].map(|runs| runs.map(Clone::clone));
            judge([&usual, &other]).map(|checked| checked.first)
        };
        assert_ne!(usual, near, "other bits, within the limits");
        assert_eq!(reasons([&usual; 2], [&near; 2]), [None, None]);
        let said = "two runs on the same inputs gave other bits";
        let [first, second] = reasons([&usual, &near], [&usual; 2]);
        assert_eq!((first.as_deref(), second), (Some(said), None));
        let [first, second] = reasons([&usual; 2], [&usual, &near]);
        assert_eq!((first, second.as_deref()), (None, Some(said)));
        let [first, second] = reasons([&usual; 2], [&far; 2]);
        assert!(first.is_none() && second.unwrap().contains("element 1: -2"));
    }
}
