/*!
A part of the trunk by one fused kernel and kernel by kernel: what the self-tests of such kernels
share.
*/

use anyhow::Result;

use super::super::TrunkExecutor;
use crate::selftest::{Bench, Checked, each_of, row};
use cuda::Stream;

/// Outputs of a launch: tokens and norm.
pub(super) type Outputs = [Vec<u8>; 2];

/// Reports the fused kernel by itself or, with `both`, which takes its result, both ways.
pub(super) fn found(
    bench: &Bench,
    names: [&str; 2],
    case: &str,
    alone: Result<Checked>,
    both: Option<impl FnOnce(Checked) -> Result<[Checked; 2]>>,
) {
    let Some(both) = both else { return bench.found(row(names[0], case, alone)) };
    for (name, checked) in names.into_iter().zip(each_of(alone.and_then(both))) {
        bench.found(row(name, case, checked));
    }
}

/// Judges what `run` gives, which must give the same bits again, and takes the time of `enqueue`.
pub(super) fn repeated(
    bench: &Bench,
    run: impl Fn() -> Result<Outputs>,
    judge: impl Fn(&Outputs) -> Checked,
    enqueue: impl Fn(&Stream) -> Result<()>,
) -> Result<Checked> {
    let came = run()?;
    let mut checked = judge(&came);
    if run()? != came {
        checked.not_repeated();
    }
    checked.timing = bench.time_recorded(bench.runs, enqueue)?;
    Ok(checked)
}

/// A trunk with the fused kernel and without, in turn. `judge` runs a way once. `alone`: the fused
/// kernel by itself, whose result stands unless the trunk's is wrong.
pub(super) fn in_turn(
    bench: &Bench,
    executor: &TrunkExecutor,
    alone: Checked,
    enqueue: impl Fn(&Stream) -> Result<()> + Copy,
    judge: impl Fn(&dyn Fn(&Stream) -> Result<()>) -> Result<Checked>,
) -> Result<[Checked; 2]> {
    let ways = [true, false].map(|fused| {
        move |stream: &Stream| {
            executor.use_fused_blocks(fused);
            enqueue(stream)
        }
    });
    let (fused, separate) = (judge(&ways[0])?, judge(&ways[1])?);
    let fused = if fused.first.is_some() { fused } else { alone };
    bench.timed_in_turn([fused, separate], ways)
}
