/*!
Groups rows of one model under one set of conditions on one platform.

Speed, memory and sensors are means over the objects with a valid speed; INVALID rows are counted
and named, and excluded. If every row is INVALID, the numbers are theirs and the group is marked: it
is shown and never compared. Quality is over all measured rows, because a verdict concerns only
speed.
*/

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::conditions::{Conditions, apart, place, settings};
use super::group::{Counts, Group};
use super::platforms::PlaceKind;
use super::stat::{Stat, stat};
use super::{bandwidth, clip_sizes, frames, memory, reasons, stages};
use crate::input::{RecordedPass, ResultRow, RunSource, TEXT_COLUMNS, Validity};
use vos::record::{Mode, Verdict};
use vos::verdict::POWER_LIMITED;

/// Numeric columns that are not measurements.
const NO_MEASUREMENTS: [&str; 12] = [
    "run",
    "imgsz",
    "processed_end_frame",
    "input_H",
    "input_W",
    "infer_H",
    "infer_W",
    "H",
    "W",
    "input_frame_stride",
    "annotation_stride_frames",
    "nsight_report",
];
/// Columns of quality, which a verdict does not concern.
const QUALITY: [&str; 5] = ["J", "F", "JandF", "JandF_proxy", "scored_frames"];

/// The properties that rows of a group share.
type Key = (String, Option<String>, String, Conditions);

/// A group's rows and passes while they are collected.
#[derive(Default)]
struct Members<'a> {
    rows: Vec<&'a ResultRow>,
    passes: Vec<(&'a RecordedPass, Validity)>,
    sources: Vec<&'a RunSource>,
    place: PlaceKind,
}

/// All groups in order of first appearance, and for each row of each source the index of its group.
pub fn groups(sources: &[RunSource]) -> (Vec<Group>, Vec<Vec<usize>>) {
    let mut keys: Vec<Key> = Vec::new();
    let mut index: HashMap<Key, usize> = HashMap::new();
    let mut members: Vec<Members<'_>> = Vec::new();
    let mut places = Vec::new();
    for source in sources {
        let settings = settings(source);
        let mut of_object = HashMap::new();
        let mut of_rows = Vec::with_capacity(source.rows.len());
        for row in &source.rows {
            let (platform, hostname, kind) = place(source, row);
            let key = (platform, hostname, row.key().2.to_owned(), Conditions::of(row, &settings));
            let at = *index.entry(key.clone()).or_insert_with(|| {
                keys.push(key);
                members.push(Members::default());
                members.len() - 1
            });
            members[at].rows.push(row);
            members[at].place = kind;
            if !members[at].sources.iter().any(|known| std::ptr::eq(*known, source)) {
                members[at].sources.push(source);
            }
            // A profile has a row for each pass, a summary one for all passes of an object.
            of_object
                .insert((row.key(), row.number("run").map(|run| run as u64)), (at, row.validity()));
            of_rows.push(at);
        }
        for pass in &source.passes {
            let key = (pass.video.as_str(), pass.object.as_str(), pass.model.as_str());
            let found =
                of_object.get(&(key, Some(pass.run))).or_else(|| of_object.get(&(key, None)));
            if let Some((at, validity)) = found {
                members[*at].passes.push((pass, *validity));
            }
        }
        places.push(of_rows);
    }
    let names = names(&keys);
    let groups = keys.into_iter().zip(members).zip(names);
    (
        groups
            .map(|((key, members), (name, platform))| group(key, name, platform, &members))
            .collect(),
        places,
    )
}

/// Name and platform of each group as text.
fn names(keys: &[Key]) -> Vec<(String, String)> {
    let mut names = vec![(String::new(), String::new()); keys.len()];
    for (at, (platform, host, model, _)) in keys.iter().enumerate() {
        let siblings: Vec<usize> = (0..keys.len())
            .filter(|other| {
                (&keys[*other].0, &keys[*other].1, &keys[*other].2) == (platform, host, model)
            })
            .collect();
        let sets: Vec<&Conditions> = siblings.iter().map(|other| &keys[*other].3).collect();
        let own = siblings.iter().position(|other| *other == at).unwrap_or(0);
        let mut name = vec![model.clone()];
        name.extend(apart(&sets).swap_remove(own));
        let several = keys.iter().any(|other| other.0 == *platform && other.1 != *host);
        let place = match host {
            Some(host) if several => format!("{platform} ({host})"),
            _ => platform.clone(),
        };
        names[at] = (name.join(" · "), place);
    }
    names
}

fn group(key: Key, name: String, platform: String, members: &Members<'_>) -> Group {
    let (_, hostname, model, conditions) = key;
    let rows = &members.rows;
    let mut counts = count(rows);
    counts.objects = objects_of(rows).len();
    let invalid = counts.measured > 0 && counts.invalid == counts.measured;
    let used = |validity: Validity| validity.counts() || (invalid && validity == Validity::Invalid);
    let valid: Vec<&ResultRow> = rows.iter().copied().filter(|row| used(row.validity())).collect();
    let measured: Vec<&ResultRow> =
        rows.iter().copied().filter(|row| row.validity() != Validity::Unmeasured).collect();
    let every: Vec<&RecordedPass> = members.passes.iter().map(|(pass, _)| *pass).collect();
    let passes: Vec<&RecordedPass> = members
        .passes
        .iter()
        .filter(|(_, validity)| used(*validity))
        .map(|(pass, _)| *pass)
        .collect();
    let overlapping = conditions.get("mode").is_some_and(Mode::overlaps);
    let mut observed_max: BTreeMap<String, f64> = BTreeMap::new();
    for (name, value) in passes.iter().flat_map(|pass| &pass.observed) {
        if let Some(value) = value.as_f64() {
            let most = observed_max.entry(name.clone()).or_insert(value);
            *most = most.max(value);
        }
    }
    let words: Vec<&str> = rows.iter().filter_map(|row| row.text("throttle")).collect();
    let mut throttle = BTreeMap::new();
    for word in words.iter().flat_map(|words| words.split('+')).filter(|word| *word != "none") {
        *throttle.entry(word.to_owned()).or_insert(0) += 1;
    }
    let mut weights = BTreeSet::new();
    for source in &members.sources {
        weights.extend(weights_of(source, &model));
    }
    let objects = objects_of(&measured);
    counts.objects_measured = objects.len();
    let mut stats = stats_of(&valid, &measured);
    for source in &members.sources {
        add_compared(&mut stats, source, &model);
    }
    let gpu_facts = gpu_facts(&members.sources);
    Group {
        device_memory: memory::of(&gpu_facts, conditions.get("device"), &stats, &observed_max),
        frames: frames::of(&passes, overlapping),
        stages: stages::of(&passes, &valid, overlapping, conditions.encode_beside()),
        by_size: clip_sizes::of(rows),
        objects,
        weights: (!weights.is_empty()).then(|| weights.into_iter().collect::<Vec<_>>().join("; ")),
        predecessor: members.sources.iter().all(|source| source.is_predecessors()),
        reasons: reasons::texts(rows),
        codes: reasons::codes(rows, &every),
        place: members.place,
        side: members.place == PlaceKind::Side,
        series: 0,
        bandwidth: bandwidth::of(&valid, &gpu_facts),
        gpu_facts,
        name,
        model,
        platform,
        hostname,
        conditions,
        counts,
        invalid,
        stats,
        observed_max,
        throttle,
        power_limited: rows.iter().filter(|row| is_power_limited(row)).count(),
        throttle_rows: words.len(),
    }
}

/// Whether the power limit held a row's clocks down, and its speed counts at this limit.
fn is_power_limited(row: &ResultRow) -> bool {
    let has = |code| row.text("verdict_reason").is_some_and(|text| Verdict::reason_has(text, code));
    row.validity() == Validity::Valid && has(POWER_LIMITED)
}

/// Clips and objects of the rows.
fn objects_of(rows: &[&ResultRow]) -> BTreeSet<(String, String)> {
    rows.iter().map(|row| (row.key().0.to_owned(), row.key().1.to_owned())).collect()
}

fn count(rows: &[&ResultRow]) -> Counts {
    let mut counts = Counts { rows: rows.len(), ..Counts::default() };
    for row in rows {
        let validity = row.validity();
        counts.measured += usize::from(validity != Validity::Unmeasured);
        match validity {
            Validity::Valid => counts.valid += 1,
            Validity::Invalid => counts.invalid += 1,
            Validity::Unjudged => counts.unjudged += 1,
            Validity::NoVerdict => counts.no_verdict += 1,
            Validity::Unmeasured => {}
        }
    }
    counts
}

pub(super) fn stats_of(valid: &[&ResultRow], measured: &[&ResultRow]) -> BTreeMap<String, Stat> {
    let mut columns = BTreeSet::new();
    for row in measured {
        columns.extend(row.columns());
    }
    let of = |column: &str| {
        let rows = if QUALITY.contains(&column) { measured } else { valid };
        let values: Vec<f64> = rows.iter().filter_map(|row| row.number(column)).collect();
        stat(&values)
    };
    let columns = columns
        .into_iter()
        .filter(|column| !NO_MEASUREMENTS.contains(column) && !TEXT_COLUMNS.contains(column));
    let mut stats: BTreeMap<String, Stat> =
        columns.filter_map(|column| Some((column.to_owned(), of(column)?))).collect();
    if let (Some(fps), Some(stat)) = (total_fps(valid), stats.get_mut("fps")) {
        stat.mean = fps;
    }
    stats
}

/// Frames of all rows over their time, as a comparison computes it; `None` if a row does not name
/// its frames.
fn total_fps(rows: &[&ResultRow]) -> Option<f64> {
    let mut sums = (0.0, 0.0);
    for row in rows {
        let fps = row.number("fps").filter(|fps| *fps > 0.0)?;
        let frames = row.number("frames")?;
        sums = (sums.0 + frames, sums.1 + frames / fps);
    }
    (sums.1 > 0.0).then_some(sums.0 / sums.1)
}

/// What a comparison computed of a side: the FPS of all its rounds, and the scores of its masks, which
/// PyTorch's rows do not have.
fn add_compared(stats: &mut BTreeMap<String, Stat>, source: &RunSource, model: &str) {
    let Some((_, side)) = source.compared.iter().find(|(tag, _)| tag == model) else { return };
    if let (Some(speed), Some(stat)) = (&side.speed, stats.get_mut("fps")) {
        stat.mean = speed.fps;
    }
    let Some(scores) = side.equality.as_ref().and_then(|equality| equality.scores) else { return };
    for (column, percent) in [("J", scores.j), ("F", scores.f), ("JandF", scores.jf)] {
        let mean = percent / 100.0;
        let alone = Stat { n: 1, mean, std: 0.0, min: mean, max: mean, median: mean };
        stats.entry(column.to_owned()).or_insert(alone);
    }
}

/// The weights of a model, from the run's configuration.
fn weights_of(source: &RunSource, model: &str) -> Option<String> {
    let models = source.facts.get("configuration")?.get("models")?.as_array()?;
    let own =
        models.iter().find(|entry| entry.get("tag").and_then(|tag| tag.as_str()) == Some(model))?;
    own.get("weights")?.as_str().map(str::to_owned)
}

/// The driver's numbers of the GPU; a number on which two runs differ is omitted.
fn gpu_facts(sources: &[&RunSource]) -> BTreeMap<String, f64> {
    let mut facts: BTreeMap<String, f64> = BTreeMap::new();
    let mut disputed = BTreeSet::new();
    let known =
        sources.iter().filter_map(|source| source.environment("gpu")?.as_object()).flatten();
    for (name, value) in known {
        if let Some(value) = value.as_f64()
            && *facts.entry(name.clone()).or_insert(value) != value
        {
            disputed.insert(name.clone());
        }
    }
    facts.retain(|name, _| !disputed.contains(name));
    facts
}
