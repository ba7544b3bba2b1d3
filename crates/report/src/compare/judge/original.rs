/*!
The original code at a side's own precision: a second reference, for sides that fp32's masks do not
vouch for.

Half precision turns a tie over now and then, in PyTorch's own run as in an engine's (on an H200 one
frame of SAM2.1-tiny's 199). Whether an engine computes what the original computes at that precision
is a question of its own, with an answer: the same limits, held against PyTorch in eager mode at the
same precision. Sides that share that footing are compared in speed, and one with the reference's
masks with PyTorch's.
*/

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::contender::Contender;
use super::equality::{self, Equality};
use super::evidence;
use vos::dataset::Clip;

/// A side's masks against those of the original code, run in eager mode at the same precision.
#[derive(Clone, Debug, Serialize)]
pub struct AsOriginal {
    /// The side that ran it.
    pub side: String,
    /// The proof, or what speaks against it.
    pub equality: Equality,
}

/// For each of `sides` of a precision in which one is beyond a limit, and which has an original
/// among them: its masks against the original's. `equalities`: the sides' own, to the reference.
///
/// An original vouches for others only where it is the reference itself but for single frames. fp32
/// has none: there the reference is the original.
pub(super) fn compare(
    sides: &[&Contender<'_>],
    equalities: &[Option<&Equality>],
    clips: &HashMap<String, Clip>,
) -> HashMap<String, AsOriginal> {
    let mut found = HashMap::new();
    let judged = || sides.iter().zip(equalities).filter_map(|(side, own)| Some((side, (*own)?)));
    let beyond: BTreeSet<&str> = judged()
        .filter(|(_, own)| !own.same)
        .map(|(side, _)| side.conditions.precision.as_str())
        .collect();
    let vouches = |(side, own): &(&&Contender<'_>, &Equality)| {
        beyond.contains(side.conditions.precision.as_str())
            && is_original(side)
            && own.holds_on_the_whole()
    };
    for (original, _) in judged().filter(vouches) {
        let precision = &original.conditions.precision;
        let like: Vec<&Contender<'_>> =
            sides.iter().filter(|side| side.conditions.precision == *precision).copied().collect();
        for (side, evidence) in like.iter().zip(evidence::gather(original, &like, clips)) {
            if let Ok(objects) = evidence {
                let equality = equality::judge(&objects, precision);
                // The first original of a precision stands for all.
                found
                    .entry(side.name.to_owned())
                    .or_insert(AsOriginal { side: original.name.to_owned(), equality });
            }
        }
    }
    found
}

/// Meta's own code: transformers' is another implementation, which has to be proven as an engine
/// has.
fn is_original(side: &Contender<'_>) -> bool {
    let row = side.conditions;
    is_pytorch(&row.backend) && row.backend.ends_with(" meta eager") && row.precision != "fp32"
}

/// The backend of a row is PyTorch.
pub(super) fn is_pytorch(backend: &str) -> bool {
    backend.starts_with("pytorch ")
}
