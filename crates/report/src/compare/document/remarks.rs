/*!
What is said below the table: the ratios in words, what is withheld and why, what may not be
believed.
*/

use crate::compare::iou_text;
use crate::compare::judge::{Comparison, Flips, ModelComparison, Outcome, SideReport};
use vos::record::{Judgement, Weight};

/// One line for each thing to be said, model by model.
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
        // A sentence is read and copied alone: it must carry its own warning.
        let mark = match ratio.verdict.judgement {
            Judgement::Valid => "",
            Judgement::Invalid => ", INVALID",
            Judgement::Unjudged => ", too little to judge",
        };
        let bound = ratio.at_least.map_or_else(String::new, |bound| {
            // A bound is never rounded up.
            let bound = (bound * 100.0).floor() / 100.0;
            format!(
                "; at least {bound:.2} times, by {}'s slowest passes and the least time that each frame took {}",
                ratio.subject, ratio.baseline
            )
        });
        say(format!("{}{interval}{mark}{bound}", ratio.sentence));
    }
    for side in &model.sides {
        if let Some(why) = side.why.as_deref().filter(|_| !side.outcome.is_proven()) {
            let withheld = if side.withheld.is_some() { "; its speed is withheld" } else { "" };
            say(format!("{} {}: {why}{withheld}", side.side, side.outcome.as_str()));
        }
        as_original(side).into_iter().for_each(&mut say);
        flips(side).into_iter().for_each(&mut say);
        taught(side).into_iter().for_each(&mut say);
    }
    // A reason that several ratios share is told once.
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

/// What a side that is not the reference's is proven to be.
fn as_original(side: &SideReport) -> Option<String> {
    let found = side.as_original.as_ref().filter(|_| side.outcome == Outcome::AsOriginal)?;
    let why = side.why.as_deref().unwrap_or("no reason");
    let whose = match found.side == side.side {
        true => "it is the original code at that precision, which others are held to".to_owned(),
        false => format!(
            "but the masks of {} at that precision (IoU mean {}, lowest {}), with which its speed may be compared",
            found.side,
            iou_text::mean(found.equality.mean_iou),
            iou_text::frame(found.equality.min_iou)
        ),
    };
    Some(format!("{}: not the reference's masks ({why}), {whose}", side.side))
}

/// What a teacher shows: how far the masks are off by arithmetic alone, and how far with their
/// feedback.
fn taught(side: &SideReport) -> Option<String> {
    let taught = side.teacher_forced.as_ref()?;
    if let Some(why) = &taught.why {
        return Some(format!("{}: no teacher-forced drift curve: {why}", side.side));
    }
    let (mean, lowest, free) = (taught.mean_iou?, taught.min_iou?, side.equality.as_ref()?);
    Some(format!(
        "{}: IoU mean {} and lowest {} free-running, {} and {} teacher-forced (the reference's masks in its memories)",
        side.side,
        iou_text::mean(free.mean_iou),
        iou_text::frame(free.min_iou),
        iou_text::mean(mean),
        iou_text::frame(lowest)
    ))
}

fn flips(side: &SideReport) -> Vec<String> {
    let told = |what: &str, flips: &Option<Flips>| {
        let flips = flips.as_ref().filter(|flips| flips.flipped > 0)?;
        let margin = flips.largest_margin.map_or_else(String::new, |margin| {
            format!(", the reference at most {margin:.3} from deciding so itself")
        });
        Some(format!(
            "{}: {what} turned over on {} of {} frames{margin}",
            side.side, flips.flipped, flips.frames
        ))
    };
    [
        told("objectness", &side.objectness_flips),
        told("the choice of a mask", &side.chosen_mask_flips),
    ]
    .into_iter()
    .flatten()
    .collect()
}
