/*!
Notes that a reader needs before using a number on the page.
*/

use super::best::differences;
use super::group::Group;
use crate::input::Inputs;

/// Least J&F of masks that touch the objects.
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
            "{invalid} of {rows} rows are INVALID. They are shown struck through with the reason, \
             and are excluded from means, best groups and comparisons. If a model has no other \
             row, its numbers are those of INVALID rows, struck through."
        ));
    }
    if unmeasured > 0 {
        notes.push(format!(
            "{unmeasured} of {rows} rows were skipped or failed and have no \
                            numbers. The table of rows has the reasons."
        ));
    }
    for side in inputs.comparisons.iter().flat_map(|read| read.unproven()) {
        notes.push(format!(
            "{}, {}: {}. Its masks are not proven equal to the reference's, so its speed must not \
             be used.",
            side.model, side.side, side.why
        ));
    }
    notes.extend(inputs.comparisons.iter().flat_map(|read| read.as_original()));
    if unjudged > 0 {
        notes.push(format!(
            "{unjudged} of {rows} rows were too short to be judged. They count and are marked."
        ));
    }
    if inputs.sources.iter().any(|source| source.is_predecessors()) {
        notes.push(
            "Some rows are the Python predecessor's. Its timed region differs (for SAM 2 its FPS \
             includes building the model and decoding the clip), it has no verdicts, and its \
             memory is that of torch's allocator. Compare its rows with each other, not with \
             segtrt's."
                .to_owned(),
        );
    }
    for group in groups {
        if let Some(weights) = group.weights.as_deref().filter(|weights| weights.contains("random"))
        {
            notes.push(format!(
                "{}: {weights}. Only its speed is meaningful, not its masks and their J&F.",
                group.full_name()
            ));
        } else if let Some(quality) =
            group.mean("JandF").filter(|quality| *quality < NO_MASKS_BELOW)
        {
            notes.push(format!(
                "{}: J&F is {:.2} %: the masks hardly touch the objects. Check weights and \
                 prompts before using anything but the speed.",
                group.full_name(),
                100.0 * quality
            ));
        }
    }
    let compared: Vec<&Group> = groups.iter().filter(|group| group.counts.measured > 0).collect();
    let differences = differences(&compared);
    if !differences.is_empty() {
        notes.push(format!("Conditions differ between rows: {}.", differences.join("; ")));
    }
    notes
}
