/*!
Whether a run folder can teach a bench: the same models, clips, frames, prompts and sizes, and
logits of every object.

Checked before anything is measured, so that a wrong folder costs nothing. An error names the file,
what was found, what was expected, and what to type.
*/

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::clip_run::Span;
use super::plan::{BenchModel, BenchPlan};
use super::teacher::path_of;
use super::work::{Work, teacher_name};
use host::UsageError;
use report::compare::runs::RunFolder;
use vos::dataset::{Clip, Dataset};
use vos::files::{Configuration, FileHash, LOGITS, sha256_of_file};
use vos::logits::LogitsFile;
use vos::record::ObjectKey;
use vos::strides::Strides;

/// Pixels of the network's input to one logit.
const PIXELS_PER_LOGIT: usize = 4;

/// A run's facts about its teacher.
#[derive(Debug, Default)]
pub struct Teaching {
    /// For the configuration: what the teacher was, so that two runs by one teacher differ from
    /// two by two.
    pub teacher: Value,
    /// For the sidecar: `teacher/<file>` and its hash.
    pub inputs: BTreeMap<String, FileHash>,
}

/// Checks the teacher of `plan`, whose settings are `mine`.
///
/// # Errors
/// A [`UsageError`]: the folder is no run, or one of something else.
pub fn check(
    plan: &BenchPlan,
    dir: &Path,
    mine: &Configuration,
    split: &dyn Dataset,
    work: &Work,
) -> Result<Teaching> {
    let run = RunFolder::read(dir).map_err(|error| refused(dir, &format!("{error:#}"), SAVE))?;
    let mine = serde_json::to_value(mine)?;
    whole(plan, &run)?;
    settings(&run, &mine)?;
    let mut teaching = Teaching { teacher: told(&run), inputs: BTreeMap::new() };
    for (video, objects) in &work.clips {
        // A clip that cannot be opened costs its row later, whoever the teacher is.
        let (Ok(objects), Ok(clip)) = (objects, split.clip(video)) else { continue };
        same_files(&run, &mine, work, video)?;
        for object in objects {
            for model in &plan.models {
                let tag = &model.tag.text;
                let key =
                    ObjectKey { video: video.clone(), object: object.clone(), tag: tag.clone() };
                if let Some(hash) = object_of(plan, model, &run, &clip, &key)? {
                    teaching.inputs.insert(teacher_name(&key), hash);
                }
            }
        }
    }
    Ok(teaching)
}

/// The usual advice.
const SAVE: &str = "name a run folder that was written with --save-logits and the same \
                    --split-dir, --models, --imgsz, --max-clip-frames and --input-frame-stride";

fn refused(place: &Path, what: &str, advice: &str) -> anyhow::Error {
    UsageError(format!("--teacher {}: {what}; {advice}", place.display())).into()
}

/// It has logits, they are its own, and they are not to be overwritten.
fn whole(plan: &BenchPlan, run: &RunFolder) -> Result<()> {
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    if same(&run.path, &plan.out_dir) {
        let what = "the teacher's folder is the one to write to";
        bail!(refused(&run.path, what, "choose another --out-dir"));
    }
    if run.is_teacher_forced() {
        let what = "it was teacher-forced itself, so its memories are not from its own logits";
        bail!(refused(&run.path, what, SAVE));
    }
    if !run.has_logits() {
        let what =
            format!("found no logits, expected files in {}", run.path.join(LOGITS).display());
        let advice = "make that run again with --save-logits (segtrt bench, or pytorch/run.py)";
        bail!(refused(&run.path, &what, advice));
    }
    Ok(())
}

/// Prompts, geometry, strides, models.
fn settings(run: &RunFolder, mine: &Value) -> Result<()> {
    let sidecar = run.path.join("sidecar.json");
    let differs = |name: &str, found: &Value, expected: &Value| {
        let what = format!("{name}: found {found}, expected {expected}");
        refused(&sidecar, &what, SAVE)
    };
    for name in ["geometry", "prompt_policy"] {
        let (found, expected) = (run.configuration.get(name), mine.get(name));
        if let (Some(found), Some(expected)) = (found, expected)
            && found != expected
        {
            bail!(differs(name, found, expected));
        }
    }
    // A program that knows no strides feeds every frame.
    let stride = |of: Option<&Value>| -> usize {
        let read = of.and_then(|value| serde_json::from_value::<Strides>(value.clone()).ok());
        read.unwrap_or_default().input.max(1)
    };
    let (found, expected) = (stride(run.configuration.get("strides")), stride(mine.get("strides")));
    if found != expected {
        bail!(differs("--input-frame-stride", &json!(found), &json!(expected)));
    }
    for model in mine.get("models").and_then(Value::as_array).into_iter().flatten() {
        let Some(tag) = model.get("tag").and_then(Value::as_str) else { continue };
        let Some(entry) = run.model_entry(tag) else {
            bail!(differs("model and prompt", &json!(run.models()), &json!(tag)));
        };
        for name in ["imgsz", "weights"] {
            let said = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
            if let (Some(found), Some(expected)) = (said(entry.get(name)), said(model.get(name)))
                && found != expected
            {
                bail!(differs(&format!("{name} of {tag}"), &found, &expected));
            }
        }
    }
    Ok(())
}

fn same_files(run: &RunFolder, mine: &Value, work: &Work, video: &str) -> Result<()> {
    // The hash of the ground truth is over the objects that were to be run.
    let limits = [run.configuration.get("limit_objects"), mine.get("limit_objects")];
    let kinds = if limits[0] == limits[1] { &["frames", "masks"][..] } else { &["frames"] };
    for kind in kinds {
        let name = format!("{video}/{kind}");
        if let (Some(found), Some(hash)) = (run.inputs.get(&name), work.hashes.get(&name))
            && *found != hash.sha256
        {
            let what =
                format!("the {kind} of {video}: found sha256 {found}, expected {}", hash.sha256);
            bail!(refused(&run.path.join("sidecar.json"), &what, SAVE));
        }
    }
    Ok(())
}

/// The hash of an object's file; none where the teacher had as little to prompt with as this run
/// will have.
fn object_of(
    plan: &BenchPlan,
    model: &BenchModel,
    run: &RunFolder,
    clip: &Clip,
    key: &ObjectKey,
) -> Result<Option<FileHash>> {
    let name = format!("{} object {} by {}", key.video, key.object, key.tag);
    let path = path_of(&run.path, key);
    let row = run.rows.iter().find(|row| row.key() == *key);
    match row.map(|row| (row.status.as_str(), &row.reason)) {
        Some(("skipped", _)) => return Ok(None),
        Some(("ok", _)) => {}
        Some((status, reason)) => {
            bail!(refused(&run.path, &format!("{name} {status} there: {reason}"), SAVE))
        }
        None => bail!(refused(&run.path, &format!("found no row of {name}"), SAVE)),
    }
    let pass = run.passes.iter().find(|pass| pass.key == *key && !pass.frames.is_empty());
    let Some(pass) = pass else {
        bail!(refused(&run.path, &format!("its sidecar has no frames of {name}"), SAVE));
    };
    let found: Vec<usize> = pass.frames.iter().map(|frame| frame.frame).collect();
    let start = found.first().copied().unwrap_or_default();
    let span = Span::new(start, clip.frames.len(), plan.max_clip_frames, plan.strides.input);
    let expected: Vec<usize> = span.indices().collect();
    if found != expected {
        let what = format!(
            "the frames of {name}: found {}, expected {}",
            in_words(&found),
            in_words(&expected)
        );
        bail!(refused(&path, &what, SAVE));
    }
    let (frames, side) = LogitsFile::shape(&path)
        .map_err(|error| refused(&run.path, &format!("{error:#}"), SAVE))?;
    let wanted = model.imgsz / PIXELS_PER_LOGIT;
    if (frames, side) != (expected.len(), wanted) {
        let what = format!(
            "found {frames} frames of {side}x{side} logits, expected {} of {wanted}x{wanted} (a \
             quarter of --imgsz {})",
            expected.len(),
            model.imgsz
        );
        bail!(refused(&path, &what, SAVE));
    }
    sha256_of_file(&path).map(Some)
}

fn in_words(frames: &[usize]) -> String {
    match frames {
        [] => "none".to_owned(),
        [one] => format!("frame {one}"),
        [first, .., last] => {
            let step = frames.get(1).map_or(1, |second| second.saturating_sub(*first));
            let step = if step == 1 { String::new() } else { format!(" in steps of {step}") };
            format!("{} frames, {first} to {last}{step}", frames.len())
        }
    }
}

/// The teacher as the run's configuration has it: nothing of it depends on where its folder lies.
fn told(run: &RunFolder) -> Value {
    let first = run.rows.first();
    let of = |value: Option<&str>| value.map(str::to_owned);
    json!({
        "backend": of(first.map(|row| row.backend.as_str())),
        "device": of(first.map(|row| row.device.as_str())),
        "precision": of(first.map(|row| row.precision.as_str())),
        "configuration_sha256": run.configuration_sha256,
    })
}
