/*!
From run folders to results, in this order: same work, same masks, then speeds.

Nothing is measured here. [`same_work`] refuses different inputs, [`equality`] proves that the masks
are the same, [`validity`] judges the times. Only a side with proven masks shows a speed.
*/

mod agreement;
mod bootstrap;
mod bound;
mod clocks;
mod equality;
mod evidence;
mod flips;
mod model;
mod original;
mod pairs;
mod picture;
mod result;
mod same_work;
mod shown;
mod side_results;
mod speed;
mod sweep;
mod teacher;
mod validity;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::json;

pub use bootstrap::{Cell, Interval, Rounds, interval, ratio};
pub use equality::{DriftCurve, Equality, Scores, Worst};
pub use flips::{Flip, Flips};
pub use original::AsOriginal;
pub use result::{
    Comparison, Factor, ModelComparison, Outcome, Ratio, SideFacts, SideReport, TeacherForced,
    Withheld,
};
pub use shown::{Shown, ShownFrame};
pub use speed::Speed;
pub use sweep::{Fastest, Gain, SWEEP_FORMAT, StageTime, SweepResult, SweepRow, fastest, sweep};

use super::runs::{RunFolder, Set, Side};
use super::thresholds::{CONFIDENCE, EQUALITY, PROOF, REPLICATES, SEED, SPEED};
use host::UsageError;
use vos::dataset::{Clip, Dataset};
use vos::files::sha256_of_files;
use vos::verdict::THRESHOLDS;

/// What to judge, and the output folder.
pub struct Request<'a> {
    /// The sides.
    pub set: &'a Set,
    /// The split of the measurement.
    pub split: &'a dyn Dataset,
    /// The output folder, for pictures.
    pub out_dir: &'a Path,
    /// The command line of the comparison.
    pub command: String,
}

/// Judges every model.
///
/// # Errors
/// The split differs from the measured one, a clip of it cannot be opened, or no two sides can be
/// compared.
pub fn judge(request: &Request<'_>) -> Result<Comparison> {
    let set = request.set;
    let reference = set.reference_side().context("the reference is none of the sides")?;
    let contestants = set.sides.iter().filter(|side| side.name != reference.name).count();
    let Some(subject) = set.sides.first().filter(|_| contestants > 0) else {
        let text = "a comparison needs two sides; name two folders, or one folder and \
                    --reference-run FOLDER";
        return Err(UsageError(text.to_owned()).into());
    };
    let clips = clips(set, request.split)?;
    let mut models = Vec::new();
    let mut drift_curves = Vec::new();
    for model in set.models() {
        let (compared, curves) = model::judge(request, &clips, &model)?;
        models.push(compared);
        drift_curves.extend(curves);
    }
    let comparison = Comparison {
        format: "segtrt comparison result 1".to_owned(),
        segtrt: env!("CARGO_PKG_VERSION").to_owned(),
        measured_on: set.dates.clone(),
        command: request.command.clone(),
        split_dir: request.split.root().display().to_string(),
        subject: subject.name.clone(),
        reference: set.reference.name().to_owned(),
        interleaved: set.interleaved,
        thresholds: json!({
            "equality": EQUALITY, "proof": PROOF, "speed": SPEED,
            "passes": {
                "steady_from": THRESHOLDS.steady_from, "steady_frames": THRESHOLDS.steady_frames,
                "steady_batches": THRESHOLDS.steady_batches,
                "spread": THRESHOLDS.spread, "drift": THRESHOLDS.drift, "clock_drift": THRESHOLDS.clock_drift,
                "explained": THRESHOLDS.explained,
                "sustained_seconds": THRESHOLDS.sustained_seconds,
                "sustained_drift": THRESHOLDS.sustained_drift,
                "sustained_busy": THRESHOLDS.sustained_busy,
                "sustained_readings": THRESHOLDS.sustained_readings,
            },
            "bootstrap": {"replicates": REPLICATES, "confidence": CONFIDENCE, "seed": SEED},
        }),
        models,
        drift_curves,
        sides: set.sides.iter().chain([reference]).filter_map(facts).collect(),
    };
    comparable(&comparison)?;
    Ok(comparison)
}

/// Fails with every reason if no side could be compared with the reference.
fn comparable(comparison: &Comparison) -> Result<()> {
    let sides = || comparison.models.iter().flat_map(|m| m.sides.iter().map(move |s| (m, s)));
    let compared =
        |outcome| !matches!(outcome, Outcome::Reference | Outcome::Refused | Outcome::NotAvailable);
    if sides().any(|(_, side)| compared(side.outcome)) {
        return Ok(());
    }
    let why = |side: &'_ SideReport| side.why.clone().unwrap_or_else(|| "no reason".to_owned());
    let named = || sides().filter(|(_, side)| side.outcome != Outcome::Reference);
    let missing: Vec<String> = named()
        .filter(|(_, side)| side.outcome == Outcome::NotAvailable)
        .map(|(_, side)| why(side))
        .collect();
    // Sides that were refused for want of the reference say the reference's reason again.
    let again = |side: &SideReport| {
        side.outcome == Outcome::Refused && missing.iter().any(|known| why(side).ends_with(known))
    };
    let reasons: BTreeSet<String> = named()
        .filter(|(_, side)| !again(side))
        .map(|(model, side)| {
            format!("{} {}: {}: {}", model.model, side.side, side.outcome.as_str(), why(side))
        })
        .collect();
    bail!("nothing can be compared: {}", Vec::from_iter(reasons).join("; "))
}

fn facts(side: &Side) -> Option<(String, SideFacts)> {
    let RunFolder { environment, configuration, timed_region, .. } = &side.rounds.first()?.folder;
    let facts = SideFacts {
        environment: environment.clone(),
        configuration: configuration.clone(),
        timed_region: timed_region.clone(),
    };
    Some((side.name.clone(), facts))
}

/// The clips of all sides; their frames must be those of the measurement.
fn clips(set: &Set, split: &dyn Dataset) -> Result<HashMap<String, Clip>> {
    let sides = || set.sides.iter().chain(set.reference_side());
    let folders = || sides().flat_map(|side| &side.rounds).map(|round| &round.folder);
    let rows = folders().flat_map(|folder| folder.rows.iter().map(move |row| (row, folder)));
    let ok = rows.filter(|(row, _)| row.status == "ok");
    let videos: BTreeMap<&str, &RunFolder> =
        ok.map(|(row, folder)| (row.video.as_str(), folder)).collect();
    let mut clips = HashMap::new();
    for (video, folder) in videos {
        let clip = split.clip(video).with_context(|| {
            format!(
                "{video} was measured in {} and --split-dir {} cannot give it",
                folder.path.display(),
                split.root().display()
            )
        })?;
        let name = format!("{video}/frames");
        // Hashing every frame of a large split takes a while, so it is done only if a folder has a
        // hash.
        let known = folders().any(|folder| folder.inputs.contains_key(&name));
        let hash = if known { sha256_of_files(clip.frames.files())?.sha256 } else { String::new() };
        for folder in folders() {
            if folder.inputs.get(&name).is_some_and(|known| *known != hash) {
                bail!(
                    "the frames of {video} in {} are others than those that {} was measured on; \
                     name the split that it was measured on with --split-dir",
                    split.root().display(),
                    folder.path.display()
                );
            }
        }
        clips.insert(video.to_owned(), clip);
    }
    Ok(clips)
}
