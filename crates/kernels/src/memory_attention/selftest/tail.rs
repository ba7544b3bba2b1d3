/*!
The end of an attention to the bank by one kernel: whole and in parts, against float64; the whole one
in turn with the kernels whose place it takes.
*/

use anyhow::Result;
use half::f16;

use super::{Drawn, LIMITS, RUNS, Work};
use crate::MemoryAttention;
use crate::attention::{Attended, Parts};
use crate::kernel::Chain;
use crate::selftest::{Bench, Checked, POISON, each_of, f32_bytes, row};
use cuda::{Stream, View};
use vos::bundle::memory_attention::{MEMORY, WIDTH};
use vos::noise::Noise;

pub const NAME: &str = "memory attention tail";
/// Parts of an attention: fewer than the kernel loads at once, as many, and more.
const PARTS: [usize; 3] = [4, 8, 16];
/// Rows of a case.
pub const ROWS: usize = 2 + PARTS.len();
/// The layer whose weights are used.
const LAYER: usize = 0;

/// Elements and their places.
type Sample = Vec<(usize, f64)>;

/// What an attention gives, and what its end makes of it.
pub struct Ending {
    /// Results, and maxima and sums, of so many parts; none of a whole one.
    parts: Option<(usize, [Vec<f32>; 2])>,
    /// The sum and its norm.
    expected: [Sample; 2],
}

impl Ending {
    /// A whole one, and those in parts.
    pub fn all(drawn: &Drawn, seed: u64, name: &str, sample: &[usize]) -> Vec<Self> {
        let counts = std::iter::once(None).chain(PARTS.map(Some));
        let tokens = drawn.shape.tokens();
        let of = |count: Option<usize>| {
            let parts = count.map(|count| {
                let mut noise = Noise::new(seed, &format!("tail {name} {count}"));
                (count, drawn_parts(&mut noise, count * tokens, MEMORY))
            });
            let mut expected = [Sample::new(), Sample::new()];
            for token in sample {
                let bank = match &parts {
                    None => halves_of(&drawn.attended[1], *token, MEMORY),
                    Some((count, parts)) => joined(*count, parts, [*token, tokens, MEMORY]),
                };
                let ended = drawn.ended(LAYER, &halves_of(&drawn.x, *token, WIDTH), &bank);
                for (all, row) in expected.iter_mut().zip(ended) {
                    all.extend(row.into_iter().enumerate().map(|(at, x)| (token * WIDTH + at, x)));
                }
            }
            Self { parts, expected }
        };
        counts.map(of).collect()
    }

    fn attended(&self, bench: &Bench, whole: &Attended) -> Result<Attended> {
        let Some((count, [results, stats])) = &self.parts else { return Ok(whole.clone()) };
        put(bench, *count, [results, stats])
    }
}

/// Results of so many lines, and their maxima and sums.
pub fn drawn_parts(noise: &mut Noise, lines: usize, columns: usize) -> [Vec<f32>; 2] {
    let results = noise.normals(lines * columns);
    let mut stats = noise.normals(2 * lines);
    for pair in stats.chunks_mut(2) {
        // Maxima are some powers of two apart, sums of weights positive.
        (pair[0], pair[1]) = (4.0 * pair[0], 1.0 + pair[1].abs());
    }
    [results, stats]
}

/// The same on the device.
pub fn put(bench: &Bench, count: usize, parts: [&[f32]; 2]) -> Result<Attended> {
    let [results, stats] = parts.map(|values| bench.put(&f32_bytes(values)));
    Ok(Attended::Parts(Parts { results: results?, stats: stats?, count }))
}

fn halves_of(values: &[f16], token: usize, columns: usize) -> Vec<f64> {
    values[token * columns..][..columns].iter().map(|value| value.to_f64()).collect()
}

/// A token's parts together, of so many tokens with so many columns.
pub fn joined(
    count: usize,
    [results, stats]: &[Vec<f32>; 2],
    [token, tokens, columns]: [usize; 3],
) -> Vec<f64> {
    let lines = || (0..count).map(|part| part * tokens + token);
    let top = lines().map(|line| f64::from(stats[2 * line])).fold(f64::MIN, f64::max);
    let (mut sums, mut total) = (vec![0.0; columns], 0.0);
    for line in lines() {
        let scale = (f64::from(stats[2 * line]) - top).exp2();
        total += scale * f64::from(stats[2 * line + 1]);
        let row = &results[line * columns..][..columns];
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += scale * f64::from(*x));
    }
    sums.iter().map(|sum| sum / total).collect()
}

/// Rows of a case. `three`: with kernels of their own.
pub fn judge(bench: &Bench, case: &str, [three, one]: [&Work; 2], endings: &[Ending]) {
    for ending in endings {
        let Some((count, _)) = &ending.parts else {
            let both = each_of(in_turn(bench, [three, one], ending));
            for (how, checked) in ["two kernels", "one kernel"].iter().zip(both) {
                bench.found(row(NAME, &format!("{case}, whole, {how}"), checked));
            }
            continue;
        };
        bench.found(row(
            NAME,
            &format!("{case}, {count} parts, one kernel"),
            timed(bench, one, ending),
        ));
    }
}

fn in_turn(bench: &Bench, works: [&Work; 2], ending: &Ending) -> Result<[Checked; 2]> {
    let [.., whole] = &works[1].attended;
    let [first, second] = works.map(|work| check(bench, work, whole, ending));
    let ways = works.map(|work| move |stream: &Stream| enqueue(work, whole, stream));
    bench.timed_in_turn([first?, second?], ways)
}

fn timed(bench: &Bench, work: &Work, ending: &Ending) -> Result<Checked> {
    let attended = ending.attended(bench, &work.attended[1])?;
    let mut checked = check(bench, work, &attended, ending)?;
    checked.timing = bench.time_recorded(bench.runs, |stream| enqueue(work, &attended, stream))?;
    Ok(checked)
}

fn enqueue(work: &Work, attended: &Attended, stream: &Stream) -> Result<()> {
    let attention = &work.attention;
    let chain = Chain::begin(stream, attention.mode());
    attention.end_attention(attention.layer(LAYER)?, &work.x, attended, &chain)
}

fn check(bench: &Bench, work: &Work, attended: &Attended, ending: &Ending) -> Result<Checked> {
    let stream = &bench.stream;
    let anew = || -> Result<[Vec<u8>; 2]> {
        results(&work.attention).into_iter().try_for_each(|view| view.fill(POISON, stream))?;
        enqueue(work, attended, stream)?;
        let [sum, normed] = results(&work.attention);
        Ok([sum.download(stream)?, normed.download(stream)?])
    };
    let first = anew()?;
    let names = ["the sum", "the norm"];
    let found = first.iter().zip(&ending.expected).map(|(came, sample)| near(came, sample));
    let found: Vec<(&str, Checked)> = names.into_iter().zip(found).collect();
    let mut checked = Checked::of_outputs(&found);
    for _ in 1..RUNS {
        if anew()? != first {
            checked.not_repeated();
        }
    }
    Ok(checked)
}

/// What the end of an attention writes.
pub fn results(attention: &MemoryAttention) -> [&View; 2] {
    [&attention.sum, &attention.normed]
}

/// Halves against a sample of them.
pub fn near(came: &[u8], sample: &[(usize, f64)]) -> Checked {
    let halves = came.as_chunks::<2>().0;
    let value =
        |at: usize| halves.get(at).map_or(f64::NAN, |two| f16::from_le_bytes(*two).to_f64());
    LIMITS.judge(sample, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_by_their_sums_and_maxima() {
        // Two parts of two tokens: the first counts half of what its sums say.
        let mut results = vec![0.0; 4 * MEMORY];
        (results[MEMORY], results[3 * MEMORY]) = (2.0, 6.0);
        let stats = vec![0.0, 1.0, 2.0, 2.0, 0.0, 1.0, 3.0, 1.0];
        let found = joined(2, &[results, stats], [1, 2, MEMORY]);
        assert_eq!(found[..2], [(0.5 * 2.0 + 6.0) / (0.5 * 2.0 + 1.0), 0.0]);
    }
}
