/*!
What a reader must know before believing a number on the page.
*/

use super::best::differences;
use super::group::Group;
use crate::input::Inputs;

/// J&F below this says that the masks hardly touch the objects.
const NO_MASKS_BELOW: f64 = 0.1;

/// The notes, the most important first.
pub fn notes(inputs: &Inputs, groups: &[Group]) -> Vec<String> {
    let mut notes = Vec::new();
    let rows: usize = groups.iter().map(|group| group.counts.rows).sum();
    let invalid: usize = groups.iter().map(|group| group.counts.invalid).sum();
    let unmeasured: usize =
        groups.iter().map(|group| group.counts.rows - group.counts.measured).sum();
    let unjudged: usize = groups.iter().map(|group| group.counts.unjudged).sum();
    if invalid > 0 {
        notes.push(format!(
            "{invalid} of {rows} rows are INVALID. They are shown struck through with the reason; they are in no mean, no best and \
             no comparison, unless a model has no other row: then its numbers are theirs and struck through too."
        ));
    }
    if unmeasured > 0 {
        notes.push(format!("{unmeasured} of {rows} rows were skipped or failed and have no numbers; the table of rows has the reasons."));
    }
    for side in &inputs.unproven {
        notes.push(format!(
            "{}, {}: {}. Its masks are not proven to be the reference's: its speed is not to be used.",
            side.model, side.side, side.why
        ));
    }
    notes.extend(inputs.as_original.iter().cloned());
    if unjudged > 0 {
        notes.push(format!(
            "{unjudged} of {rows} rows were too short to be judged. They count, and are marked."
        ));
    }
    if inputs.sources.iter().any(|source| source.is_predecessors()) {
        notes.push(
            "Rows of the Python predecessor are among these. It timed other things than segtrt (for SAM 2 the building of the model and the \
             decoding of the clip lie inside its FPS), had no verdicts, and measured memory by torch's allocator. Compare its rows with \
             each other, not with segtrt's."
                .to_owned(),
        );
    }
    for group in groups {
        if let Some(weights) = group.weights.as_deref().filter(|weights| weights.contains("random"))
        {
            notes.push(format!(
                "{}: {weights}. Its speed means something, its masks and their J&F do not.",
                group.full_name()
            ));
        } else if let Some(quality) =
            group.mean("JandF").filter(|quality| *quality < NO_MASKS_BELOW)
        {
            notes.push(format!(
                "{}: J&F is {quality:.4}: the masks hardly touch the objects. Look at weights and prompts before trusting anything but the speed.",
                group.full_name()
            ));
        }
    }
    let compared: Vec<&Group> = groups.iter().filter(|group| group.counts.measured > 0).collect();
    let differences = differences(&compared);
    if !differences.is_empty() {
        notes.push(format!(
            "Not everything here was measured alike. It differs in: {}.",
            differences.join("; ")
        ));
    }
    notes
}
