/*!
Whether two sides had the same work. Each difference is a sentence, and sides with one are not
compared.
*/

use serde_json::Value;

use super::side_results::SideResults;
use crate::compare::runs::RunFolder;
use vos::files::OTHER_DEVICES;
use vos::record::{Mode, ObjectKey};

/// Names in a list of objects that only one side has.
const LISTED: usize = 3;

/// Differences of the inputs, which forbid comparing masks.
pub(super) fn other_input(a: &SideResults<'_>, b: &SideResults<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let (left, right) = (a.conditions, b.conditions);
    for (name, x, y) in [
        ("imgsz", &left.imgsz, &right.imgsz),
        ("geometry", &left.geometry, &right.geometry),
        ("prompt_policy", &left.prompt_policy, &right.prompt_policy),
    ] {
        if x != y && !x.is_empty() && !y.is_empty() {
            found.push(format!("{name} is {x} in {} and {y} in {}", a.name, b.name));
        }
    }
    found.extend(other_fidelity(a, b));
    found.extend(other_objects(a, b));
    if found.is_empty() {
        found.extend(other_frames(a, b));
    }
    if let (Some(left), Some(right)) = (a.rounds.first(), b.rounds.first()) {
        let (left, right) = (left.folder, right.folder);
        found.extend(other_files(a, left, b, right));
        if let (Some(x), Some(y)) = (left.weights(a.model), right.weights(b.model))
            && x != y
        {
            found.push(format!("the weights are {x:?} in {} and {y:?} in {}", a.name, b.name));
        }
    }
    found
}

/// Differences of the timing, which forbid comparing speeds.
pub(super) fn other_timing(a: &SideResults<'_>, b: &SideResults<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let name = |c: &SideResults<'_>| match c.overlapping() {
        true => c.conditions.mode.clone(),
        false => Mode::Latency.name().to_owned(),
    };
    if name(a) != name(b) {
        found.push(format!(
            "{} ran in {} mode and {} in {} mode",
            a.name,
            name(a),
            b.name,
            name(b)
        ));
    }
    let (x, y) = (decodes_inside(a), decodes_inside(b));
    if x != y {
        let (inside, outside) = if x { (a, b) } else { (b, a) };
        found.push(format!(
            "{} decodes files inside the timed region and {} outside it",
            inside.name, outside.name
        ));
    }
    let (x, y) = (predecoded(a), predecoded(b));
    if x != y {
        let describe = |values: Option<&str>| match values {
            Some(values) => format!("takes predecoded {values} frames"),
            None => "resizes frames inside the timed region".to_owned(),
        };
        found.push(format!("{} {} and {} {}", a.name, describe(x), b.name, describe(y)));
    }
    let (x, y) = (encoded(a), encoded(b));
    if x != y {
        let describe = |stage: Option<&str>| match stage {
            Some(stage) => format!("encodes {} its frames' time", stage.replace(',', " ")),
            None => "encodes nothing".to_owned(),
        };
        found.push(format!("{} {} and {} {}", a.name, describe(x), b.name, describe(y)));
    }
    if let (Some(x), Some(y)) = (is_warmed_up(a), is_warmed_up(b))
        && x != y
    {
        let (cold, warm) = if y { (a, b) } else { (b, a) };
        found.push(format!("{} ran without warm-up passes and {} with them", cold.name, warm.name));
    }
    let (x, y) = (objects_together(a), objects_together(b));
    if x != y {
        found.push(format!(
            "{} tracked {x} objects together and {} tracked {y}; a frame's time covers all of them",
            a.name, b.name
        ));
    }
    let (x, y) = (other_devices(a), other_devices(b));
    if x != y {
        found.push(format!(
            "{} was measured with {x} other GPUs of its host in use, {} with {y}; they share its \
             processors",
            a.name, b.name
        ));
    }
    found
}

/// The parts of the fidelity string that determine the masks must agree. Resizing and hole filling
/// may differ: the masks show their effect.
fn other_fidelity(a: &SideResults<'_>, b: &SideResults<'_>) -> Option<String> {
    let deciding = |text: &str| {
        let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
        (parts.len() == 6).then(|| [0, 1, 2, 4].map(|part| parts[part].clone()))
    };
    let (x, y) = (&a.conditions.fidelity, &b.conditions.fidelity);
    let differs = deciding(x)? != deciding(y)?;
    differs.then(|| format!("fidelity is {x} in {} and {y} in {}", a.name, b.name))
}

fn other_objects(a: &SideResults<'_>, b: &SideResults<'_>) -> Vec<String> {
    let lacks = |a: &SideResults<'_>, b: &SideResults<'_>| {
        let there: Vec<&ObjectKey> = b.objects().collect();
        let only: Vec<String> = a
            .objects()
            .filter(|key| !there.contains(key))
            .map(|key| format!("{} object {}", key.video, key.object))
            .collect();
        let more = only.len().saturating_sub(LISTED);
        let listed = only[..only.len().min(LISTED)].join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!only.is_empty()).then(|| format!("only {} has {listed}{more}", a.name))
    };
    [lacks(a, b), lacks(b, a)].into_iter().flatten().collect()
}

fn other_frames(a: &SideResults<'_>, b: &SideResults<'_>) -> Option<String> {
    let frames = |c: &SideResults<'_>, key: &ObjectKey| -> Vec<usize> {
        let pass = c.first_pass(key);
        pass.map(|pass| pass.frames.iter().map(|frame| frame.frame).collect()).unwrap_or_default()
    };
    a.objects().find_map(|key| {
        let (x, y) = (frames(a, key), frames(b, key));
        let describe = |frames: &[usize]| match (frames.first(), frames.last()) {
            (Some(first), Some(last)) => format!("{} frames, {first} to {last}", frames.len()),
            _ => "no frames".to_owned(),
        };
        (x != y).then(|| {
            format!(
                "{} object {}: {} ran {}, {} ran {}",
                key.video,
                key.object,
                a.name,
                describe(&x),
                b.name,
                describe(&y)
            )
        })
    })
}

/// Files of the same name with different contents.
fn other_files(
    a: &SideResults<'_>,
    left: &RunFolder,
    b: &SideResults<'_>,
    right: &RunFolder,
) -> Option<String> {
    let videos: Vec<&str> = a.objects().map(|key| key.video.as_str()).collect();
    let differs = |(name, hash): (&String, &String)| {
        let (video, kind) = name.rsplit_once('/')?;
        // Mask files are hashed only for the requested objects, frames for the whole clip.
        let ours = kind == "frames" && videos.contains(&video);
        let other = right.inputs.get(name).filter(|_| ours)?;
        (other != hash)
            .then(|| format!("the frame files of {video} differ between {} and {}", a.name, b.name))
    };
    left.inputs.iter().find_map(differs)
}

fn decodes_inside(c: &SideResults<'_>) -> bool {
    let decode = c.rounds.first().and_then(|round| round.folder.configuration.get("decode"));
    decode.and_then(Value::as_str) == Some("inside")
}

fn predecoded<'a>(c: &SideResults<'a>) -> Option<&'a str> {
    c.rounds.first().and_then(|round| round.folder.configuration.get("predecoded"))?.as_str()
}

/// The encode stage, such as `overlay,inside`. Beside the frame's time it takes processors.
fn encoded<'a>(c: &SideResults<'a>) -> Option<&'a str> {
    c.rounds.first().and_then(|round| round.folder.configuration.get("encode"))?.as_str()
}

/// Number of other GPUs of the host that were measured at the same time.
fn other_devices(c: &SideResults<'_>) -> u64 {
    let configuration = c.rounds.first().map(|round| &round.folder.configuration);
    let count = configuration.and_then(|configuration| configuration.get(OTHER_DEVICES));
    count.and_then(Value::as_u64).unwrap_or_default()
}

/// Whether warm-up passes preceded the recorded one; none if the folder does not say.
fn is_warmed_up(c: &SideResults<'_>) -> Option<bool> {
    let runs = c.rounds.first()?.folder.configuration.get("warmup_runs")?.as_u64()?;
    Some(runs > 0)
}

fn objects_together(c: &SideResults<'_>) -> u64 {
    let gpu = c.rounds.first().and_then(|round| round.folder.configuration.get("gpu"));
    gpu.and_then(|gpu| gpu.get("objects_together")).and_then(Value::as_u64).unwrap_or(1)
}
