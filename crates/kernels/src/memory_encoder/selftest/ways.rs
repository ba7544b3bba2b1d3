/*!
The memory encoder in both launch modes; and, where it has latents, those of windows behind the
others and as a branch beside them.
*/

use super::drawn::Drawn;
use super::{Case, Work};
use crate::selftest::chain_modes::{self, Chained};
use crate::selftest::{Bench, POISON, bytes_of};
use cuda::{Branch, LaunchMode, Stream};

const MODES: &str = "memory encoder modes";
const BRANCH: &str = "memory encoder branch";

/// Rows of a case.
pub(super) fn rows(bench: &Bench, case: &Case) -> usize {
    chain_modes::rows(bench) + if case.latents { chain_modes::BRANCH_ROWS } else { 0 }
}

/// Of an encoder that has its inputs.
pub(super) fn judge(bench: &Bench, case: &Case, work: &Work, drawn: &Drawn) {
    let stream = &bench.stream;
    let features = bytes_of(&drawn.feat, |value| value.to_le_bytes());
    let in_mode = |mode: LaunchMode, stream: &Stream| {
        work.encoder.enqueue_in([mode; 2], work.inputs(), &work.memory, stream, None)
    };
    let chain = Chained {
        name: MODES,
        case: case.name,
        input: (&work.feat, &features),
        begin: &|| Ok(work.memory.fill(POISON, stream)?),
        enqueue: &in_mode,
        download: &|| Ok(work.memory.download(stream)?),
    };
    chain_modes::judge(bench, &chain);
    if case.latents {
        let forked = |stream: &Stream, branch: Option<&Branch>| work.enqueue(stream, branch);
        chain_modes::judge_branch(bench, &Chained { name: BRANCH, ..chain }, &forked);
    }
}
