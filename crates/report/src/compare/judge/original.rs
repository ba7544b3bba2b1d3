/*!
The original code at a side's precision: a second reference for sides whose masks differ from
fp32's.

Rounding in fp16 sometimes decides a tie between masks differently, in PyTorch as in an engine (on
an H200 in one of 199 frames of SAM 2.1 tiny). So a second question is whether an engine computes
the same as the original at that precision. The limits are the same, and the reference is PyTorch in
eager mode at the same precision. Sides that agree with it are compared in speed with each other,
and a side with the reference's masks is compared with PyTorch.
*/

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::equality::{self, Equality};
use super::evidence;
use super::side_results::SideResults;
use crate::compare::runs::PyTorch;
use vos::dataset::Clip;

/// A side's masks against those of the original code in eager mode at the same precision.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AsOriginal {
    /// The side that ran the original code.
    pub side: String,
    /// Result of the check.
    pub equality: Equality,
}

/// Compares each of `sides` with the original of its precision, if some side of that precision
/// breaks a limit and an original is among the sides. `equalities`: the sides against the
/// reference.
///
/// An original counts only if its mean IoU and J&F hold the reference's limits. fp32 has no
/// original: there the reference is the original.
pub(super) fn compare(
    sides: &[&SideResults<'_>],
    equalities: &[Option<&Equality>],
    clips: &HashMap<String, Clip>,
) -> HashMap<String, AsOriginal> {
    let mut found = HashMap::new();
    let judged = || sides.iter().zip(equalities).filter_map(|(side, own)| Some((side, (*own)?)));
    let beyond: BTreeSet<&str> = judged()
        .filter(|(_, own)| !own.same)
        .map(|(side, _)| side.conditions.precision.as_str())
        .collect();
    let vouches = |(side, own): &(&&SideResults<'_>, &Equality)| {
        beyond.contains(side.conditions.precision.as_str())
            && is_original(side)
            && own.holds_on_the_whole()
    };
    for (original, _) in judged().filter(vouches) {
        let precision = &original.conditions.precision;
        let like: Vec<&SideResults<'_>> =
            sides.iter().filter(|side| side.conditions.precision == *precision).copied().collect();
        for (side, evidence) in like.iter().zip(evidence::gather(original, &like, clips)) {
            if let Ok(objects) = evidence {
                let equality = equality::judge(&objects, precision);
                // The first original of a precision counts.
                found
                    .entry(side.name.to_owned())
                    .or_insert(AsOriginal { side: original.name.to_owned(), equality });
            }
        }
    }
    found
}

/// Only Meta's own code counts. transformers is another implementation, whose masks need a proof
/// themselves.
fn is_original(side: &SideResults<'_>) -> bool {
    let original = PyTorch { implementation: "meta", mode: "eager" };
    side.pytorch() == Some(original) && side.conditions.precision != "fp32"
}
