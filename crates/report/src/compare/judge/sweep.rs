/*!
Results of a sweep: each combination against the reference of its size, then the fastest and its
slowest stage.
*/

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::equality::{self, Equality};
use super::result::{Outcome, Withheld};
use super::side_results::SideResults;
use super::speed::{self, Speed};
use super::{evidence, same_work, validity};
use crate::compare::runs::{Set, Side};
use crate::compare::sweep::Combination;
use vos::dataset::Dataset;
use vos::record::{Judgement, Verdict};

/// One combination on one model.
#[derive(Clone, Debug, Serialize)]
pub struct SweepRow {
    /// Model tag.
    pub model: String,
    /// Name of the combination.
    pub combination: String,
    /// Precision of the rows.
    pub precision: String,
    /// Side of the network input, pixels.
    pub imgsz: String,
    /// Objects tracked together, as requested.
    pub objects_together: usize,
    /// The combination with which its masks are compared.
    pub reference: String,
    /// Result of the comparison.
    pub outcome: Outcome,
    /// The reason, if its masks are not proven.
    pub why: Option<String>,
    /// The number of rounds, the expected number and the reason for the difference; none if no
    /// round is missing.
    pub stopped_early: Option<String>,
    /// Its speed; none for a mismatch.
    pub speed: Option<Speed>,
    /// Frames of single objects over the time of all objects.
    pub object_fps: Option<f64>,
    /// The stage with the longest mean time, decoding excluded, and that time, ms.
    pub slowest_stage: Option<(String, f64)>,
    /// The measured speed of a row without proven masks.
    pub withheld: Option<Withheld<Speed>>,
    /// The masks against the reference's.
    pub equality: Option<Equality>,
    /// Validity of its speed.
    pub verdict: Verdict,
}

/// Judges every combination of every model. `references` has the index of each combination's
/// reference.
///
/// # Errors
/// The split differs from the measured one.
pub fn sweep(
    set: &Set,
    split: &dyn Dataset,
    combinations: &[Combination],
    references: &[usize],
) -> Result<Vec<SweepRow>> {
    let clips = super::clips(set, split)?;
    let mut rows = Vec::new();
    for model in set.models() {
        let sides: Vec<Result<SideResults<'_>, String>> =
            set.sides.iter().map(|side| SideResults::of(side, &model)).collect();
        for (at, (combination, side)) in combinations.iter().zip(&set.sides).enumerate() {
            let mut row = empty(&model, combination, side, &set.sides[references[at]].name);
            match (&sides[at], &sides[references[at]]) {
                (Err(why), _) => {
                    row.outcome = Outcome::NotAvailable;
                    row.why = Some(why.clone());
                }
                (Ok(_), Err(why)) => row.why = Some(format!("its reference cannot be used: {why}")),
                (Ok(side), Ok(reference)) => {
                    let differs = same_work::other_input(side, reference);
                    let found = match differs.is_empty() {
                        true => evidence::gather(reference, &[side], &clips).pop(),
                        false => Some(Err(differs.join("; "))),
                    };
                    row.fill(side, found.unwrap_or_else(|| Err("not compared".to_owned())));
                }
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

fn empty(model: &str, combination: &Combination, side: &Side, reference: &str) -> SweepRow {
    SweepRow {
        model: model.to_owned(),
        combination: side.name.clone(),
        precision: combination.precision.clone(),
        imgsz: combination.imgsz.map_or_else(String::new, |side| side.to_string()),
        objects_together: combination.objects.unwrap_or(1),
        reference: reference.to_owned(),
        outcome: Outcome::Refused,
        why: None,
        stopped_early: None,
        speed: None,
        object_fps: None,
        slowest_stage: None,
        withheld: None,
        equality: None,
        verdict: Verdict::default(),
    }
}

impl SweepRow {
    /// Whether its masks are proven and no round is missing.
    pub fn is_sound(&self) -> bool {
        self.outcome.is_proven() && self.stopped_early.is_none()
    }

    fn fill(&mut self, side: &SideResults<'_>, evidence: evidence::SideEvidence) {
        self.imgsz.clone_from(&side.conditions.imgsz);
        self.precision.clone_from(&side.conditions.precision);
        self.stopped_early = side.stopped_early();
        match evidence {
            Err(why) => self.why = Some(why),
            Ok(objects) => {
                let found = equality::judge(&objects, &side.conditions.precision);
                let is_reference = self.reference == self.combination;
                self.outcome = super::model::outcome(&found, is_reference);
                self.why = (!found.faults.is_empty()).then(|| found.faults.join("; "));
                self.equality = Some(found);
            }
        }
        let Some(speed) = speed::speed(side) else { return };
        self.verdict = validity::of_side(side, &speed);
        if !self.outcome.is_proven() {
            let why = self.why.clone().unwrap_or_else(|| self.outcome.as_str().to_owned());
            self.withheld = Some(Withheld { why, not_to_be_published: speed });
            return;
        }
        self.object_fps = object_fps(side, self.objects_together);
        self.slowest_stage = slowest(&speed);
        self.speed = Some(speed);
    }
}

fn slowest(speed: &Speed) -> Option<(String, f64)> {
    let stages = speed.stages_ms.iter().filter(|(name, _)| *name != "decode_ms");
    let times = stages.filter_map(|(name, ms)| Some((name.trim_end_matches("_ms"), ms.as_f64()?)));
    times.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, ms)| (name.to_owned(), ms))
}

/// Frames of single objects a second. Objects that are tracked together share their frames' times,
/// which count once for a group. If a clip's last group is smaller, its groups count as equal.
fn object_fps(side: &SideResults<'_>, together: usize) -> Option<f64> {
    let (mut frames, mut seconds) = (0.0, 0.0);
    for round in &side.rounds {
        let mut clips: BTreeMap<&str, (usize, f64, f64)> = BTreeMap::new();
        for (key, passes) in &round.objects {
            let clip = clips.entry(&key.video).or_default();
            clip.0 += 1;
            for frame in passes.iter().flat_map(|pass| &pass.frames) {
                clip.1 += 1.0;
                clip.2 += frame.time.ms() / 1000.0;
            }
        }
        for (objects, of_clip, time) in clips.into_values() {
            let groups = objects.div_ceil(together.max(1));
            frames += of_clip;
            seconds += time * groups as f64 / objects as f64;
        }
    }
    (seconds > 0.0).then(|| frames / seconds)
}

/// The fastest combination of a model.
#[derive(Clone, Copy, Debug)]
pub enum Fastest<'a> {
    /// The row with the most frames of single objects a second, of two or more.
    Of(&'a SweepRow),
    /// Only one row has a valid speed, so there is no comparison.
    Alone(&'a SweepRow),
    /// Number of rows with a speed, all of them INVALID.
    Invalid(usize),
    /// No row has a speed.
    Unknown,
}

/// The fastest of a model's rows whose masks are proven and whose speed is not INVALID.
pub fn fastest<'a>(rows: &'a [SweepRow], model: &str) -> Fastest<'a> {
    let (invalid, sound): (Vec<_>, Vec<_>) = rows
        .iter()
        .filter(|row| row.model == model)
        .filter_map(|row| Some((row, row.object_fps?)))
        .partition(|(row, _)| row.verdict.judgement == Judgement::Invalid);
    let best = sound.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match (best, sound.len()) {
        (Some((row, _)), 1) => Fastest::Alone(row),
        (Some((row, _)), _) => Fastest::Of(row),
        (None, _) if invalid.is_empty() => Fastest::Unknown,
        (None, _) => Fastest::Invalid(invalid.len()),
    }
}
