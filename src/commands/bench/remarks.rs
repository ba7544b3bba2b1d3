/*!
Remarks below the table of a bench: INVALID rows, short rows, rows at the power limit, and time
outside the stages.
*/

use std::collections::BTreeMap;

use super::source_targets;
use host::{are, counted};
use vos::record::{DecodeLoad, Judgement, SummaryRecord, Weight};
use vos::stats;
use vos::verdict::POWER_LIMITED;

/// A residue above this share of the latency gets a remark.
const RESIDUE: f64 = 0.10;

/// The remarks on each model, in the order of the rows.
pub fn remarks<'a>(rows: impl Iterator<Item = &'a SummaryRecord>) -> Vec<String> {
    let mut models: Vec<(&str, Vec<&SummaryRecord>)> = Vec::new();
    for row in rows.filter(|row| row.pooled.numbers().is_some()) {
        let model = row.pooled.key.tag.as_str();
        match models.iter_mut().find(|(known, _)| *known == model) {
            Some((_, rows)) => rows.push(row),
            None => models.push((model, vec![row])),
        }
    }
    let lines = |(model, rows): &(&str, Vec<&SummaryRecord>)| {
        [invalid(rows), unjudged(rows), power_limited(rows), residue(rows), lanes(rows)]
            .into_iter()
            .flatten()
            .chain(source_targets::remarks(rows))
            .map(|said| format!("{model}: {said}"))
            .collect::<Vec<_>>()
    };
    models.iter().flat_map(lines).collect()
}

fn judged<'a>(rows: &'a [&SummaryRecord], judgement: Judgement) -> Vec<&'a SummaryRecord> {
    rows.iter().copied().filter(|row| row.pooled.verdict.judgement == judgement).collect()
}

/// The number of INVALID rows by fault code, with one sentence per code.
fn invalid(rows: &[&SummaryRecord]) -> Option<String> {
    let bad = judged(rows, Judgement::Invalid);
    let mut codes: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for row in &bad {
        let faults = row.pooled.verdict.findings.iter().filter(|f| f.weight == Weight::Fault);
        for fault in faults {
            codes.entry(&fault.code).or_insert((0, &fault.sentence)).0 += 1;
        }
    }
    let told: Vec<String> = codes
        .iter()
        .map(|(code, (count, sentence))| format!("{code} ({count}): {sentence}"))
        .collect();
    (!bad.is_empty()).then(|| {
        format!(
            "{} of {} {} INVALID; {}",
            bad.len(),
            counted(rows.len(), "row"),
            are(bad.len()),
            told.join("; ")
        )
    })
}

fn unjudged(rows: &[&SummaryRecord]) -> Option<String> {
    let short = judged(rows, Judgement::Unjudged);
    let said = short.iter().find_map(|row| row.pooled.verdict.findings.first())?;
    let (count, all) = (short.len(), rows.len());
    let all = counted(all, "row");
    let are = are(count);
    Some(format!("{count} of {all} {are} too short to judge; the first: {}", said.sentence))
}

/// VALID rows whose speed must not be quoted without the power limit.
fn power_limited(rows: &[&SummaryRecord]) -> Option<String> {
    let valid = judged(rows, Judgement::Valid);
    let found: Vec<_> =
        valid.iter().filter_map(|row| row.pooled.verdict.find(POWER_LIMITED)).collect();
    let first = &found.first()?.sentence;
    let (count, all) = (found.len(), counted(rows.len(), "row"));
    Some(format!("{count} of {all} {} at the power limit; the first: {first}", are(count)))
}

fn residue(rows: &[&SummaryRecord]) -> Option<String> {
    let mean = |number: &dyn Fn(&SummaryRecord) -> Option<f64>| {
        stats::mean(&rows.iter().filter_map(|row| number(row)).collect::<Vec<_>>())
    };
    let residue = mean(&|row| row.pooled.numbers()?.residue_ms)?;
    let latency = mean(&|row| Some(row.pooled.numbers()?.speed.latency_ms))?;
    (residue > RESIDUE * latency).then(|| {
        format!(
            "{residue:.3} ms of each frame, {:.0} %, are outside its stages",
            100.0 * residue / latency
        )
    })
}

/// The rate of all lanes, and what limits it.
fn lanes(rows: &[&SummaryRecord]) -> Option<String> {
    let lanes = rows.first()?.pooled.conditions.lanes?;
    let numbers = || rows.iter().filter_map(|row| row.pooled.numbers());
    let (frames, ms) = numbers().fold((0, 0.0), |(frames, ms), measured| {
        (frames + measured.speed.frames, ms + measured.speed.duration_ms)
    });
    let load = DecodeLoad::mean(numbers().filter_map(|measured| measured.decode_load));
    let percent = |share: f64| 100.0 * share;
    let limit = load.map(|load| {
        let (wait, busy) = (percent(load.wait), percent(load.busy));
        let limits = match load.limit() {
            "decode" => {
                "decoding limits the rate: use more --decode-threads, --predecoded or \
                 --jpeg-decoder nvjpeg"
            }
            _ => "the GPU limits the rate",
        };
        format!(
            "; lanes waited for decoded frames {wait:.0} % of the time and decoding threads were \
             busy {busy:.0} %, so {limits}"
        )
    });
    let (fps, of) = (1e3 * frames as f64 / ms, counted(lanes, "lane"));
    Some(format!("{fps:.2} frames a second by {of}{}", limit.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::record::{
        Conditions, EnqueuedFrames, Finding, FrameTime, FrameTimes, Measured, MemoryPeaks,
        ObjectKey, RunRecord, StagePercentiles, StageTimes, Status, Verdict, mean_residue_ms,
        mean_stages, speed_of,
    };
    use vos::stage::Stage;

    fn row(model: &str, stage_ms: f64, findings: &[(&str, Weight)]) -> SummaryRecord {
        let frame = FrameTimes {
            time: FrameTime::Latency(10.0),
            stages: StageTimes::of([(Stage::Track, stage_ms)]),
            ..FrameTimes::default()
        };
        let times = [frame; 2];
        let key = ObjectKey { video: "v".into(), object: "0".into(), tag: model.into() };
        let mut pooled =
            RunRecord::unmeasured(key, Conditions::default(), Status::Ok, "none", "none");
        pooled.measured = Some(Measured {
            speed: speed_of(&times).unwrap(),
            stages: mean_stages(&times),
            stage_percentiles: StagePercentiles::of(&[&times]),
            enqueued: EnqueuedFrames::of(&[&times]),
            memory: MemoryPeaks::default(),
            quality: None,
            setup_ms: None,
            gpu_ms: None,
            residue_ms: mean_residue_ms(&times),
            least: StageTimes::default(),
            observed: None,
            decode_load: None,
        });
        let finding = |&(code, weight): &(&str, Weight)| Finding {
            code: code.to_owned(),
            sentence: format!("{code} it was"),
            weight,
        };
        pooled.verdict = Verdict::of(findings.iter().map(finding).collect());
        SummaryRecord { pooled, runs: 1 }
    }

    #[test]
    fn what_is_wrong_is_said_once_for_each_model() {
        let rows = [
            row("b", 9.9, &[("throttled", Weight::Fault), ("outliers", Weight::Note)]),
            row("b", 9.9, &[("throttled", Weight::Fault), ("drift", Weight::Fault)]),
            row("a", 7.5, &[("few_frames", Weight::Gap)]),
            row("b", 9.9, &[]),
            row("c", 9.9, &[(POWER_LIMITED, Weight::Note)]),
            row("c", 9.9, &[(POWER_LIMITED, Weight::Note), ("drift", Weight::Fault)]),
        ];
        let expected = [
            "b: 2 of 3 rows are INVALID; drift (1): drift it was; throttled (2): throttled it was",
            "a: 1 of 1 row is too short to judge; the first: few_frames it was",
            "a: 2.500 ms of each frame, 25 %, are outside its stages",
            "c: 1 of 2 rows is INVALID; drift (1): drift it was",
            "c: 1 of 2 rows is at the power limit; the first: power_limited it was",
        ];
        assert_eq!(remarks(rows.iter()), expected);
        assert!(remarks([row("a", 9.9, &[])].iter()).is_empty());
    }

    #[test]
    fn clips_of_1080p_and_4k_have_a_target() {
        let of_size = |model: &str, size, findings: &[(&str, Weight)]| {
            let mut row = row(model, 9.9, findings);
            row.pooled.input_size = Some(size);
            row
        };
        let rows = [
            of_size("a", [1080, 1920], &[]),
            of_size("a", [2160, 3840], &[]),
            of_size("b", [1920, 1080], &[("drift", Weight::Fault)]),
            of_size("c", [720, 1280], &[]),
        ];
        let found = remarks(rows.iter());
        let of_b =
            "b: target 1080p source ≥ 60 FPS: INVALID rows, 100.00 FPS, decoding not included";
        assert_eq!(
            found[0],
            "a: target 1080p source ≥ 60 FPS: pass, 100.00 FPS, decoding not included"
        );
        assert_eq!(
            found[1],
            "a: target 4K source ≥ 30 FPS: pass, 100.00 FPS, decoding not included"
        );
        assert_eq!(found[3..], [of_b]);
        assert!(found[2].starts_with("b: 1 of 1 row is INVALID"), "{found:?}");
    }
}
