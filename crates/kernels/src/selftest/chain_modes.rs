/*!
Rows of a chain of kernels in both launch modes: in order, and by programmatic dependent launch
(PDL). Launched and replayed, both give the same bits, and their times are taken in turn. So do rows
of work that a recording has in a row or with a branch.
*/

use anyhow::Result;

use super::bench::{Bench, each_of, row};
use super::compare::{Checked, compare};
use super::stopwatch::{Forked, Launches};
use crate::kernel::chains_have_pdl;
use cuda::{Branch, Capturable, CapturedGraph, LaunchMode, Stream, View};

/// The modes, and how a row's case names them.
const MODES: [(LaunchMode, &str); 2] =
    [(LaunchMode::Ordered, "in order"), (LaunchMode::Pdl, "dependent")];
/// Recordings without a branch and with one.
const WAYS: [&str; 2] = ["in a row", "as a branch"];
/// Further replays that must give the same bits, where times are taken: a kernel that is early on a
/// GPU is not early each time.
const REPLAYS: usize = 8;

/// A chain with the memory that it works on.
pub(crate) struct Chained<'c> {
    /// Rows have this name.
    pub name: &'c str,
    /// And this case, with the mode.
    pub case: &'c str,
    /// A view that the chain reads, and its contents. In front of each run the chain runs without
    /// these: who reads memory between two kernels too early finds other numbers there.
    pub input: (&'c View, &'c [u8]),
    /// Poisons what the chain writes.
    pub begin: &'c dyn Fn() -> Result<()>,
    /// Enqueues the chain.
    pub enqueue: &'c dyn Fn(LaunchMode, &Stream) -> Result<()>,
    /// What the chain has written.
    pub download: &'c dyn Fn() -> Result<Vec<u8>>,
}

/// Rows that [`judge`] makes of a chain: none without programmatic dependent launch.
pub(crate) fn rows(bench: &Bench) -> usize {
    if chains_have_pdl(bench.gpu) { MODES.len() } else { 0 }
}

/// A row for each mode.
pub(crate) fn judge(bench: &Bench, chain: &Chained) {
    if rows(bench) == 0 {
        return;
    }
    let case = |mode: &str| format!("{}, {mode}", chain.case);
    for ((_, mode), checked) in MODES.iter().zip(each_of(check(bench, chain))) {
        bench.found(row(chain.name, &case(mode), checked));
    }
}

/// Rows that [`judge_branch`] makes.
pub(crate) const BRANCH_ROWS: usize = WAYS.len();

/// A row without a branch and one with it. `forked` enqueues the chain with the branch of a
/// recording, as the program does.
pub(crate) fn judge_branch(
    bench: &Bench,
    chain: &Chained,
    forked: &dyn Fn(&Stream, Option<&Branch>) -> Result<()>,
) {
    let check = || {
        let both = replayed(bench, chain, Forked(forked, 1))?;
        let in_a_row = |stream: &Stream| forked(stream, None);
        bench.recorded_in_turn(both, |launches| {
            (Launches(in_a_row, launches), Forked(forked, launches))
        })
    };
    for (way, checked) in WAYS.into_iter().zip(each_of(check())) {
        bench.found(row(chain.name, &format!("{}, {way}", chain.case), checked));
    }
}

fn check(bench: &Bench, chain: &Chained) -> Result<[Checked; 2]> {
    let enqueue = chain.enqueue;
    let early = Launches(|stream: &Stream| enqueue(LaunchMode::Pdl, stream), 1);
    let both = replayed(bench, chain, early)?;
    bench.timed_in_turn(both, MODES.map(|(mode, _)| move |stream: &Stream| enqueue(mode, stream)))
}

/// The chain launched in order, twice, and `other`, which does the same, recorded and replayed.
fn replayed(bench: &Bench, chain: &Chained, other: impl Capturable) -> Result<[Checked; 2]> {
    let Chained { input: (input, given), enqueue, download, .. } = *chain;
    let begin = || -> Result<()> {
        (chain.begin)()?;
        Ok(input.upload(given, &bench.stream)?)
    };
    let in_order = || -> Result<Vec<u8>> {
        begin()?;
        enqueue(LaunchMode::Ordered, &bench.stream)?;
        download()
    };
    let expected = in_order()?;
    let mut first = compare(&expected, &expected, 1)?;
    if in_order()? != expected {
        first.not_repeated();
    }
    let mut recorded = CapturedGraph::new(other, &bench.stream, true);
    let mut found = compare(&expected, &expected, 1)?;
    // The first run launches one by one and records.
    for _ in 0..2 + bench.runs.runs.min(REPLAYS) {
        input.fill(0, &bench.stream)?;
        enqueue(LaunchMode::Ordered, &bench.stream)?;
        begin()?;
        recorded.run()?;
        let checked = compare(&download()?, &expected, 1)?;
        if checked.first.is_some() {
            found = checked;
            break;
        }
    }
    Ok([first, found])
}
