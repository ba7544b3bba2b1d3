/*!
The masks of a pass against an object's ground truth.
*/

use vos::dataset::ObjectTruth;
use vos::mask::Mask;
use vos::metrics::{MetricsKind, Scorer};
use vos::record::Quality;

/// J and F over the annotated frames that were run, and what is to be said about their ground
/// truth.
pub(super) fn score<'a>(
    kind: MetricsKind,
    object: &ObjectTruth,
    masks: impl Iterator<Item = &'a (usize, Mask)>,
) -> (Option<Quality>, Option<String>) {
    let mut scorer = Scorer::new(kind);
    let mut notes = Vec::new();
    for (index, mask) in masks {
        let truth = object.mask(*index, (mask.width(), mask.height()));
        match &truth {
            Ok(truth) if truth.same_size(mask) => {}
            Ok(truth) => notes.push(format!(
                "mask_size: the ground truth of frame {index} is {}x{}, the frames are {}x{}; it was \
                 compared with a resized prediction",
                truth.width(),
                truth.height(),
                mask.width(),
                mask.height()
            )),
            // An unreadable mask leaves its frame out of the averages, as it did before.
            Err(error) => notes.push(format!("{}: {error}; not scored", error.code())),
        }
        scorer.push(truth.as_ref().ok(), Some(mask));
    }
    let quality = scorer.finish();
    if quality.is_none() {
        notes.push(format!(
            "nothing_to_score: no annotated frame of those that were run counts under the {} rules",
            kind.as_str()
        ));
    }
    let more = notes.len().saturating_sub(1);
    let note = notes.into_iter().next();
    let note = note.map(|n| if more > 0 { format!("{n} (and {more} more)") } else { n });
    (quality, note)
}
