/*!
A whole layer with both of its attentions, from the features to the next layer's queries, in both
launch modes. It, and its attention to the bank, in turn with one kernel and with three behind that;
and on Hopper it, and its self-attention, in turn with parts that the query's kernel joins and without.
*/

use anyhow::Result;
use half::f16;

use super::query;
use super::tail::{self, near, results};
use super::{Case, Drawn, Work};
use crate::attention::{
    Attended, Attention, AttentionKernels, AttentionShape, AttentionUse, Values,
};
use crate::kernel::Chain;
use crate::selftest::chain_modes::{self, Chained};
use crate::selftest::{Bench, Checked, POISON, bytes_of, each_of, row};
use crate::{MemoryAttention, MemoryAttentionPiece};
use cuda::{LaunchMode, Stream, View};
use vos::bundle::memory_attention::{MEMORY, WIDTH};
use vos::noise::Noise;

const NAME: &str = "memory attention layer modes";
/// That a bank makes: all kernels in one mode; and attention alone in both modes.
const CHAINS: usize = 2;
/// Rows that a bank makes on any GPU: of its attention and of a layer, with three kernels and with one.
const IN_TURN: usize = 4;
/// Further rows where Hopper's query can join parts, of a self-attention and of a layer.
const FRAME_IN_TURN: usize = 4;
/// The layer's number.
const LAYER: usize = 0;

/// The attentions with the tensors that a layer has beside [`Work`]'s.
struct Layer<'w> {
    pieces: &'w MemoryAttention,
    /// With kernels of their own behind the attention to the bank.
    three: &'w MemoryAttention,
    /// With a kernel of its own that joins the parts of a self-attention, and with a query that does.
    joining: [&'w MemoryAttention; 2],
    x: &'w View,
    frame: Attention,
    bank: Attention,
    /// Keys and values of the bank.
    keys: View,
    values: View,
    /// Tokens, in turn.
    tokens: [View; 2],
    /// Queries, keys and values: together, and each.
    projected: &'w View,
    sections: [View; 3],
    /// Queries behind a self-attention, where it must leave its own alone.
    queries: View,
    /// What was attended to, whole.
    attended: [View; 2],
}

/// Both attentions' kernels, as a pipeline may load them: a refused module must cost its user alone.
pub struct Attentions(Result<AttentionKernels>);

impl Attentions {
    pub fn load(bench: &Bench) -> Self {
        Self(AttentionKernels::load_for(bench.gpu, &AttentionUse::ALL))
    }

    fn get(&self) -> Result<&AttentionKernels> {
        self.0.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))
    }

    /// Rows of each bank of a case.
    pub fn rows(&self, bench: &Bench, case: &Case, on_hopper: bool) -> usize {
        let joining = if on_hopper && self.split_frame(case) { FRAME_IN_TURN } else { 0 };
        CHAINS * chain_modes::rows(bench) + IN_TURN + joining
    }

    /// Whether a query has parts to join. Of a self-attention in one part both ways would be the
    /// same launches, and rows that compare them could not fail.
    fn split_frame(&self, case: &Case) -> bool {
        let splits = self.get().and_then(|kernels| kernels.splits(of_frame(case.shape.tokens())));
        splits.is_ok_and(|splits| splits > 1)
    }
}

fn of_frame(tokens: usize) -> AttentionShape {
    AttentionShape { objects: 1, queries: tokens, keys: tokens, values: Values::Frame }
}

/// Rows of the layers that a case has; in both modes where there are early launches.
pub fn judge(
    bench: &Bench,
    case: &Case,
    attentions: &Attentions,
    works: [&Work; 4],
    drawn: &Drawn,
) {
    let [.., work] = works;
    let on_hopper = work.attention.hopper_project.is_some();
    for (model, keys) in case.banks {
        let name = format!("{model} {}", case.name);
        match Layer::new(bench, attentions, works, *keys, &name) {
            Ok(layer) => {
                layer.judge(bench, &name, drawn);
                layer.judge_in_turn(bench, &name);
                if on_hopper && attentions.split_frame(case) {
                    layer.judge_frame_in_turn(bench, &name);
                }
            }
            Err(error) => {
                let why = format!("{error:#}");
                (0..attentions.rows(bench, case, on_hopper)).for_each(|_| {
                    bench.found(row(NAME, &name, Err(anyhow::anyhow!(why.clone()))));
                });
            }
        }
    }
}

impl<'w> Layer<'w> {
    fn new(
        bench: &Bench,
        attentions: &Attentions,
        works: [&'w Work; 4],
        keys: usize,
        name: &str,
    ) -> Result<Self> {
        let [three, whole, joined, work] = works;
        let tokens = work.attention.tokens();
        let row = 2 * tokens * WIDTH;
        let room = |bytes: usize| View::new(bench.gpu, bytes);
        let mut noise = Noise::new(bench.seed, &format!("layer {name}"));
        let mut drawn = |columns: usize| -> Result<View> {
            let values: Vec<f16> = noise.halves(keys * columns, 1.0);
            bench.put(&bytes_of(&values, |value| value.to_le_bytes()))
        };
        let (bank_keys, values) = (drawn(WIDTH)?, drawn(MEMORY)?);
        let (kernels, frame) = (attentions.get()?, of_frame(tokens));
        let bank = AttentionShape { keys, values: Values::Memory, ..frame };
        let of = |at: usize| work.projected.part(at * row, row);
        Ok(Self {
            pieces: &work.attention,
            three: &three.attention,
            joining: [&whole.attention, &joined.attention],
            x: &work.x,
            frame: Attention::new(bench.gpu, kernels, frame)?,
            bank: Attention::new(bench.gpu, kernels, bank)?,
            keys: bank_keys,
            values,
            tokens: [room(row)?, room(row)?],
            projected: &work.projected,
            sections: [of(0)?, of(1)?, of(2)?],
            queries: room(row)?,
            attended: [room(row)?, room(2 * tokens * MEMORY)?],
        })
    }

    fn judge(&self, bench: &Bench, case: &str, drawn: &Drawn) {
        let stream = &bench.stream;
        let given = bytes_of(&drawn.x, |value| value.to_le_bytes());
        let written = [&self.tokens[0], &self.tokens[1], self.projected];
        let all = written.into_iter().chain(&self.attended);
        let begin = &|| all.clone().try_for_each(|view| Ok(view.fill(POISON, stream)?));
        let download = &|| -> Result<Vec<u8>> {
            let parts: Result<Vec<Vec<u8>>> =
                all.clone().map(|view| Ok(view.download(stream)?)).collect();
            Ok(parts?.concat())
        };
        let input = (self.x, given.as_slice());
        // All in order, or all early.
        let together = &|mode: LaunchMode, stream: &Stream| {
            let chain = Chain::begin(stream, mode);
            self.enqueue(&chain, &chain, false)
        };
        let chain = Chained { name: NAME, case, input, begin, enqueue: together, download };
        chain_modes::judge(bench, &chain);
        // In order: each piece is a chain of its own, and attention is in none. Early: one chain, in
        // which pieces choose their mode.
        let attention = &|mode: LaunchMode, stream: &Stream| {
            let chain = Chain::begin(stream, mode);
            let pieces = chain.in_mode(self.pieces.mode());
            if mode == LaunchMode::Ordered {
                return self.enqueue(&chain, &pieces, true);
            }
            self.enqueue(&chain, &pieces, false)
        };
        let case = &format!("{case}, attention");
        let chain = Chained { name: NAME, case, input, begin, enqueue: attention, download };
        chain_modes::judge(bench, &chain);
    }

    /// One kernel behind the attention to the bank, and three.
    fn judge_in_turn(&self, bench: &Bench, case: &str) {
        let Self { three, pieces, .. } = *self;
        let tokens = [&self.tokens[0], self.projected];
        let of_layer = |pieces: &'w MemoryAttention| {
            (tokens, move |stream: &Stream| self.enqueue_as_programs_do(pieces, stream))
        };
        let of_attention = |pieces: &'w MemoryAttention| {
            (results(pieces), move |stream: &Stream| self.attend_to_bank(pieces, stream))
        };
        let layers = in_turn(bench, [three, pieces].map(of_layer));
        // Behind a layer, whose queries and tokens these take.
        let attentions = in_turn(bench, [three, pieces].map(of_attention));
        for (what, both) in [("layer", layers), ("attention", attentions)] {
            for (how, checked) in ["three kernels", "one kernel"].iter().zip(each_of(both)) {
                bench.found(row(tail::NAME, &format!("{case}, {what} with {how}"), checked));
            }
        }
    }

    /// A self-attention whose query joins the parts, and one that joins them itself: the same bits.
    fn judge_frame_in_turn(&self, bench: &Bench, case: &str) {
        let of_layer = |pieces: &'w MemoryAttention| {
            let results = [&self.tokens[0], self.projected];
            (results, move |stream: &Stream| self.enqueue_as_programs_do(pieces, stream))
        };
        let of_attention = |pieces: &'w MemoryAttention| {
            let results = [&self.tokens[1], &self.queries];
            (results, move |stream: &Stream| self.attend_to_frame(pieces, stream))
        };
        let layers = same_in_turn(bench, self.joining.map(of_layer));
        // Behind a layer, whose queries, keys, values and tokens these take.
        let attentions = same_in_turn(bench, self.joining.map(of_attention));
        let ways = ["parts joined by a kernel", "parts joined by the query"];
        for (what, both) in [("layer", layers), ("self-attention and query", attentions)] {
            for (how, checked) in ways.iter().zip(each_of(both)) {
                bench.found(row(query::NAME, &format!("{case}, {what}, {how}"), checked));
            }
        }
    }

    /// Where a self-attention leaves its result.
    fn frame_result(&self, pieces: &MemoryAttention) -> Result<Attended> {
        let [out, _] = &self.attended;
        pieces.frame_result(&self.frame, || Ok(out.clone()))
    }

    /// A self-attention and the query behind it, as programs enqueue them.
    fn attend_to_frame(&self, pieces: &MemoryAttention, stream: &Stream) -> Result<()> {
        let Self { tokens: [a, b], sections: [q, k, v], queries, .. } = self;
        let (result, piece) = (self.frame_result(pieces)?, MemoryAttentionPiece::Query(LAYER));
        let chain = Chain::begin(stream, LaunchMode::Ordered);
        self.frame.enqueue([q, k, v], None, &result, &chain)?;
        pieces.enqueue(piece, a, Some(&result), b, Some(queries), &chain)
    }

    /// Where the attention to the bank leaves its result.
    fn bank_result(&self, pieces: &MemoryAttention) -> Result<Attended> {
        let [_, out] = &self.attended;
        match pieces.in_three {
            true => Ok(Attended::Whole(out.clone())),
            false => self.bank.apart(|| Ok(out.clone())),
        }
    }

    /// The attention to the bank and its end, as programs enqueue them.
    fn attend_to_bank(&self, pieces: &MemoryAttention, stream: &Stream) -> Result<()> {
        let chain = Chain::begin(stream, LaunchMode::Ordered);
        let result = self.bank_result(pieces)?;
        let [q, ..] = &self.sections;
        self.bank.enqueue([q, &self.keys, &self.values], None, &result, &chain)?;
        let chain = chain.in_mode(pieces.mode());
        pieces.end_attention(pieces.layer(LAYER)?, &self.tokens[1], &result, &chain)
    }

    /// The layer, as programs enqueue it.
    fn enqueue_as_programs_do(&self, pieces: &MemoryAttention, stream: &Stream) -> Result<()> {
        let Self { keys, values, projected, sections: [q, k, v], .. } = self;
        let ([a, b], of_frame, bank) =
            (&self.tokens, &self.frame_result(pieces)?, self.bank_result(pieces)?);
        let chain = Chain::begin(stream, LaunchMode::Ordered);
        let (query, finish) =
            (MemoryAttentionPiece::Query(LAYER), MemoryAttentionPiece::Finish(LAYER));
        pieces.enqueue(MemoryAttentionPiece::Start, self.x, None, a, Some(projected), &chain)?;
        self.frame.enqueue([q, k, v], None, of_frame, &chain)?;
        pieces.enqueue(query, a, Some(of_frame), b, Some(q), &chain)?;
        self.bank.enqueue([q, keys, values], None, &bank, &chain)?;
        pieces.enqueue(finish, b, Some(&bank), a, Some(projected), &chain)
    }

    /// The layer. `apart`: its pieces' first launches are not early.
    fn enqueue(&self, attention: &Chain<'_>, pieces: &Chain<'_>, apart: bool) -> Result<()> {
        let Self { keys, values, projected, sections: [q, k, v], .. } = self;
        let ([a, b], of_frame) = (&self.tokens, &self.frame_result(self.pieces)?);
        let of_bank = &self.bank_result(self.pieces)?;
        let piece = |piece, views: [&View; 2], attended, projected: &View| {
            if apart {
                pieces.interrupt();
            }
            self.pieces.enqueue_in(piece, views, (attended, Some(projected)), pieces)
        };
        piece(MemoryAttentionPiece::Start, [self.x, a], None, projected)?;
        self.frame.enqueue_in([q, k, v], None, of_frame, attention)?;
        piece(MemoryAttentionPiece::Query(0), [a, b], Some(of_frame), q)?;
        self.bank.enqueue_in([q, keys, values], None, of_bank, attention)?;
        piece(MemoryAttentionPiece::Finish(0), [b, a], Some(of_bank), projected)
    }
}

/// Two ways to the same results: the first gives what is expected of its second run and of the other
/// way. Times in turn.
fn in_turn<F: Fn(&Stream) -> Result<()>>(
    bench: &Bench,
    ways: [([&View; 2], F); 2],
) -> Result<[Checked; 2]> {
    let [first, second] = &ways;
    let (expected, again, came) = (run(bench, first)?, run(bench, first)?, run(bench, second)?);
    let judged = |found: &[Vec<u8>; 2]| {
        let of = |(found, expected): (&Vec<u8>, &Vec<u8>)| {
            let halves = expected.as_chunks::<2>().0.iter().enumerate();
            let sample = halves.map(|(at, two)| (at, f16::from_le_bytes(*two).to_f64()));
            near(found, &sample.collect::<Vec<_>>())
        };
        let all: Vec<Checked> = found.iter().zip(&expected).map(of).collect();
        let names = ["the first result", "the second result"];
        Checked::of_outputs(&names.into_iter().zip(all).collect::<Vec<_>>())
    };
    let both = [judged(&again), judged(&came)];
    bench.timed_in_turn(both, ways.map(|(_, enqueue)| enqueue))
}

/// The same of ways that give the same bits.
fn same_in_turn<F: Fn(&Stream) -> Result<()>>(
    bench: &Bench,
    ways: [([&View; 2], F); 2],
) -> Result<[Checked; 2]> {
    let [first, second] = &ways;
    let same = run(bench, first)? == run(bench, second)?;
    let mut both = in_turn(bench, ways)?;
    let [_, second] = &mut both;
    if !same && second.first.is_none() {
        second.first = Some("other bits than with parts joined by a kernel".to_owned());
    }
    Ok(both)
}

/// What a way gives.
fn run<F: Fn(&Stream) -> Result<()>>(
    bench: &Bench,
    (results, enqueue): &([&View; 2], F),
) -> Result<[Vec<u8>; 2]> {
    let stream = &bench.stream;
    results.iter().try_for_each(|view| view.fill(POISON, stream))?;
    enqueue(stream)?;
    Ok([results[0].download(stream)?, results[1].download(stream)?])
}
