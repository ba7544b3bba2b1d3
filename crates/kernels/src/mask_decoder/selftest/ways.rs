/*!
The mask decoder with the usual launches between its passes over the image and with others, against
float64, with times that are taken in turn.
*/

use anyhow::Result;

use super::super::after_image::{Ahead, Way};
use super::{Frame, Given, answer};
use crate::MaskDecoder;
use crate::kernel::chains_have_pdl;
use crate::selftest::{Bench, Checked, each_of, row};
use cuda::Stream;

const NAME: &str = "mask decoder ways";
/// What the usual way is compared with, and what the two are called.
type Other = (Way, [&'static str; 2]);
const OTHERS: [Other; 4] = [
    (Way { joined: false, ..Way::USUAL }, ["64 blocks join", "8 blocks join"]),
    (Way { ahead: Ahead::None, ..Way::USUAL }, ["kernels of tokens ahead", "none ahead"]),
    (Way { ahead: Ahead::All, ..Way::USUAL }, ["kernels of tokens ahead", "all ahead"]),
    (Way { joined: false, ahead: Ahead::None }, ["64 blocks join, ahead", "8 blocks, none ahead"]),
];

/// Without programmatic dependent launch no kernel starts ahead. Without times only the first way is
/// of interest, which computes with other kernels.
fn others(bench: &Bench) -> &'static [Other] {
    let timed = bench.runs.runs > 0;
    if timed && chains_have_pdl(bench.gpu) { &OTHERS } else { &OTHERS[..1] }
}

/// Rows that [`judge`] makes of a case.
pub(super) fn rows(bench: &Bench) -> usize {
    2 * others(bench).len()
}

/// Rows of each other way, and of the usual one beside it.
pub(super) fn judge(bench: &Bench, case: &str, given: &Given, frame: &Frame) {
    let usual = usual(bench, given, frame);
    for (other, names) in others(bench) {
        let both = match &usual {
            Ok((decoder, checked)) => check(bench, (decoder, checked), *other, given, frame),
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        for (checked, name) in each_of(both).into_iter().zip(names) {
            bench.found(row(NAME, &format!("{case}, {name}"), checked));
        }
    }
}

fn usual(bench: &Bench, given: &Given, frame: &Frame) -> Result<(MaskDecoder, Checked)> {
    let (stream, drawn) = (&bench.stream, &given.drawn);
    let decoder = MaskDecoder::new(bench.gpu, drawn.shape, &drawn.weights()?, stream)?;
    let checked = answer(&frame.anew(&decoder, stream)?, &given.expected)?;
    Ok((decoder, checked))
}

fn check(
    bench: &Bench,
    (usual, checked): (&MaskDecoder, &Checked),
    other: Way,
    given: &Given,
    frame: &Frame,
) -> Result<[Checked; 2]> {
    let other = MaskDecoder { way: other, ..usual.sharing(bench.gpu)? };
    let both = [checked.clone(), answer(&frame.anew(&other, &bench.stream)?, &given.expected)?];
    let ways = [usual, &other].map(|one| move |stream: &Stream| frame.enqueue(one, stream));
    bench.timed_in_turn(both, ways)
}
