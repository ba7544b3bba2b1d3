/*!
A whole layer with both of its attentions, from the features to the next layer's queries, in both
launch modes.
*/

use anyhow::Result;
use half::f16;

use super::{Case, Drawn, Work};
use crate::attention::{Attention, AttentionKernels, AttentionShape, AttentionUse, Values};
use crate::kernel::Chain;
use crate::selftest::chain_modes::{self, Chained};
use crate::selftest::{Bench, POISON, bytes_of, row};
use crate::{MemoryAttention, MemoryAttentionPiece};
use cuda::{LaunchMode, Stream, View};
use vos::bundle::memory_attention::{MEMORY, WIDTH};
use vos::noise::Noise;

const NAME: &str = "memory attention layer modes";
/// That a bank makes: all kernels in one mode; and attention alone in both modes.
pub const CHAINS: usize = 2;

/// The attentions with the tensors that a layer has beside [`Work`]'s.
struct Layer<'w> {
    pieces: &'w MemoryAttention,
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
    /// What was attended to.
    attended: [View; 2],
}

/// Rows of the layers that a case has; none without early launches.
pub fn judge(bench: &Bench, case: &Case, work: &Work, drawn: &Drawn) {
    if chain_modes::rows(bench) == 0 {
        return;
    }
    for (model, keys) in case.banks {
        let name = format!("{model} {}", case.name);
        match Layer::new(bench, work, *keys, &name) {
            Ok(layer) => layer.judge(bench, &name, drawn),
            Err(error) => {
                let why = format!("{error:#}");
                (0..CHAINS * chain_modes::rows(bench)).for_each(|_| {
                    bench.found(row(NAME, &name, Err(anyhow::anyhow!(why.clone()))));
                });
            }
        }
    }
}

impl<'w> Layer<'w> {
    fn new(bench: &Bench, work: &'w Work, keys: usize, name: &str) -> Result<Self> {
        let tokens = work.attention.tokens();
        let row = 2 * tokens * WIDTH;
        let room = |bytes: usize| View::new(bench.gpu, bytes);
        let mut noise = Noise::new(bench.seed, &format!("layer {name}"));
        let mut drawn = |columns: usize| -> Result<View> {
            let values: Vec<f16> = noise.halves(keys * columns, 1.0);
            bench.put(&bytes_of(&values, |value| value.to_le_bytes()))
        };
        let (bank_keys, values) = (drawn(WIDTH)?, drawn(MEMORY)?);
        // Of both uses, as a pipeline may load them: a refused module must cost its user alone.
        let kernels = AttentionKernels::load_for(bench.gpu, &AttentionUse::ALL)?;
        let frame =
            AttentionShape { objects: 1, queries: tokens, keys: tokens, values: Values::Frame };
        let bank = AttentionShape { keys, values: Values::Memory, ..frame };
        let of = |at: usize| work.projected.part(at * row, row);
        Ok(Self {
            pieces: &work.attention,
            x: &work.x,
            frame: Attention::new(bench.gpu, &kernels, frame)?,
            bank: Attention::new(bench.gpu, &kernels, bank)?,
            keys: bank_keys,
            values,
            tokens: [room(row)?, room(row)?],
            projected: &work.projected,
            sections: [of(0)?, of(1)?, of(2)?],
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

    /// The layer. `apart`: its pieces' first launches are not early.
    fn enqueue(&self, attention: &Chain<'_>, pieces: &Chain<'_>, apart: bool) -> Result<()> {
        let Self { keys, values, projected, sections: [q, k, v], .. } = self;
        let ([a, b], [of_frame, of_bank]) = (&self.tokens, &self.attended);
        let piece = |piece, views: [&View; 2], attended, projected: &View| {
            if apart {
                pieces.interrupt();
            }
            self.pieces.enqueue_in(piece, views, [attended, Some(projected)], pieces)
        };
        piece(MemoryAttentionPiece::Start, [self.x, a], None, projected)?;
        self.frame.enqueue_in([q, k, v], None, of_frame, attention)?;
        piece(MemoryAttentionPiece::Query(0), [a, b], Some(of_frame), q)?;
        self.bank.enqueue_in([q, keys, values], None, of_bank, attention)?;
        piece(MemoryAttentionPiece::Finish(0), [b, a], Some(of_bank), projected)
    }
}
