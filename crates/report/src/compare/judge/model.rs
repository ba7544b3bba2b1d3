/*!
Results of one model: every side against the reference, then the subject against every other side.
*/

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, Result};

use super::equality::{self, DriftCurve, Equality};
use super::evidence::{self, ObjectEvidence};
use super::original::{self, AsOriginal};
use super::result::{ModelComparison, Outcome, SideReport, Withheld};
use super::shown::{Shown, ShownFrame};
use super::side_results::{Admission, SideResults};
use super::{Request, flips, pairs, picture, same_work, speed, teacher, validity};
use crate::compare::runs::Side;
use vos::dataset::Clip;
use vos::mask::Mask;
use vos::model_tag::ModelTag;
use vos::prompt::{ObjectPrompt, Prompt, PromptKind, PromptPolicy};
use vos::record::{ObjectKey, Verdict};

/// Evidence and equality of a side; an error text if it cannot be compared.
type JudgedMasks = Result<(Vec<ObjectEvidence>, Equality), String>;

/// Judges `model` of all sides.
pub(super) fn judge(
    request: &Request<'_>,
    clips: &HashMap<String, Clip>,
    model: &str,
) -> Result<(ModelComparison, Vec<DriftCurve>)> {
    let set = request.set;
    let reference_side = set.reference_side().context("the reference is none of the sides")?;
    let reference = SideResults::of(reference_side, model).and_then(in_single);
    let admissions: Vec<Admission<'_>> =
        set.sides.iter().map(|side| admit(side, model, reference.as_ref())).collect();
    let admissions = refuse_other_timing(admissions);
    let there: Vec<&SideResults<'_>> =
        admissions.iter().filter_map(|side| side.as_ref().ok()).collect();
    let found = match &reference {
        Ok(reference) => evidence::gather(reference, &there, clips).into_iter(),
        Err(_) => Vec::new().into_iter(),
    };
    let found = found.zip(&there).map(|(found, side)| {
        let objects = found?;
        let equality = equality::judge(&objects, &side.conditions.precision);
        Ok((objects, equality))
    });
    let found: Vec<JudgedMasks> = found.collect();
    let equalities = found.iter().map(|found| found.as_ref().ok().map(|(_, equality)| equality));
    let mut originals = original::compare(&there, &equalities.collect::<Vec<_>>(), clips);
    let mut found = found.into_iter();
    let mut curves = Vec::new();
    let mut reports = Vec::new();
    for (side, admissions) in set.sides.iter().zip(&admissions) {
        reports.push(match (admissions, &reference) {
            (Ok(side_results), Ok(reference)) => {
                let evidence = found.next().unwrap_or_else(|| Err("not compared".to_owned()));
                let judged = Judged { request, clips, reference, side: side_results };
                judged.report(evidence, originals.remove(side_results.name), &mut curves)
            }
            (Err((outcome, why)), _) => absent(side, *outcome, why),
            (Ok(_), Err(why)) => {
                let why = format!("the reference {}: {why}", reference_side.name);
                absent(side, Outcome::Refused, &why)
            }
        });
    }
    let ratios = pairs::ratios(&admissions, &reports, set.interleaved);
    let any = reference.as_ref().ok().or_else(|| there.first().copied());
    let comparison = ModelComparison {
        model: model.to_owned(),
        imgsz: any.map(|side| side.conditions.imgsz.clone()).unwrap_or_default(),
        clips: any
            .map_or(0, |side| side.objects().map(|key| &key.video).collect::<BTreeSet<_>>().len()),
        objects: any.map_or(0, |side| side.objects().count()),
        weights: any.and_then(|side| weights(side)),
        sides: reports,
        ratios,
    };
    Ok((comparison, curves))
}

/// The reference must be fp32: the limits are distances of other precisions from it.
fn in_single(reference: SideResults<'_>) -> Result<SideResults<'_>, String> {
    match reference.conditions.precision.as_str() {
        "fp32" => Ok(reference),
        other => Err(format!("it ran in {other}, expected fp32")),
    }
}

fn weights(side: &SideResults<'_>) -> Option<String> {
    side.rounds.first()?.folder.weights(side.model).map(str::to_owned)
}

fn admit<'a>(
    side: &'a Side,
    model: &'a str,
    reference: Result<&SideResults<'_>, &String>,
) -> Admission<'a> {
    let missing = side.rounds_of(model).next().is_none();
    let outcome = if missing { Outcome::NotAvailable } else { Outcome::Refused };
    let side_results = SideResults::of(side, model).map_err(|why| (outcome, why))?;
    let differs = match reference {
        Ok(reference) if reference.name != side.name => {
            same_work::other_input(&side_results, reference)
        }
        _ => Vec::new(),
    };
    match differs.as_slice() {
        [] => Ok(side_results),
        differs => Err((Outcome::Refused, differs.join("; "))),
    }
}

/// Refuses sides that were timed under other conditions than the subject.
fn refuse_other_timing(admissions: Vec<Admission<'_>>) -> Vec<Admission<'_>> {
    let why: Vec<Option<String>> = admissions
        .iter()
        .map(|side| {
            let (Some(Ok(subject)), Ok(side)) = (admissions.first(), side) else { return None };
            let differs = same_work::other_timing(subject, side);
            (!differs.is_empty()).then(|| differs.join("; "))
        })
        .collect();
    admissions
        .into_iter()
        .zip(why)
        .map(|(side, why)| match why {
            Some(why) => Err((Outcome::Refused, why)),
            None => side,
        })
        .collect()
}

fn absent(side: &Side, outcome: Outcome, why: &str) -> SideReport {
    SideReport {
        side: side.name.clone(),
        outcome,
        why: Some(why.to_owned()),
        precision: String::new(),
        backend: String::new(),
        device: String::new(),
        rounds: 0,
        stopped_early: None,
        folders: Vec::new(),
        speed: None,
        withheld: None,
        equality: None,
        as_original: None,
        teacher_forced: None,
        objectness_flips: None,
        chosen_mask_flips: None,
        verdict: Verdict::default(),
    }
}

type CountFlips = fn(&SideResults<'_>, &SideResults<'_>, flips::Agreement<'_>) -> flips::Flips;

/// A side with all inputs of its report.
struct Judged<'a> {
    request: &'a Request<'a>,
    clips: &'a HashMap<String, Clip>,
    reference: &'a SideResults<'a>,
    side: &'a SideResults<'a>,
}

impl Judged<'_> {
    fn report(
        &self,
        found: JudgedMasks,
        as_original: Option<AsOriginal>,
        curves: &mut Vec<DriftCurve>,
    ) -> SideReport {
        let (side, reference) = (self.side, self.reference);
        let is_reference = side.name == reference.name;
        let mut equality = None;
        let flips = |count: CountFlips| {
            let masks = found.as_ref().ok().map(|(objects, _)| objects.as_slice());
            (!is_reference).then(|| count(reference, side, masks))
        };
        let (objectness_flips, chosen_mask_flips) =
            (flips(flips::objectness), flips(flips::chosen_mask));
        let (outcome, why) = match found {
            Err(why) => (Outcome::Refused, Some(why)),
            Ok((objects, mut found)) => {
                if !is_reference {
                    curves.push(equality::drift(side.model, side.name, equality::FREE, &objects));
                    self.draw(&mut found);
                }
                let outcome = match outcome(&found, is_reference) {
                    // If the reference's masks prove nothing, the original's prove nothing either.
                    Outcome::Mismatch if found.proves && is_as_original(as_original.as_ref()) => {
                        Outcome::AsOriginal
                    }
                    outcome => outcome,
                };
                let why = (!found.faults.is_empty()).then(|| found.faults.join("; "));
                equality = Some(found);
                (outcome, why)
            }
        };
        let speed = speed::speed(side);
        let verdict =
            speed.as_ref().map(|speed| validity::of_side(side, speed)).unwrap_or_default();
        let (shown, withheld) = match (outcome.is_proven(), speed) {
            (true, speed) => (speed, None),
            (false, Some(speed)) => {
                let why = why.clone().unwrap_or_else(|| outcome.as_str().to_owned());
                (None, Some(Withheld { why, not_to_be_published: speed }))
            }
            (false, None) => (None, None),
        };
        let row = side.conditions;
        let folder = |round: &super::side_results::ModelRound<'_>| {
            let path = &round.folder.path;
            let below = path.strip_prefix(self.request.out_dir).unwrap_or(path);
            below.display().to_string()
        };
        SideReport {
            side: side.name.to_owned(),
            outcome,
            why,
            precision: row.precision.clone(),
            backend: row.backend.clone(),
            device: row.device.clone(),
            rounds: side.rounds.len(),
            stopped_early: side.stopped_early(),
            folders: side.rounds.iter().map(folder).collect(),
            speed: shown,
            withheld,
            equality,
            as_original,
            teacher_forced: (!is_reference)
                .then(|| teacher::of_side(self.request, self.clips, reference, side, curves))
                .flatten(),
            objectness_flips,
            chosen_mask_flips,
            verdict,
        }
    }

    /// Draws the worst frame in full size and all shown frames small. A failure is logged and
    /// affects nothing else.
    fn draw(&self, found: &mut Equality) {
        let Some(stem) = self.picture_stem() else { return };
        let side = self.side.name;
        if let Some(worst) = &mut found.worst {
            let name = format!("worst/{stem}.png");
            let written = self.masks(&worst.video, &worst.object, worst.frame, worst.round);
            let path = self.request.out_dir.join(&name);
            let written = written.and_then(|(clip, reference, side)| {
                picture::write(&path, clip, worst.frame, &reference, &side)
            });
            match written {
                Ok(()) => worst.picture = Some(name),
                Err(error) => log::warn!("no picture of the worst frame of {side}: {error:#}"),
            }
        }
        for shown in &mut found.shown {
            let name = format!("frames/{stem}__{}.jpg", shown.kind.as_str());
            match self.draw_small(shown, &name) {
                Ok(()) => shown.picture = Some(name),
                Err(error) => {
                    let kind = shown.kind.as_str();
                    log::warn!("no picture of the {kind} frame of {side}: {error:#}");
                }
            }
        }
    }

    fn draw_small(&self, shown: &ShownFrame, name: &str) -> Result<()> {
        let (clip, reference, side) =
            self.masks(&shown.video, &shown.object, shown.frame, shown.round)?;
        let prompt = (shown.kind == Shown::Prompt).then(|| self.prompt(clip, shown)).flatten();
        let path = self.request.out_dir.join(name);
        picture::write_small(&path, clip, shown.frame, [&reference, &side], prompt.as_ref())
    }

    /// The prompt of the frame; none if the tag or the policy is unknown.
    fn prompt(&self, clip: &Clip, shown: &ShownFrame) -> Option<Prompt> {
        let kind = ModelTag::parse(self.side.model, PromptKind::Points)?.prompt;
        let policy = match self.side.conditions.prompt_policy.as_str() {
            name if name == PromptPolicy::Predecessor.name() => PromptPolicy::Predecessor,
            name if name == PromptPolicy::Interior.name() => PromptPolicy::Interior,
            _ => return None,
        };
        let object = clip.objects.iter().find(|object| object.name == shown.object)?;
        let size = clip.frame_size().ok()?;
        let prompt = ObjectPrompt::new(object, clip.frames.len(), size, kind, policy).ok()?;
        (prompt.index == shown.frame).then_some(prompt.prompt)
    }

    /// The beginning of file names that no other side and model of the comparison has.
    fn picture_stem(&self) -> Option<String> {
        let set = self.request.set;
        let models = set.models();
        let of = |model| set.sides.iter().map(move |side| (model, side.name.as_str()));
        let sides: Vec<(&str, &str)> = models.iter().map(String::as_str).flat_map(of).collect();
        let own = (self.side.model, self.side.name);
        let stem = sides.iter().zip(picture::file_stems(&sides)).find(|(side, _)| **side == own);
        stem.map(|(_, stem)| stem)
    }

    /// The clip, and the masks of the reference and of the side in `round`, from 1.
    fn masks(
        &self,
        video: &str,
        object: &str,
        frame: usize,
        round: usize,
    ) -> Result<(&Clip, Mask, Mask)> {
        let key = ObjectKey {
            video: video.to_owned(),
            object: object.to_owned(),
            tag: self.side.model.to_owned(),
        };
        let mask = |side: &SideResults<'_>, round: usize| -> Result<Mask> {
            let round = side.rounds.get(round).context("no such round")?;
            let masks = round.folder.masks(&key)?;
            let entry = masks.frames.iter().find(|entry| entry.frame == frame);
            entry.context("no such mask")?.decode()
        };
        let clip = self.clips.get(video).context("no such clip")?;
        Ok((clip, mask(self.reference, 0)?, mask(self.side, round - 1)?))
    }
}

fn is_as_original(found: Option<&AsOriginal>) -> bool {
    found.is_some_and(|found| found.equality.same)
}

pub(super) fn outcome(found: &Equality, is_reference: bool) -> Outcome {
    match (found.same, found.proves, is_reference) {
        (true, _, true) => Outcome::Reference,
        (true, _, false) => Outcome::Same,
        // Masks that differ are a mismatch, whether or not equal ones would prove something.
        (false, false, _) if found.faults.len() == 1 => Outcome::ProvesNothing,
        (false, ..) => Outcome::Mismatch,
    }
}
