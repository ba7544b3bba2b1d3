/*!
A query that joins the parts of its self-attention: drawn parts against float64.
*/

use anyhow::Result;

use super::reference::Expected;
use super::{Drawn, RUNS, Work, near, tail};
use crate::MemoryAttentionPiece;
use crate::attention::Attended;
use crate::kernel::Chain;
use crate::selftest::{Bench, Checked, POISON, row};
use cuda::Stream;
use vos::bundle::memory_attention::WIDTH;
use vos::noise::Noise;

pub const NAME: &str = "memory attention query";
/// Parts of an attention: fewer than the kernel loads at once, as many, and more.
const PARTS: [usize; 3] = [3, 4, 9];
/// Rows of a case.
pub const ROWS: usize = PARTS.len();
/// The layer whose weights are used.
const LAYER: usize = 1;

/// The parts of an attention, and what its query makes of them.
pub struct Joining {
    count: usize,
    /// Results; maxima and sums.
    parts: [Vec<f32>; 2],
    expected: Expected,
}

impl Joining {
    pub fn all(drawn: &Drawn, seed: u64, name: &str, sample: &[usize]) -> Vec<Self> {
        let tokens = drawn.shape.tokens();
        let of = |count: usize| {
            let mut noise = Noise::new(seed, &format!("query {name} {count}"));
            let parts = tail::drawn_parts(&mut noise, count * tokens, WIDTH);
            let mut expected = Expected { sections: vec![Vec::new()], ..Expected::default() };
            for token in sample {
                let frame = tail::joined(count, &parts, [*token, tokens, WIDTH]);
                let (y, query) = drawn.queried(LAYER, *token, &frame);
                let placed = |row: Vec<f64>| {
                    row.into_iter().enumerate().map(|(at, value)| (token * WIDTH + at, value))
                };
                expected.y.extend(placed(y));
                expected.sections.iter_mut().for_each(|all| all.extend(placed(query.clone())));
            }
            Self { count, parts, expected }
        };
        PARTS.map(of).into()
    }
}

/// Rows of a case.
pub fn judge(bench: &Bench, case: &str, work: &Work, joinings: &[Joining]) {
    for joining in joinings {
        let name = format!("{case}, {} parts", joining.count);
        bench.found(row(NAME, &name, timed(bench, work, joining)));
    }
}

fn timed(bench: &Bench, work: &Work, joining: &Joining) -> Result<Checked> {
    let [results, stats] = &joining.parts;
    let attended = &tail::put(bench, joining.count, [results, stats])?;
    let anew = || -> Result<[Vec<u8>; 2]> {
        let stream = &bench.stream;
        [&work.y, &work.projected].into_iter().try_for_each(|view| view.fill(POISON, stream))?;
        enqueue(work, attended, stream)?;
        Ok([work.y.download(stream)?, work.projected.download(stream)?])
    };
    let first = anew()?;
    let mut checked = near(&first, &joining.expected);
    for _ in 1..RUNS {
        if anew()? != first {
            checked.not_repeated();
        }
    }
    checked.timing = bench.time_recorded(bench.runs, |stream| enqueue(work, attended, stream))?;
    Ok(checked)
}

fn enqueue(work: &Work, attended: &Attended, stream: &Stream) -> Result<()> {
    let queries = work.projected.part(0, work.y.len())?;
    let chain = Chain::begin(stream, work.attention.mode());
    let piece = MemoryAttentionPiece::Query(LAYER);
    work.attention.enqueue(piece, &work.x, Some(attended), &work.y, Some(&queries), &chain)
}
