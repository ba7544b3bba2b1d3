/*!
The remarks below the table: ratios as sentences, withheld speeds with their reasons, and findings.
*/

use crate::compare::iou_format;
use crate::compare::judge::{Comparison, Flips, ModelComparison, Outcome, SideReport};
use vos::record::{Judgement, Weight};

/// One line for each remark, model by model.
pub fn remarks(comparison: &Comparison) -> Vec<String> {
    comparison.models.iter().flat_map(of_model).collect()
}

fn of_model(model: &ModelComparison) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |text: String| {
        let line = format!("{}: {text}", model.model);
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for ratio in model.ratios.iter().filter(|ratio| ratio.times_as_fast.is_some()) {
        let interval = ratio.times_as_fast.and_then(|factor| factor.interval);
        let interval = interval.map_or_else(String::new, |interval| {
            format!(" (95 % interval {:.3} to {:.3})", interval.low, interval.high)
        });
        // A sentence is often copied alone, so it carries its own warning.
        let mark = match ratio.verdict.judgement {
            Judgement::Valid => "",
            Judgement::Invalid => ", INVALID",
            Judgement::Unjudged => ", too little to judge",
        };
        let bound = ratio.at_least.map_or_else(String::new, |bound| {
            // A lower bound is never rounded up.
            let bound = (bound * 100.0).floor() / 100.0;
            format!(
                "; at least {bound:.2} times ({}'s slowest passes against the least time of each \
                 frame of {})",
                ratio.subject, ratio.baseline
            )
        });
        say(format!("{}{interval}{mark}{bound}", ratio.sentence));
    }
    for side in &model.sides {
        if let Some(why) = side.why.as_deref().filter(|_| !side.outcome.is_proven()) {
            let withheld = if side.withheld.is_some() { "; speed withheld" } else { "" };
            say(format!("{} {}: {why}{withheld}", side.side, side.outcome.as_str()));
        }
        as_original(side).into_iter().for_each(&mut say);
        flips(side).into_iter().for_each(&mut say);
        teacher_forced(side).into_iter().for_each(&mut say);
    }
    // A reason that several ratios share is printed once.
    let verdicts = model.ratios.iter().map(|ratio| &ratio.verdict);
    for verdict in verdicts.chain(model.sides.iter().map(|side| &side.verdict)) {
        for finding in &verdict.findings {
            let word = match (verdict.judgement, finding.weight) {
                (_, Weight::Note) => "note",
                (Judgement::Invalid, Weight::Fault) => "INVALID",
                _ => "too little to judge",
            };
            say(format!("{word}: {}: {}", finding.code, finding.sentence));
        }
    }
    lines
}

/// The sentence about a side whose masks agree only with the original code.
fn as_original(side: &SideReport) -> Option<String> {
    let found = side.as_original.as_ref().filter(|_| side.outcome == Outcome::AsOriginal)?;
    let why = side.why.as_deref().unwrap_or("no reason");
    let whose = match found.side == side.side {
        true => "this side is the original code at that precision".to_owned(),
        false => format!(
            "but the masks of {} at that precision (IoU mean {}, lowest {}); their speeds may be \
             compared",
            found.side,
            iou_format::mean(found.equality.mean_iou),
            iou_format::frame(found.equality.min_iou)
        ),
    };
    Some(format!("{}: not the reference's masks ({why}), {whose}", side.side))
}

/// IoU of the teacher-forced run, which has no feedback of masks, next to that of the free run.
fn teacher_forced(side: &SideReport) -> Option<String> {
    let forced = side.teacher_forced.as_ref()?;
    if let Some(why) = &forced.why {
        return Some(format!("{}: no teacher-forced drift curve: {why}", side.side));
    }
    let (mean, lowest, free) = (forced.mean_iou?, forced.min_iou?, side.equality.as_ref()?);
    Some(format!(
        "{}: IoU mean {} and lowest {} free-running, {} and {} teacher-forced (memories from the \
         reference's masks)",
        side.side,
        iou_format::mean(free.mean_iou),
        iou_format::frame(free.min_iou),
        iou_format::mean(mean),
        iou_format::frame(lowest)
    ))
}

fn flips(side: &SideReport) -> Vec<String> {
    let line = |what: &str, digits: usize, flips: &Option<Flips>| {
        let flips = flips.as_ref().filter(|flips| flips.flipped > 0)?;
        let margin = flips.largest_margin.map_or_else(String::new, |margin| {
            format!(", the reference's margin at most {margin:.digits$}")
        });
        Some(format!(
            "{}: {what} differs on {} of {} frames{margin}",
            side.side, flips.flipped, flips.frames
        ))
    };
    let objectness = line("objectness", 3, &side.objectness_flips);
    // A difference of IoUs, where the other is a logit.
    let selected = line("the selected mask", 4, &side.chosen_mask_flips);
    objectness.into_iter().chain(selected).collect()
}
