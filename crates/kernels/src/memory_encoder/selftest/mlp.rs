/*!
The ConvNeXt MLPs alone: in tiles of 32 tokens, as most GPUs compute them, beside tiles of 128 and
Hopper's, on the same tokens, with times that are taken in turn. The whole encoder is compared with
float64; here, one way with the other.
*/

use anyhow::Result;

use super::super::mlp::{Mlp, Tile128Mlp};
use super::{Case, Work, beside};
use crate::kernel::Chain;
use crate::mlp::HopperMlp;
use crate::selftest::{Bench, Checked, POISON, each_of, row};
use cuda::{LaunchMode, Stream, View};

const NAME: &str = "memory encoder MLP";
/// What follows an MLP, and the ways to compute it.
const KINDS: [(bool, &str); 2] = [(false, "MLP"), (true, "MLP with projection")];
/// The usual one and another one, as they are compared.
type Ways = [&'static str; 2];
const TILES_OF_128: Ways = ["in tiles of 32 tokens", "in tiles of 128 tokens"];
const HOPPER: Ways = ["for any GPU", "on Hopper"];

/// Hopper's MLP, if the GPU has it.
pub(super) fn on_hopper(bench: &Bench, case: &Case) -> Option<Mlp> {
    HopperMlp::load_if_supported(bench.gpu, case.shape().tokens()).map(Mlp::Hopper)
}

/// The MLPs that are compared with the usual one: without latents, which are not in front of an MLP.
pub(super) fn others(bench: &Bench, case: &Case) -> Vec<(Result<Mlp>, Ways)> {
    if case.latents {
        return Vec::new();
    }
    let tiles_of_128 = (Tile128Mlp::load(bench.gpu).map(Mlp::Tiles128), TILES_OF_128);
    let hopper = on_hopper(bench, case).map(|mlp| (Ok(mlp), HOPPER));
    [tiles_of_128].into_iter().chain(hopper).collect()
}

/// Rows of a case with other MLPs: a frame with each, and those of [`judge`].
pub(super) fn rows(bench: &Bench, case: &Case) -> usize {
    others(bench, case).len() * (1 + 2 * KINDS.len())
}

/// Of encoders that have computed a frame; the second has another MLP.
pub(super) fn judge(bench: &Bench, case: &Case, ways: Ways, works: [&Work; 2]) {
    for (projected, kind) in KINDS {
        let both = each_of(check(bench, works, projected));
        for (checked, way) in both.into_iter().zip(ways) {
            bench.found(row(NAME, &format!("{}, {kind}, {way}", case.name), checked));
        }
    }
}

fn check(bench: &Bench, [old, new]: [&Work; 2], projected: bool) -> Result<[Checked; 2]> {
    let stream = &bench.stream;
    // The tokens of the first, as its last frame left them.
    let [x, y, score] = views(old).map(|view| view.download(stream));
    let given = [x?, y?, score?];
    let run = |work: &Work| -> Result<Vec<u8>> {
        for (view, bytes) in views(work).into_iter().zip(&given) {
            view.upload(bytes, stream)?;
        }
        work.memory.fill(POISON, stream)?;
        enqueue(work, projected, stream)?;
        let out = if projected { &work.memory } else { &work.encoder.scratch.x };
        Ok(out.download(stream)?)
    };
    // Each timed run adds to the tokens; a few hundred are far from the largest half.
    beside::in_turn(bench, [old, new], run, |work, stream| enqueue(work, projected, stream))
}

/// What an MLP reads besides weights.
fn views(work: &Work) -> [&View; 3] {
    let scratch = &work.encoder.scratch;
    [&scratch.x, &scratch.y, &work.score]
}

fn enqueue(work: &Work, projected: bool, stream: &Stream) -> Result<()> {
    let (encoder, chain) = (&work.encoder, Chain::begin(stream, LaunchMode::Ordered));
    let [first, last] = &encoder.weights.blocks;
    if projected {
        encoder.convnext_mlp_proj(last, &work.score, &work.memory, &chain)
    } else {
        encoder.convnext_mlp(first, &chain)
    }
}
