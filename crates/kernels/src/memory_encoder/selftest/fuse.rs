/*!
Mask and features fused on Hopper: a frame with that kernel against float64, and the kernel alone
beside the one for any GPU, on the same mask, with times that are taken in turn.
*/

use anyhow::Result;

use super::super::fuse::HopperFuse;
use super::drawn::Drawn;
use super::{Case, Frame, NAME as ENCODER, Work, beside};
use crate::kernel::Chain;
use crate::selftest::{Bench, Checked, POISON, each_of, row};
use cuda::{LaunchMode, Stream};

const NAME: &str = "memory encoder fuse";
const WAYS: [&str; 2] = ["for any GPU", "on Hopper"];

/// Hopper's kernel, if the GPU has it and it takes the case's grid.
pub(super) fn on_hopper(bench: &Bench, case: &Case) -> Option<HopperFuse> {
    HopperFuse::load_if_supported(bench.gpu, case.grid)
}

/// Rows of a case.
pub(super) fn rows(bench: &Bench, case: &Case) -> usize {
    if on_hopper(bench, case).is_some() { 1 + WAYS.len() } else { 0 }
}

/// Of two encoders: the first computes as any GPU does, the second has the kernel.
pub(super) fn judge(
    bench: &Bench,
    case: &Case,
    drawn: &Drawn,
    (frame, expected): (&Frame, &[f64]),
    [old, new]: [&Work; 2],
) {
    let name = format!("{}, {}, fused {}", case.name, frame.name, WAYS[1]);
    let checked = super::check(bench, drawn, new, frame, expected);
    bench.found(row(ENCODER, &name, checked));
    for (checked, way) in each_of(check(bench, [old, new])).into_iter().zip(WAYS) {
        bench.found(row(NAME, &format!("{}, {way}", case.name), checked));
    }
}

fn check(bench: &Bench, [old, new]: [&Work; 2]) -> Result<[Checked; 2]> {
    let stream = &bench.stream;
    // The mask of the second, as its last frame left it.
    let wide = new.encoder.scratch.wide.download(stream)?;
    old.encoder.scratch.wide.upload(&wide, stream)?;
    let run = |work: &Work| -> Result<Vec<u8>> {
        let x = &work.encoder.scratch.x;
        x.fill(POISON, stream)?;
        enqueue(work, stream)?;
        Ok(x.download(stream)?)
    };
    beside::in_turn(bench, [old, new], run, enqueue)
}

fn enqueue(work: &Work, stream: &Stream) -> Result<()> {
    let chain = Chain::begin(stream, LaunchMode::Ordered);
    work.encoder.fuse_mask_and_features(&work.feat, &chain)
}
