/*!
Reads and compares the masks of all sides of one model, object by object, objects in parallel.

Only numbers are kept: the masks of one object are freed before the next one is read.
*/

use std::collections::HashMap;

use anyhow::{Context, Result};
use rayon::prelude::*;

use super::agreement::{self, FrameAgreement};
use super::side_results::SideResults;
use crate::compare::runs::MaskFile;
use vos::dataset::{Clip, ObjectTruth};
use vos::record::{ObjectKey, Quality};

/// Mask agreement and scores of one object.
#[derive(Clone, Debug)]
pub(super) struct ObjectEvidence {
    /// The object.
    pub key: ObjectKey,
    /// Every frame against the reference.
    pub frames: Vec<FrameAgreement>,
    /// Scores against the ground truth, first round.
    pub quality: Option<Quality>,
    /// The reference's scores.
    pub reference: Option<Quality>,
    /// All rounds gave identical masks.
    pub rounds_identical: bool,
}

/// Evidence of one side for each object; an error text if the sides cannot be compared.
pub(super) type SideEvidence = Result<Vec<ObjectEvidence>, String>;

/// Compares `others` with `reference`; the results are in the order of `others`.
pub(super) fn gather(
    reference: &SideResults<'_>,
    others: &[&SideResults<'_>],
    clips: &HashMap<String, Clip>,
) -> Vec<SideEvidence> {
    let keys: Vec<&ObjectKey> = reference.objects().collect();
    let rows: Vec<Result<Vec<Result<ObjectEvidence>>>> = keys
        .par_iter()
        .map(|key| object(reference, others, clips, key).with_context(|| label(reference, key)))
        .collect();
    (0..others.len())
        .map(|side| {
            let of_side = rows.iter().map(|row| match row {
                Ok(found) => match &found[side] {
                    Ok(evidence) => Ok(evidence.clone()),
                    Err(error) => Err(format!("{error:#}")),
                },
                Err(error) => Err(format!("{error:#}")),
            });
            of_side.collect()
        })
        .collect()
}

fn label(side: &SideResults<'_>, key: &ObjectKey) -> String {
    format!("{}, {} object {}", side.name, key.video, key.object)
}

fn object(
    reference: &SideResults<'_>,
    others: &[&SideResults<'_>],
    clips: &HashMap<String, Clip>,
    key: &ObjectKey,
) -> Result<Vec<Result<ObjectEvidence>>> {
    let truth = truth(clips, key)?;
    let expected = rounds(reference, key, 1)?;
    let expected = expected.first().context("no round")?;
    let reference_score = agreement::score(truth, expected)?;
    let side = |side: &&SideResults<'_>| -> Result<ObjectEvidence> {
        let masks = rounds(side, key, side.rounds.len())?;
        let first = masks.first().context("no round")?;
        Ok(ObjectEvidence {
            key: key.clone(),
            frames: agreement::worst_of_rounds(expected, &masks)?,
            quality: agreement::score(truth, first)?,
            reference: reference_score,
            rounds_identical: masks.iter().all(|round| round == first),
        })
    };
    Ok(others.iter().map(|s| side(s).with_context(|| label(s, key))).collect())
}

fn truth<'a>(clips: &'a HashMap<String, Clip>, key: &ObjectKey) -> Result<&'a ObjectTruth> {
    let clip = clips.get(&key.video).context("--split-dir has no such video")?;
    let found = clip.objects.iter().find(|object| object.name == key.object);
    found.context("--split-dir has no such object in the video")
}

/// The masks of the first `count` rounds, each with a mask for every frame.
fn rounds(side: &SideResults<'_>, key: &ObjectKey, count: usize) -> Result<Vec<MaskFile>> {
    let pass = side.first_pass(key).context("no pass")?;
    let read = |round: &super::side_results::ModelRound<'_>| {
        let masks = round.folder.masks(key)?;
        let path = round.folder.path.display();
        agreement::complete(&masks, pass).with_context(|| path.to_string())?;
        Ok(masks)
    };
    side.rounds.iter().take(count).map(read).collect()
}
