/*!
What comparisons proved: of each model and side the speed with its interval, the ratio, the lowest
IoU and the verdict.
*/

use serde::Serialize;

use super::stat::half_interval;
use crate::chart::thousands;
use crate::compare::judge::{
    Comparison, Factor, Interval, ModelComparison, Outcome, SideReport, Speed,
};
use crate::compare::thresholds::equality_of;
use crate::input::ReadComparison;
use crate::input::sides::{self, Palette};
use vos::model_tag::ModelTag;
use vos::prompt::PromptKind;
use vos::record::{Finding, Judgement, Verdict, Weight};
use vos::stats;
use vos::verdict::POWER_LIMITED;

/// One model of one comparison.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedModel {
    /// Name of the comparison.
    pub comparison: String,
    /// Its file.
    pub path: String,
    /// UTC dates of the measurements.
    pub measured_on: Vec<String>,
    /// The command line of the comparison.
    pub command: String,
    /// Device of the subject.
    pub device: String,
    /// Model tag.
    pub model: String,
    /// Side of the network input, pixels.
    pub imgsz: String,
    /// Clips.
    pub clips: usize,
    /// Objects in them.
    pub objects: usize,
    /// Name of the side that is compared with the others.
    pub subject: String,
    /// Name of the side with whose masks all others are compared.
    pub reference: String,
    /// The sides, the subject first.
    pub sides: Vec<ComparedSide>,
}

/// One side of it.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedSide {
    /// Its name in the comparison.
    pub side: String,
    /// Program, mode and precision.
    pub name: String,
    /// The number of its colour on the page.
    #[serde(skip)]
    pub series: usize,
    /// Result of the comparison of masks.
    pub outcome: Outcome,
    /// Why its masks are not proven.
    pub why: Option<String>,
    /// Its speed; none without proven masks.
    pub speed: Option<Speed>,
    /// 95 % interval of its FPS.
    pub fps_interval: Option<Interval>,
    /// The subject's FPS over this side's; none for the subject.
    pub times: Option<Factor>,
    /// A lower bound of it that holds though passes were disturbed.
    pub at_least: Option<f64>,
    /// Mean IoU with the reference.
    pub mean_iou: Option<f64>,
    /// Lowest IoU of any frame.
    pub min_iou: Option<f64>,
    /// The limit of the lowest IoU at its precision.
    pub iou_limit: Option<f64>,
    /// J&F by the official rules, % .
    pub jf: Option<f64>,
    /// Its difference to the reference's, points of 100.
    pub jf_difference: Option<f64>,
    /// Validity of its own speed.
    pub own: Judgement,
    /// Validity of the ratio, or of its own speed if it has no ratio.
    pub verdict: Judgement,
    /// Its own speed, or that of the subject in its ratio, is the one that the GPU sustains at its
    /// power limit.
    pub power_limited: bool,
    /// Faults that make the verdict INVALID.
    pub faults: Vec<Finding>,
}

impl ComparedModel {
    /// Model and size, with the comparison if another one has both too.
    pub fn title(&self, all: &[Self]) -> String {
        let same = |other: &&Self| (&other.model, &other.imgsz) == (&self.model, &self.imgsz);
        let name = format!("{} · {} px", network(&self.model), self.imgsz);
        match all.iter().filter(same).count() {
            0 | 1 => name,
            _ => format!("{name} · {}", self.comparison),
        }
    }
}

impl ComparedSide {
    /// The subject's ratio to the side: in brackets if it is INVALID, or a bound that holds all the
    /// same. Empty for the subject.
    pub fn ratio_text(&self) -> String {
        let at_least =
            |bound: f64| format!("≥ {} ×", thousands((bound * 100.0).floor() / 100.0, 2));
        match (self.times, self.at_least, self.verdict) {
            (_, Some(bound), Judgement::Invalid) | (None, Some(bound), _) => at_least(bound),
            (Some(times), None, Judgement::Invalid) => format!("({})", times.text()),
            (Some(times), ..) => format!("{} ×", times.text()),
            (None, None, _) => String::new(),
        }
    }

    /// The verdict in one word, and whether it holds at the power limit only; for a side without
    /// proven masks the outcome.
    pub fn verdict_text(&self) -> String {
        match (self.outcome.is_proven(), self.verdict) {
            (false, _) => self.outcome.as_str().to_owned(),
            (true, Judgement::Unjudged) => "not judged".to_owned(),
            (true, Judgement::Valid) if self.power_limited => {
                format!("{} (power limit)", Judgement::Valid.as_str())
            }
            (true, verdict) => verdict.as_str().to_owned(),
        }
    }
}

/// A model's tag as papers call the network; a prompt other than a click is named.
fn network(tag: &str) -> String {
    let Some(parsed) = ModelTag::parse(tag, PromptKind::Points) else { return tag.to_owned() };
    let name = match parsed.network.strip_prefix("sam2.1_") {
        Some("base_plus") => "SAM2.1-base+".to_owned(),
        Some(size) => format!("SAM2.1-{size}"),
        None => parsed.network.replace("edgetam_", "EdgeTAM-").replace("edgetam", "EdgeTAM"),
    };
    match parsed.prompt {
        PromptKind::Points => name,
        other => format!("{name} ({} prompt)", other.name()),
    }
}

/// Every model of every comparison.
pub fn models(comparisons: &[ReadComparison], palette: &mut Palette) -> Vec<ComparedModel> {
    let mut models = Vec::new();
    for read in comparisons {
        let names = Names::of(&read.result);
        for model in read.result.models.iter().filter(|model| !model.sides.is_empty()) {
            models.push(one(read, model, &names, palette));
        }
    }
    models
}

/// The shown name of each side of a comparison. Sides that would share one get their own name too.
struct Names(Vec<(String, String)>);

impl Names {
    fn of(comparison: &Comparison) -> Self {
        let mut names: Vec<(String, String)> = Vec::new();
        for side in comparison.models.iter().flat_map(|model| &model.sides) {
            if !names.iter().any(|(side_name, _)| *side_name == side.side) {
                names.push((side.side.clone(), sides::name(comparison, side)));
            }
        }
        let shared: Vec<bool> = names
            .iter()
            .map(|(_, name)| names.iter().filter(|(_, other)| other == name).count() > 1)
            .collect();
        for ((side, name), shared) in names.iter_mut().zip(shared) {
            if shared && name != side {
                *name = format!("{name} ({side})");
            }
        }
        let reference = &comparison.reference;
        if !names.iter().any(|(side, _)| side == reference) {
            let shown = sides::of_facts(comparison, reference);
            names.push((reference.clone(), shown.unwrap_or_else(|| reference.clone())));
        }
        Self(names)
    }

    fn shown(&self, side: &str) -> String {
        let found = self.0.iter().find(|(name, _)| name == side);
        found.map_or_else(|| side.to_owned(), |(_, shown)| shown.clone())
    }
}

fn one(
    read: &ReadComparison,
    model: &ModelComparison,
    names: &Names,
    palette: &mut Palette,
) -> ComparedModel {
    let comparison = &read.result;
    let device = model.sides.iter().map(|side| side.device.as_str()).find(|name| !name.is_empty());
    ComparedModel {
        comparison: read.label.clone(),
        path: read.path.display().to_string(),
        measured_on: comparison.measured_on.clone(),
        command: comparison.command.clone(),
        device: device.unwrap_or_default().to_owned(),
        model: model.model.clone(),
        imgsz: model.imgsz.clone(),
        clips: model.clips,
        objects: model.objects,
        subject: names.shown(&comparison.subject),
        reference: names.shown(&comparison.reference),
        sides: model
            .sides
            .iter()
            .map(|side| {
                let name = names.shown(&side.side);
                let series = palette.series(&name);
                self::side(model, side, name, series)
            })
            .collect(),
    }
}

fn side(model: &ModelComparison, side: &SideReport, name: String, series: usize) -> ComparedSide {
    let subject = model.sides.first().map(|first| first.side.as_str());
    let ratio = model
        .ratios
        .iter()
        .find(|ratio| ratio.baseline == side.side && Some(ratio.subject.as_str()) == subject);
    let verdict: &Verdict = ratio.map_or(&side.verdict, |ratio| &ratio.verdict);
    let equality = side.equality.as_ref();
    let faults = verdict.findings.iter().filter(|finding| finding.weight == Weight::Fault);
    ComparedSide {
        side: side.side.clone(),
        name,
        series,
        outcome: side.outcome,
        why: side.why.clone(),
        fps_interval: side.speed.as_ref().and_then(interval),
        speed: side.speed.clone(),
        times: ratio.and_then(|ratio| ratio.times_as_fast),
        at_least: ratio.and_then(|ratio| ratio.at_least),
        mean_iou: equality.map(|equality| equality.mean_iou),
        min_iou: equality.map(|equality| equality.min_iou),
        iou_limit: equality_of(&side.precision).map(|limits| limits.min_iou),
        jf: equality.and_then(|equality| Some(equality.scores?.jf)),
        jf_difference: equality.and_then(|equality| Some(equality.scores?.difference)),
        own: side.verdict.judgement,
        power_limited: verdict.find(POWER_LIMITED).is_some(),
        verdict: verdict.judgement,
        faults: faults.cloned().collect(),
    }
}

/// The interval of the comparison, or for files of earlier releases Student's over the rounds.
fn interval(speed: &Speed) -> Option<Interval> {
    if speed.fps_interval.is_some() {
        return speed.fps_interval;
    }
    let deviation = stats::population_std(&speed.round_fps)?;
    let half = half_interval(speed.round_fps.len(), deviation)?;
    Some(Interval { low: (speed.fps - half).max(0.0), high: speed.fps + half })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_called_as_papers_call_them() {
        let tags = ["edgetam_points", "sam2_base_bbox", "edgetam_mini_points", "mine"];
        let names = ["EdgeTAM", "SAM2.1-base+ (bbox prompt)", "EdgeTAM-mini", "mine"];
        assert_eq!(tags.map(network), names);
    }

    #[test]
    fn old_files_get_an_interval_over_their_rounds() {
        let mut speed =
            Speed { fps: 100.0, round_fps: vec![99.0, 100.0, 101.0], ..Speed::default() };
        let found = interval(&speed).unwrap();
        // 4.303 · 1 / √3.
        assert!((found.low - 97.516).abs() < 1e-3 && (found.high - 102.484).abs() < 1e-3);
        speed.round_fps.truncate(1);
        assert_eq!(interval(&speed), None, "one round has no spread");
        let own = Interval { low: 90.0, high: 120.0 };
        speed.fps_interval = Some(own);
        assert_eq!(interval(&speed), Some(own));
    }
}
