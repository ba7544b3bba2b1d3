/*!
Results of a sweep: each combination against the reference of its size, then the fastest, the
slowest stage of each and the gain of each step.
*/

mod gain;
mod stages;

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::bootstrap::{self, Rounds};
use super::equality::{self, Equality};
use super::result::{Outcome, Withheld};
use super::side_results::SideResults;
use super::speed::{self, Speed};
use super::{evidence, same_work, validity};
use crate::compare::runs::{Set, Side};
use crate::compare::sweep::{Axis, Combination, Coordinate, Setting, references};
pub use gain::Gain;
pub use stages::StageTime;
use vos::dataset::Dataset;
use vos::record::{Judgement, Verdict};

/// One combination on one model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepRow {
    /// Model tag.
    pub model: String,
    /// Name of the combination.
    pub combination: String,
    /// The swept settings with their values.
    pub point: Vec<Coordinate>,
    /// Precision of the rows.
    pub precision: String,
    /// Side of the network input, pixels.
    pub imgsz: String,
    /// Objects tracked together, as requested.
    pub objects_together: usize,
    /// Frames overlap.
    pub overlapping: bool,
    /// The combination with which its masks are compared.
    pub reference: String,
    /// Result of the comparison.
    pub outcome: Outcome,
    /// The reason, if its masks are not proven.
    pub why: Option<String>,
    /// The number of rounds, the expected number and the reason for the difference; none if no
    /// round is missing.
    pub stopped_early: Option<String>,
    /// Its run folders.
    pub folders: Vec<String>,
    /// Its speed; none for a mismatch.
    pub speed: Option<Speed>,
    /// Frames of single objects over the time of all objects.
    pub object_fps: Option<f64>,
    /// 95 % interval of it; none for one round of one clip.
    pub object_fps_interval: Option<bootstrap::Interval>,
    /// `object_fps` over that of the point before.
    pub gain_to_previous: Option<Gain>,
    /// `object_fps` over that of the first point.
    pub gain_to_first: Option<Gain>,
    /// Times of the stages.
    pub stages: Vec<StageTime>,
    /// The stage with the longest mean time for each frame, and that time, ms.
    pub slowest_stage: Option<(String, f64)>,
    /// The measured speed of a row without proven masks.
    pub withheld: Option<Withheld<Speed>>,
    /// The masks against the reference's.
    pub equality: Option<Equality>,
    /// Validity of its speed.
    pub verdict: Verdict,
    /// Its Nsight Systems report, below the output folder.
    pub nsys_report: Option<String>,
    /// Why it has none, if one was requested.
    pub no_nsys_report: Option<String>,
}

/// All rows of a sweep, as `sweep.json` has them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepResult {
    /// Version of the file.
    pub format: String,
    /// Version of the program.
    pub segtrt: String,
    /// The command line.
    pub command: String,
    /// UTC dates of the measurements.
    pub measured_on: Vec<String>,
    /// The swept settings.
    pub axes: Vec<Axis>,
    /// A row for each model and combination.
    pub rows: Vec<SweepRow>,
}

/// [`SweepResult::format`] of this version.
pub const SWEEP_FORMAT: &str = "segtrt sweep result 2";

impl SweepResult {
    /// The models in order, each with its rows.
    pub fn models(&self) -> Vec<(&str, Vec<&SweepRow>)> {
        let mut models: Vec<(&str, Vec<&SweepRow>)> = Vec::new();
        for row in &self.rows {
            match models.iter_mut().find(|(model, _)| *model == row.model) {
                Some((_, rows)) => rows.push(row),
                None => models.push((&row.model, vec![row])),
            }
        }
        models
    }
}

/// Judges every combination of every model. Paths of runs are relative to `out_dir`.
///
/// # Errors
/// The split differs from the measured one.
pub fn sweep(
    set: &Set,
    split: &dyn Dataset,
    (axes, combinations): (&[Axis], &[Combination]),
    out_dir: &Path,
) -> Result<Vec<SweepRow>> {
    let clips = super::clips(set, split)?;
    let mut rows = Vec::new();
    for model in set.models() {
        let sides: Vec<Result<SideResults<'_>, String>> =
            set.sides.iter().map(|side| SideResults::of(side, &model)).collect();
        let usable: Vec<bool> = sides.iter().map(Result::is_ok).collect();
        let references = references(combinations, &usable);
        let (mut own, mut cells) = (Vec::new(), Vec::new());
        for (at, (combination, side)) in combinations.iter().zip(&set.sides).enumerate() {
            let mut row = empty(&model, combination, side, &set.sides[references[at]].name);
            let mut timed = None;
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
                    timed = row.fill(side, found.unwrap_or_else(|| Err("not compared".to_owned())));
                    let below = |path: &Path| {
                        path.strip_prefix(out_dir).unwrap_or(path).display().to_string()
                    };
                    row.folders =
                        side.rounds.iter().map(|round| below(&round.folder.path)).collect();
                }
            }
            own.push(row);
            cells.push(timed);
        }
        gain::fill(axes, &mut own, &cells);
        rows.append(&mut own);
    }
    Ok(rows)
}

fn empty(model: &str, combination: &Combination, side: &Side, reference: &str) -> SweepRow {
    SweepRow {
        model: model.to_owned(),
        combination: side.name.clone(),
        point: combination.point.clone(),
        precision: combination.precision.clone(),
        imgsz: combination.value(Setting::Imgsz).unwrap_or_default().to_owned(),
        objects_together: combination.number(Setting::Objects).unwrap_or(1),
        reference: reference.to_owned(),
        outcome: Outcome::Refused,
        ..SweepRow::default()
    }
}

impl SweepRow {
    /// Whether its masks are proven and no round is missing.
    pub fn is_sound(&self) -> bool {
        self.outcome.is_proven() && self.stopped_early.is_none()
    }

    /// Fills in a side's results; the frames and times of its speed, if it has one to show.
    fn fill(&mut self, side: &SideResults<'_>, evidence: evidence::SideEvidence) -> Option<Rounds> {
        self.overlapping = side.overlapping();
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
        let speed = speed::speed(side)?;
        self.verdict = validity::of_side(side, &speed);
        if !self.outcome.is_proven() {
            let why = self.why.clone().unwrap_or_else(|| self.outcome.as_str().to_owned());
            self.withheld = Some(Withheld { why, not_to_be_published: speed });
            return None;
        }
        let cells = gain::object_cells(side, self.objects_together);
        self.object_fps = bootstrap::rate(&cells);
        self.object_fps_interval = bootstrap::fps_interval(&cells);
        self.stages = stages::stages(side);
        self.slowest_stage = stages::slowest(&self.stages);
        self.speed = Some(speed);
        Some(cells)
    }
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
