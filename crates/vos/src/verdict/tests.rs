use super::*;
use crate::record::{FrameTime, Judgement, Limit, Limits, StageTimes};
use crate::stage::Stage;

/// A pass whose frames take these times, ms, each explained by one stage.
fn pass(latencies: impl IntoIterator<Item = f64>) -> Vec<FrameTimes> {
    let frame = |(frame, latency_ms): (usize, f64)| FrameTimes {
        frame,
        time: FrameTime::Latency(latency_ms),
        stages: StageTimes::of([(Stage::Track, latency_ms)]),
        ..FrameTimes::default()
    };
    latencies.into_iter().enumerate().map(frame).collect()
}

fn slow_down(frame: &mut FrameTimes, factor: f64) {
    frame.time = FrameTime::Latency(factor * frame.time.ms());
}

/// 18 frames that do not count, then `count` that swing by one percent about 10 ms.
fn steady(count: usize) -> Vec<f64> {
    let swing = (0..count).map(|at| if at % 2 == 0 { 10.05 } else { 9.95 });
    std::iter::repeat_n(99.0, THRESHOLDS.steady_from).chain(swing).collect()
}

fn judged(frames: &[FrameTimes]) -> Verdict {
    judge(&Evidence { frames, overlapping: false, batch: 1, on_gpu: false, observed: None })
}

fn watched(observed: &Observed) -> Verdict {
    let frames = pass(steady(200));
    judge(&Evidence {
        frames: &frames,
        overlapping: false,
        batch: 1,
        on_gpu: true,
        observed: Some(observed),
    })
}

fn calm() -> Observed {
    Observed {
        seconds: 2.0,
        readings: 20,
        sm_clock_min_mhz: Some(1950.0),
        sm_clock_max_mhz: Some(1980.0),
        limits: Some(Limits::of([Limit::ClocksSetting])),
        other_processes: Some(0),
        ..Observed::default()
    }
}

#[track_caller]
fn assert_found(verdict: &Verdict, judgement: Judgement, code: &str, says: &str) {
    assert_eq!(verdict.judgement, judgement, "{verdict:?}");
    let finding = verdict.findings.iter().find(|finding| finding.code == code);
    let sentence = &finding.unwrap_or_else(|| panic!("no {code}: {verdict:?}")).sentence;
    assert!(sentence.contains(says), "{sentence}");
}

#[test]
fn a_steady_pass_is_valid_and_nothing_is_said() {
    assert_eq!(judged(&pass(steady(200))), Verdict::of(vec![]));
    assert_eq!(watched(&calm()), Verdict::of(vec![]));
}

#[test]
fn too_few_frames_cannot_be_judged() {
    let verdict = judged(&pass(steady(THRESHOLDS.steady_frames - 1)));
    assert_found(&verdict, Judgement::Unjudged, "few_frames", "19 frames came after the first 18");
    assert_eq!(judged(&pass(steady(THRESHOLDS.steady_frames))).judgement, Judgement::Valid);
    assert_eq!(judged(&pass([5.0])).judgement, Judgement::Unjudged);
}

/// Its memory is filled by its own frames, wherever in the clip they begin.
#[test]
fn an_object_that_begins_late_is_judged_from_its_own_first_frame() {
    let mut frames = pass(steady(THRESHOLDS.steady_frames));
    frames.iter_mut().for_each(|frame| frame.frame += 60);
    assert_eq!(judged(&frames).judgement, Judgement::Valid, "the frames that fill it do not count");
    frames.pop();
    assert_found(&judged(&frames), Judgement::Unjudged, "few_frames", "19 frames came after");
}

/// Beside an object that begins later, and fills its memory, or ends, a frame is other work;
/// nothing heats up there.
#[test]
fn objects_that_come_and_go_beside_it_are_no_drift() {
    let begins = THRESHOLDS.steady_from;
    // 18 + 60 frames alone at 10 ms, then with another: 18 that fill its memory, 100 at 16 ms, and
    // 30 alone again.
    let stretches =
        [(begins, 1, 5.0), (60, 1, 10.0), (begins, 2, 14.0), (100, 2, 16.0), (30, 1, 10.0)];
    let company = |together: bool| {
        let mut frames = pass(stretches.iter().flat_map(|&(frames, _, ms)| vec![ms; frames]));
        let counts = stretches.iter().flat_map(|&(frames, objects, _)| vec![objects; frames]);
        for (frame, objects) in frames.iter_mut().zip(counts).filter(|_| together) {
            frame.objects = Some(objects);
        }
        frames
    };
    let frames = company(true);
    assert_eq!(judged(&frames).findings, []);
    // The same times of an object alone are what they look like.
    assert_found(&judged(&company(false)), Judgement::Invalid, "unsteady", "spread by");
    // What does drift within the company is seen.
    let mut drifts = frames.clone();
    drifts.iter_mut().skip(96 + 50).for_each(|frame| slow_down(frame, 1.07));
    assert_found(&judged(&drifts), Judgement::Invalid, "drift", "7 % slower");
    // The frames behind the newcomer's end are as good as any where they are the most.
    let tail = &frames[96 + 90..];
    assert_eq!(same_work::stretch(tail, begins), &tail[begins..]);
    let few = &frames[..96 + 19];
    assert_eq!(same_work::stretch(few, begins).len(), 60);
    let never_long = [&frames[..37], &frames[78..96 + 19]].concat();
    assert_found(
        &judged(&never_long),
        Judgement::Unjudged,
        "few_frames",
        "the longest stretch with the same objects has 19 frames",
    );
}

#[test]
fn a_tail_of_few_frames_is_told_of() {
    let verdict = judged(&pass(steady(99)));
    assert_found(&verdict, Judgement::Valid, "p99_of_few", "99th percentile of 99 frames");
    assert_eq!(judged(&pass(steady(100))).findings, []);
    // Frames that overlap have no latencies, and so no percentiles.
    let frames = pass(steady(99));
    let overlapping =
        Evidence { frames: &frames, overlapping: true, batch: 1, on_gpu: false, observed: None };
    assert_eq!(judge(&overlapping).findings, []);
}

/// Masks of frames that were encoded together come in a burst, and then one waits for the next
/// batch.
#[test]
fn bursts_are_judged_by_the_batch() {
    let bursts = |count: usize, wait: f64| {
        let steady = (0..count).map(move |at| if at % 4 == 0 { wait } else { 1.0 });
        pass(std::iter::repeat_n(99.0, THRESHOLDS.steady_from).chain(steady))
    };
    let by = |frames: &[FrameTimes], batch: usize| {
        judge(&Evidence { frames, overlapping: true, batch, on_gpu: false, observed: None })
    };
    let regular = bursts(200, 3.0);
    assert_found(&by(&regular, 1), Judgement::Invalid, "unsteady", "spread by");
    assert_eq!(by(&regular, 4).findings, []);
    // A batch that is slow is seen all the same, and so are later ones that are.
    let mut slower = regular;
    slower.iter_mut().skip(18 + 100).for_each(|frame| slow_down(frame, 1.2));
    assert_found(&by(&slower, 4), Judgement::Invalid, "drift", "18 % slower");
    let few = by(&bursts(19, 3.0), 4);
    assert_found(&few, Judgement::Unjudged, "few_frames", "20 are needed");
    assert_eq!(by(&bursts(20, 3.0), 4).judgement, Judgement::Valid);
    let few = by(&bursts(32, 3.0), 16);
    assert_found(&few, Judgement::Unjudged, "few_frames", "5 batches are needed");
}

#[test]
fn a_wide_spread_is_a_fault() {
    let mut times = steady(200);
    times.iter_mut().skip(18).step_by(2).for_each(|time| *time = 13.0);
    assert_found(&judged(&pass(times)), Judgement::Invalid, "unsteady", "spread by 13 %");
}

#[test]
fn halves_that_differ_are_a_fault_with_the_advice_for_their_direction() {
    let mut times = steady(200);
    times.iter_mut().skip(18 + 100).for_each(|time| *time *= 1.07);
    let verdict = judged(&pass(times));
    assert_found(&verdict, Judgement::Invalid, "drift", "7 % slower than the first");
    assert_eq!(verdict.findings.len(), 1, "{verdict:?}");
    let mut times = steady(200);
    times.iter_mut().skip(18 + 100).for_each(|time| *time /= 1.07);
    assert_found(&judged(&pass(times)), Judgement::Invalid, "drift", "raise --warmup-runs");
}

/// Other programs that come and go make one half slower than the other; to warm up longer or to
/// cool would not help.
#[test]
fn halves_that_differ_on_a_machine_that_others_use_are_blamed_on_them() {
    let uneven = |first: f64, second: f64| {
        let of = |at: usize| {
            let half = if at < 100 { first } else { second };
            if at.is_multiple_of(2) { half } else { 1.5 * half }
        };
        let times: Vec<f64> = std::iter::repeat_n(99.0, 18).chain((0..200).map(of)).collect();
        judged(&pass(times))
    };
    for (first, second) in [(10.0, 11.0), (11.0, 10.0)] {
        let verdict = uneven(first, second);
        assert_found(&verdict, Judgement::Invalid, "unsteady", "stop other programs");
        assert_found(&verdict, Judgement::Invalid, "drift", "other programs disturbed the run");
        assert!(
            !format!("{verdict:?}").contains("warm") && !format!("{verdict:?}").contains("heats")
        );
    }
    let mut times = steady(200);
    times.iter_mut().skip(18 + 100).for_each(|time| *time /= 1.07);
    let beside = Observed { other_processes: Some(1), ..calm() };
    let frames = pass(times);
    let evidence = |observed| {
        let observed = Some(observed);
        judge(&Evidence { frames: &frames, overlapping: false, batch: 1, on_gpu: true, observed })
    };
    assert_found(&evidence(&beside), Judgement::Invalid, "drift", "other programs disturbed");
    assert_found(&evidence(&calm()), Judgement::Invalid, "drift", "raise --warmup-runs");
}

#[test]
fn a_lone_outlier_is_a_hint() {
    let mut times = steady(200);
    times[60] = 14.0;
    let verdict = judged(&pass(times));
    assert_found(&verdict, Judgement::Valid, "outliers", "1 of 200 frames");
    assert_found(&verdict, Judgement::Valid, "outliers", "the slowest at 14.000 ms");
    // Times that are all equal have no deviation: nothing is an outlier for a rounding.
    assert_eq!(judged(&pass(vec![10.0; 218])).findings, []);
    // Most are equal: one in four that is 0.9 % slower is none, and one that is 1.1 % slower is.
    let mostly_equal = |other: f64| {
        let mut times = vec![10.0; 218];
        times.iter_mut().step_by(4).for_each(|time| *time = other);
        judged(&pass(times))
    };
    assert_eq!(mostly_equal(10.09).findings, []);
    assert_found(&mostly_equal(10.11), Judgement::Valid, "outliers", "50 of 200 frames");
}

#[test]
fn latency_that_no_stage_explains_is_a_fault_unless_frames_overlap() {
    let mut frames = pass(steady(200));
    frames.iter_mut().for_each(|frame| {
        frame.stages =
            StageTimes::of([(Stage::Track, 0.88 * frame.time.ms()), (Stage::Decode, 5.0)]);
    });
    assert_found(&judged(&frames), Judgement::Invalid, "unexplained", "explain 88 %");
    let overlapping =
        Evidence { frames: &frames, overlapping: true, batch: 1, on_gpu: false, observed: None };
    assert_eq!(judge(&overlapping).findings, []);
    frames.iter_mut().for_each(|frame| frame.stages[Stage::Track] = Some(0.91 * frame.time.ms()));
    assert_eq!(judged(&frames).findings, []);
}

#[test]
fn throttling_spoils_even_a_steady_pass_and_a_setting_does_not() {
    let hot = Limits::of([Limit::ClocksSetting, Limit::Thermal, Limit::PowerCap]);
    let verdict = watched(&Observed { limits: Some(hot), ..calm() });
    assert_found(&verdict, Judgement::Invalid, "throttled", "(power_cap+thermal)");
    assert_found(&verdict, Judgement::Invalid, "throttled", "nvidia-smi -lgc");
    assert_found(&verdict, Judgement::Invalid, "throttled", "let the GPU cool");
    let held = |low, high| Observed {
        limits: Some(hot),
        sm_clock_min_mhz: low,
        sm_clock_max_mhz: high,
        ..calm()
    };
    for (low, high, told) in [
        (Some(1965.0), Some(1980.0), "during the pass, the SM clock at 1965 to 1980 MHz; "),
        (Some(1965.0), Some(1965.0), "during the pass, the SM clock at 1965 MHz; "),
        (None, None, "during the pass; "),
    ] {
        assert_found(&watched(&held(low, high)), Judgement::Invalid, "throttled", told);
    }
    for limit in Limit::ALL {
        let verdict = watched(&Observed { limits: Some(Limits::of([limit])), ..calm() });
        assert_eq!(verdict.judgement == Judgement::Invalid, limit.is_throttling(), "{limit:?}");
        assert!(verdict.findings.iter().all(|found| !found.sentence.contains("; ;")), "{limit:?}");
    }
}

#[test]
fn a_clock_that_moves_is_a_fault() {
    let moved = |low| watched(&Observed { sm_clock_min_mhz: Some(low), ..calm() });
    assert_found(
        &moved(1800.0),
        Judgement::Invalid,
        "clock_drift",
        "between 1800 and 1980 MHz, 9 %",
    );
    assert_eq!(moved(1890.0).judgement, Judgement::Valid);
}

#[test]
fn another_process_on_the_gpu_is_a_fault() {
    let verdict = watched(&Observed { other_processes: Some(2), ..calm() });
    assert_found(&verdict, Judgement::Invalid, "other_process", "2 other processes");
}

#[test]
fn a_gpu_that_was_hardly_watched_is_told_of() {
    let verdict = watched(&Observed { seconds: 0.15, readings: 2, ..calm() });
    assert_found(&verdict, Judgement::Valid, "few_readings", "2 times in 0.15 s");
    let frames = pass(steady(200));
    let blind =
        Evidence { frames: &frames, overlapping: false, batch: 1, on_gpu: true, observed: None };
    assert_found(
        &judge(&blind),
        Judgement::Valid,
        "unwatched",
        "throttling would not have been seen",
    );
    assert_eq!(judged(&frames).findings, [], "a CPU has no sensors to miss");
    let silent = watched(&Observed { limits: None, ..calm() });
    assert_found(&silent, Judgement::Valid, "unwatched", "do not tell what holds the clocks down");
}

#[test]
fn the_documentation_shows_the_limits_in_force() {
    let text = include_str!("../../../../docs/reference/verdicts.md");
    let t = THRESHOLDS;
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    for (code, limit) in [
        ("few_frames", format!("{} frames after the first {}", t.steady_frames, t.steady_from)),
        ("p99_of_few", format!("{} such frames", t.p99_frames)),
        ("unsteady", percent(t.spread)),
        ("drift", percent(t.drift)),
        ("outliers", format!("{} MAD, {}", t.outlier_mads, percent(t.outlier_least))),
        ("clock_drift", percent(t.clock_drift)),
        ("unexplained", percent(t.explained)),
        ("few_readings", format!("{} readings", t.readings)),
        ("throttled", "any reading".to_owned()),
        (
            POWER_LIMITED,
            format!(
                "{} s and {} readings, {}, {}",
                t.sustained_seconds,
                t.sustained_readings,
                percent(t.sustained_drift),
                percent(t.sustained_busy)
            ),
        ),
        ("other_process", "any reading".to_owned()),
        ("unwatched", "no sensors".to_owned()),
    ] {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{code}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/reference/verdicts.md has no row for {code}"));
        assert!(row.contains(&limit), "{row:?} lacks {limit:?}");
    }
}

mod power_limit;
