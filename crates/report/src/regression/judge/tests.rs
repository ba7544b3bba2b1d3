use super::*;
use crate::regression::PassSummary;

const LIMITS: Limits = Limits { slowdown: 0.03, memory: 0.03, jf_points: 0.1 };

/// A model with one object and these passes.
fn run(passes: Vec<PassSummary>) -> RunSummary {
    let object = ObjectRun { video: "v".into(), object: "0".into(), reason: None, passes };
    let model = ModelRun { model: "m".into(), objects: vec![object], ..ModelRun::default() };
    RunSummary { models: vec![model], ..RunSummary::default() }
}

/// Passes of 200 frames with these frames per second.
fn at(fps: &[f64]) -> Vec<PassSummary> {
    let pass = |fps: &f64| PassSummary {
        frames: 200,
        duration_ms: 200_000.0 / fps,
        ..PassSummary::default()
    };
    fps.iter().map(pass).collect()
}

fn with(change: impl Fn(&mut PassSummary)) -> Vec<PassSummary> {
    let mut passes = at(&[100.0]);
    change(&mut passes[0]);
    passes
}

#[track_caller]
fn assert_judged(
    was: Vec<PassSummary>,
    is: Vec<PassSummary>,
    metric: Metric,
    judgement: ChangeVerdict,
) -> Check {
    let check = check(&run(was), &run(is), &LIMITS);
    let found = check.comparisons.iter().find(|comparison| comparison.metric == metric).unwrap();
    assert_eq!(found.judgement, judgement, "{found:?}");
    check
}

#[test]
fn a_slowdown_counts_beyond_the_limit_and_beyond_the_spread() {
    let calm = [100.0, 100.5, 99.5];
    for (now, judgement) in [
        (vec![96.0, 96.5, 95.5], ChangeVerdict::Worse),
        (vec![98.0, 97.5, 98.5], ChangeVerdict::Same),
        (vec![104.0, 104.5, 103.5], ChangeVerdict::Better),
        // The median is 6 % lower, but a pass in three was as fast as before: it may be noise.
        (vec![94.0, 101.0, 93.0], ChangeVerdict::Unclear),
        (vec![106.0, 99.0, 107.0], ChangeVerdict::Same),
        (vec![96.9], ChangeVerdict::Worse),
        (vec![97.1], ChangeVerdict::Same),
    ] {
        let check = assert_judged(at(&calm), at(&now), Metric::Fps, judgement);
        assert_eq!(check.has_failed(false), judgement == ChangeVerdict::Worse);
        let strictly = matches!(judgement, ChangeVerdict::Worse | ChangeVerdict::Unclear);
        assert_eq!(check.has_failed(true), strictly);
    }
    // The noise of the baseline may explain the change.
    assert_judged(at(&[100.0, 90.0, 110.0]), at(&[95.0]), Metric::Fps, ChangeVerdict::Unclear);
    // One pass on each side: only the limit counts.
    let check = assert_judged(at(&[100.0]), at(&[90.0]), Metric::Fps, ChangeVerdict::Worse);
    let change = check.comparisons[0].change.unwrap();
    assert!((change + 0.1).abs() < 1e-9, "{change}");
}

#[test]
fn latency_is_worse_when_it_grows_and_tails_need_frames() {
    let p50 = |ms| with(|pass| pass.p50_ms = Some(ms));
    assert_judged(p50(10.0), p50(10.4), Metric::P50Ms, ChangeVerdict::Worse);
    assert_judged(p50(10.0), p50(10.3), Metric::P50Ms, ChangeVerdict::Same);
    assert_judged(p50(10.0), p50(9.0), Metric::P50Ms, ChangeVerdict::Better);
    let p99 = |ms, frames| with(|pass| (pass.p99_ms, pass.frames) = (Some(ms), frames));
    assert_judged(p99(10.0, 101), p99(20.0, 101), Metric::P99Ms, ChangeVerdict::Worse);
    assert_judged(p99(10.0, 100), p99(20.0, 100), Metric::P99Ms, ChangeVerdict::NotJudged);
}

#[test]
fn memory_counts_from_a_mebibyte_on() {
    let rss = |mib| with(|pass| pass.cpu_peak_rss_mib = Some(mib));
    assert_judged(rss(1000.0), rss(1031.0), Metric::CpuPeakRssMib, ChangeVerdict::Worse);
    assert_judged(rss(1000.0), rss(1030.0), Metric::CpuPeakRssMib, ChangeVerdict::Same);
    assert_judged(rss(10.0), rss(10.9), Metric::CpuPeakRssMib, ChangeVerdict::Same);
    assert_judged(rss(0.0), rss(0.0), Metric::CpuPeakRssMib, ChangeVerdict::Same);
    let check = assert_judged(rss(0.0), rss(5.0), Metric::CpuPeakRssMib, ChangeVerdict::Worse);
    assert_eq!(check.comparisons[1].change, None, "from nothing there is no percentage");
}

#[test]
fn accuracy_has_a_limit_in_points_and_no_spread() {
    let jf = |jf| with(|pass| (pass.jf, pass.j, pass.f) = (Some(jf), Some(jf), Some(0.5)));
    assert_judged(jf(0.9), jf(0.8991), Metric::JandF, ChangeVerdict::Same);
    assert_judged(jf(0.9), jf(0.899), Metric::JandF, ChangeVerdict::Same);
    assert_judged(jf(0.9), jf(0.8989), Metric::J, ChangeVerdict::Worse);
    assert_judged(jf(0.9), jf(0.92), Metric::JandF, ChangeVerdict::Better);
    assert_judged(jf(0.9), jf(0.8), Metric::F, ChangeVerdict::Same);
}

#[test]
fn what_the_run_does_not_have_any_more_fails() {
    let jf = with(|pass| pass.jf = Some(0.9));
    let check = assert_judged(jf, at(&[100.0]), Metric::JandF, ChangeVerdict::Missing);
    assert!(check.has_failed(false));

    let mut broken = run(vec![]);
    broken.models[0].objects[0].reason = Some("failed: oom: no memory".into());
    let gone = check_of(&run(at(&[100.0])), &broken);
    assert_eq!(gone.comparisons, []);
    assert_eq!(gone.lost[0].object, "v/0");
    assert_eq!(gone.lost[0].reason.as_deref(), Some("failed: oom: no memory"));
    assert!(gone.has_failed(false));
    // In the other direction it is no loss.
    assert!(!check_of(&broken, &run(at(&[100.0]))).has_failed(false));
}

fn check_of(was: &RunSummary, now: &RunSummary) -> Check {
    check(was, now, &LIMITS)
}

#[test]
fn only_objects_of_both_sides_are_compared() {
    let mut now = run(at(&[100.0]));
    let mut slow = now.models[0].objects[0].clone();
    slow.video = "other".into();
    slow.passes = at(&[1.0]);
    now.models[0].objects.push(slow);
    let check = check_of(&run(at(&[100.0])), &now);
    assert!(!check.has_failed(true));
    assert_eq!(check.count(ChangeVerdict::Same), 1);
    assert_eq!(check_of(&run(at(&[1.0])), &RunSummary::default()).comparisons, []);
}
