/*!
What lies between the memory attention's attentions, piece by piece, against float64 on the host.
*/

mod drawn;
mod layer;
mod query;
mod reference;
mod tail;

use anyhow::Result;
use half::f16;
use rayon::prelude::*;

use super::hopper::{self, HopperProjection};
use super::launches::MODULES;
use crate::attention::Attended;
use crate::images::Topic as Source;
use crate::kernel::Chain;
use crate::mlp::HopperMlp;
use crate::selftest::chain_modes::{self, Chained};
use crate::selftest::{Bench, Checked, Limits, POISON, Topic, bytes_of, each_of, row};
use crate::{MemoryAttention, MemoryAttentionPiece};
use cuda::{LaunchMode, Stream, View};
use drawn::Drawn;
use query::Joining;
use reference::Expected;
use tail::Ending;
use vos::bundle::MemoryAttentionShape;
use vos::bundle::memory_attention::WIDTH;

const NAME: &str = "memory attention";
const MODES: &str = "memory attention modes";
/// About how many tokens are looked at.
const SAMPLE: usize = 64;
/// Runs that must give the same bits.
const RUNS: usize = 2;

/// What is halves on the way: tokens behind a sum, normalised tokens, hidden columns, results. Each
/// is off by 2⁻¹² on average, independently.
const LIMITS: Limits = Limits { error: 1.2e-3, deviation: 1e-2 };

struct Case {
    name: &'static str,
    shape: MemoryAttentionShape,
    /// Of whole layers: whose bank, and its keys.
    banks: &'static [(&'static str, usize)],
}

/// EdgeTAM's and SAM 2.1's layers at 1024, 768 and 512 pixels, then tokens that fill no tile. A
/// self-attention of 14 x 14 tokens has parts, one of 4 x 4 has none.
const CASES: [Case; 5] = [
    Case {
        name: "at 1024",
        shape: MemoryAttentionShape { grid: 64, layers: 2 },
        banks: &[("SAM 2.1", 28_736), ("EdgeTAM", 3648)],
    },
    Case {
        name: "at 768",
        shape: MemoryAttentionShape { grid: 48, layers: 2 },
        banks: &[("SAM 2.1", 16_192), ("EdgeTAM", 3648)],
    },
    Case {
        name: "at 512",
        shape: MemoryAttentionShape { grid: 32, layers: 2 },
        banks: &[("SAM 2.1", 7232), ("EdgeTAM", 3648)],
    },
    Case {
        name: "of 14 x 14 tokens",
        shape: MemoryAttentionShape { grid: 14, layers: 2 },
        banks: &[("300 keys", 300)],
    },
    Case {
        name: "of 4 x 4 tokens",
        shape: MemoryAttentionShape { grid: 4, layers: 2 },
        banks: &[("300 keys", 300)],
    },
];

/// One of each kind, of two layers.
const PIECES: [(MemoryAttentionPiece, &str); 4] = [
    (MemoryAttentionPiece::Start, "features"),
    (MemoryAttentionPiece::Query(1), "query"),
    (MemoryAttentionPiece::Finish(0), "MLP and next layer"),
    (MemoryAttentionPiece::Last, "MLP and norm"),
];

pub(crate) const TOPIC: Topic = Topic {
    word: "memory-attention",
    help: "Norms, projections and MLPs of the memory attention",
    name: "the memory attention's layers",
    sources: &[
        MODULES[0],
        MODULES[1],
        MODULES[2],
        Source::MlpHopper,
        hopper::MODULE,
        Source::Attention,
        Source::AttentionClusterHopper,
        Source::AttentionGlobalHopper,
    ],
    used_by: Some("a memory attention whose layers are ours"),
    needs_cublaslt: false,
    judge: |bench| {
        judge(bench);
        Ok(())
    },
};

fn judge(bench: &Bench) {
    let fused = |case: &Case| HopperMlp::load_if_supported(bench.gpu, case.shape.tokens());
    let projection = || HopperProjection::load_if_supported(bench.gpu);
    let attentions = layer::Attentions::load(bench);
    let cases = bench.planned(CASES, |case| {
        let with_mlp = PIECES.iter().filter(|(piece, _)| has_mlp(*piece)).count();
        let projecting = PIECES.iter().filter(|(piece, _)| projects(*piece)).count();
        let mut on_hopper = if fused(case).is_some() { with_mlp } else { 0 };
        on_hopper += if projection().is_some() { projecting } else { 0 };
        let mut rows = PIECES.len() + on_hopper + tail::ROWS + chain_modes::rows(bench);
        if projection().is_some() {
            rows += query::ROWS;
        }
        rows += attentions.rows(bench, case, projection().is_some()) * case.banks.len();
        (case.shape.tokens() * WIDTH, rows)
    });
    let seed = bench.seed;
    bench.each(
        &cases,
        |case| {
            let drawn = Drawn::new(case.shape, seed, case.name);
            let sample = sample(case.shape.tokens());
            let of = |(piece, _): &(MemoryAttentionPiece, &str)| drawn.expected(*piece, &sample);
            let expected: Vec<Expected> = PIECES.par_iter().map(of).collect();
            let endings = Ending::all(&drawn, seed, case.name, &sample);
            let joinings = Joining::all(&drawn, seed, case.name, &sample);
            (drawn, expected, endings, joinings)
        },
        |case, (drawn, expected, endings, joinings)| {
            // As any GPU computes it, with Hopper's MLP at any size, and with its projection too; with
            // these, but the end of an attention to the bank, or of a self-attention, in kernels of
            // their own.
            let of = |mlp, project| -> Result<Work> {
                let mut work = Work::new(bench, &drawn)?;
                (work.attention.hopper_mlp, work.attention.hopper_project) = (mlp, project);
                Ok(work)
            };
            let all = || {
                let mut three = of(fused(case), projection())?;
                three.attention.in_three = true;
                let mut whole = of(fused(case), projection())?;
                whole.attention.joins_frame = false;
                let mut joined = of(fused(case), projection())?;
                joined.attention.joins_frame = true;
                let works =
                    [of(None, None)?, of(fused(case), None)?, of(fused(case), projection())?];
                anyhow::Ok((works, three, [whole, joined]))
            };
            let (works, three, [whole, joined]) = match all() {
                Ok(works) => works,
                Err(error) => return bench.found(row(NAME, case.name, Err(error))),
            };
            for ((piece, name), expected) in PIECES.iter().zip(&expected) {
                compare(bench, &works, &format!("{}, {name}", case.name), *piece, expected);
            }
            let [.., work] = &works;
            tail::judge(bench, case.name, [&three, work], &endings);
            if work.attention.hopper_project.is_some() {
                query::judge(bench, case.name, work, &joinings);
            }
            work.modes(bench, case.name, &drawn);
            layer::judge(bench, case, &attentions, [&three, &whole, &joined, work], &drawn);
        },
    );
}

/// Rows of a piece: as any GPU computes it, with Hopper's MLP, with Hopper's projection too. The times
/// of two that follow each other are taken in turn.
fn compare(
    bench: &Bench,
    [old, mlp, work]: &[Work; 3],
    name: &str,
    piece: MemoryAttentionPiece,
    expected: &Expected,
) {
    let with_mlp = has_mlp(piece) && mlp.attention.hopper_mlp.is_some();
    let with_projection = projects(piece) && work.attention.hopper_project.is_some();
    if !with_mlp && !with_projection {
        return bench.found(row(NAME, name, timed(bench, old, piece, expected)));
    }
    if with_mlp {
        let [without, with] = each_of(in_turn(bench, [old, mlp], piece, expected));
        bench.found(row(NAME, name, without));
        bench.found(row(NAME, &format!("{name}, MLP on Hopper"), with));
    }
    if with_projection {
        let before = if with_mlp { mlp } else { old };
        let [without, with] = each_of(in_turn(bench, [before, work], piece, expected));
        if !with_mlp {
            bench.found(row(NAME, name, without));
        }
        let what = if with_mlp { "MLP and projection" } else { "projection" };
        bench.found(row(NAME, &format!("{name}, {what} on Hopper"), with));
    }
}

/// Tokens that are computed on the host; the first and the last are among them.
fn sample(tokens: usize) -> Vec<usize> {
    let step = if tokens > SAMPLE { (tokens / SAMPLE) | 1 } else { 1 };
    (0..tokens - 1).step_by(step).chain([tokens - 1]).collect()
}

/// The kernels, what they take and what they give.
struct Work {
    attention: MemoryAttention,
    x: View,
    /// What was attended to: of the frame, of the bank.
    attended: [Attended; 2],
    y: View,
    projected: View,
}

impl Work {
    fn new(bench: &Bench, drawn: &Drawn) -> Result<Self> {
        let halves = |values: &[f16]| bench.put(&bytes_of(values, |value| value.to_le_bytes()));
        let whole = |values: &[f16]| Ok::<_, anyhow::Error>(Attended::Whole(halves(values)?));
        let row = 2 * WIDTH * drawn.shape.tokens();
        let weights = drawn.weights()?;
        Ok(Self {
            attention: MemoryAttention::new(bench.gpu, drawn.shape, &weights, &bench.stream)?,
            x: halves(&drawn.x)?,
            attended: [whole(&drawn.attended[0])?, whole(&drawn.attended[1])?],
            y: View::new(bench.gpu, row)?,
            projected: View::new(bench.gpu, 3 * row)?,
        })
    }

    /// The longest piece in both launch modes.
    fn modes(&self, bench: &Bench, case: &str, drawn: &Drawn) {
        let Self { attention, x, attended: [_, bank], y, projected } = self;
        let (stream, piece) = (&bench.stream, MemoryAttentionPiece::Finish(0));
        let given = bytes_of(&drawn.x, |value| value.to_le_bytes());
        let begin = &|| -> Result<()> {
            y.fill(POISON, stream)?;
            Ok(projected.fill(POISON, stream)?)
        };
        let enqueue = &|mode: LaunchMode, stream: &Stream| {
            let chain = Chain::begin(stream, mode);
            attention.enqueue_in(piece, [x, y], (Some(bank), Some(projected)), &chain)
        };
        let download = &|| Ok([y.download(stream)?, projected.download(stream)?].concat());
        let input = (x, given.as_slice());
        chain_modes::judge(bench, &Chained { name: MODES, case, input, begin, enqueue, download });
    }

    fn enqueue(&self, piece: MemoryAttentionPiece, stream: &Stream) -> Result<()> {
        let Self { attention, x, attended: [frame, bank], y, projected } = self;
        let queries = projected.part(0, y.len())?;
        let (attended, projected) = match piece {
            MemoryAttentionPiece::Start => (None, Some(projected)),
            MemoryAttentionPiece::Query(_) => (Some(frame), Some(&queries)),
            MemoryAttentionPiece::Finish(_) => (Some(bank), Some(projected)),
            MemoryAttentionPiece::Last => (Some(bank), None),
        };
        let chain = Chain::begin(stream, LaunchMode::Ordered);
        attention.enqueue(piece, x, attended, y, projected, &chain)
    }

    /// Poisons what the piece gives, and enqueues it.
    fn anew(&self, piece: MemoryAttentionPiece, stream: &Stream) -> Result<[Vec<u8>; 2]> {
        self.y.fill(POISON, stream)?;
        self.projected.fill(POISON, stream)?;
        self.enqueue(piece, stream)?;
        Ok([self.y.download(stream)?, self.projected.download(stream)?])
    }
}

fn has_mlp(piece: MemoryAttentionPiece) -> bool {
    matches!(piece, MemoryAttentionPiece::Finish(_) | MemoryAttentionPiece::Last)
}

fn projects(piece: MemoryAttentionPiece) -> bool {
    piece != MemoryAttentionPiece::Last
}

/// A piece and its time.
fn timed(
    bench: &Bench,
    work: &Work,
    piece: MemoryAttentionPiece,
    expected: &Expected,
) -> Result<Checked> {
    let mut checked = check(bench, work, piece, expected)?;
    checked.timing = bench.time_recorded(bench.runs, |stream| work.enqueue(piece, stream))?;
    Ok(checked)
}

/// Two ways to compute a piece, with times that are taken in turn.
fn in_turn(
    bench: &Bench,
    [first, second]: [&Work; 2],
    piece: MemoryAttentionPiece,
    expected: &Expected,
) -> Result<[Checked; 2]> {
    let one = |work: &Work| check(bench, work, piece, expected);
    let ways = [first, second].map(|work| move |stream: &Stream| work.enqueue(piece, stream));
    bench.timed_in_turn([one(first)?, one(second)?], ways)
}

fn check(
    bench: &Bench,
    work: &Work,
    piece: MemoryAttentionPiece,
    expected: &Expected,
) -> Result<Checked> {
    let stream = &bench.stream;
    let first = work.anew(piece, stream)?;
    let mut checked = near(&first, expected);
    for _ in 1..RUNS {
        if work.anew(piece, stream)? != first {
            checked.not_repeated();
        }
    }
    Ok(checked)
}

/// Tokens, and queries, keys and values, within their limits.
fn near([y, projected]: &[Vec<u8>; 2], expected: &Expected) -> Checked {
    let mut found = vec![("the tokens", tail::near(y, &expected.y))];
    let names = ["the queries", "the keys", "the values"];
    for (name, section) in names.into_iter().zip(&expected.sections) {
        found.push((name, tail::near(projected, section)));
    }
    Checked::of_outputs(&found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_is_held_to_what_is_expected() {
        let shape = MemoryAttentionShape { grid: 4, layers: 2 };
        let drawn = Drawn::new(shape, 1, "test");
        let expected = drawn.expected(MemoryAttentionPiece::Finish(0), &sample(16));
        let bytes = |of: &[&[(usize, f64)]]| -> Vec<u8> {
            let all = of.iter().flat_map(|section| section.iter());
            all.flat_map(|(_, value)| f16::from_f64(*value).to_le_bytes()).collect()
        };
        let [q, k, v] = [0, 1, 2].map(|at| expected.sections[at].as_slice());
        let came = [bytes(&[&expected.y]), bytes(&[q, k, v])];
        assert_eq!(near(&came, &expected).first, None);
        let section = 2 * 16 * WIDTH;
        for (of, at, said) in [
            (0, 5, "the tokens: 1 element"),
            (1, 5, "the queries: 1 element"),
            (1, section + 5, "the keys: 1 element"),
            (1, 2 * section + 5, "the values: 1 element"),
        ] {
            let mut wrong = came.clone();
            wrong[of][at] ^= 0x80;
            assert!(near(&wrong, &expected).first.unwrap().starts_with(said), "{said}");
        }
        assert_eq!(sample(4096).last(), Some(&4095));
        // Nothing is projected behind the last layer, and queries alone in the middle of one.
        let last = drawn.expected(MemoryAttentionPiece::Last, &sample(16));
        assert!(last.sections.is_empty());
        let query = drawn.expected(MemoryAttentionPiece::Query(1), &sample(16));
        assert_eq!(query.sections.len(), 1);
    }
}
