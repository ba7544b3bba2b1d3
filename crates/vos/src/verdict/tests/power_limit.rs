use super::*;

/// A long pass at the power limit, on clocks that move with the load.
fn at_the_cap() -> Observed {
    Observed {
        seconds: 14.0,
        readings: 120,
        power_mean_w: Some(698.4),
        sm_clock_min_mhz: Some(1665.0),
        sm_clock_max_mhz: Some(1980.0),
        limits: Some(Limits::of([Limit::PowerCap, Limit::ClocksSetting])),
        ..calm()
    }
}

/// Steady frames of 12 s together.
const FRAMES: usize = 1200;

fn by(times: Vec<f64>, observed: &Observed) -> Verdict {
    let frames = pass(times);
    let observed = Some(observed);
    judge(&Evidence { frames: &frames, overlapping: false, batch: 1, on_gpu: true, observed })
}

#[test]
fn a_long_steady_pass_at_the_power_limit_counts_with_a_hint() {
    let verdict = by(steady(FRAMES), &at_the_cap());
    let told = "reached its power limit (power_cap) in 12.0 s of steady frames, 698 W on average, the SM \
                clock at 1665 to 1980 MHz; ";
    assert_found(&verdict, Judgement::Valid, POWER_LIMITED, told);
    assert_eq!(verdict.findings.len(), 1, "clocks that move are a part of it: {verdict:?}");
    let silent = Observed { power_mean_w: None, other_processes: None, ..at_the_cap() };
    let verdict = by(steady(FRAMES), &silent);
    assert_found(&verdict, Judgement::Valid, POWER_LIMITED, "steady frames, the SM clock");
    assert_found(&verdict, Judgement::Valid, POWER_LIMITED, "other processes could not be seen");
    let least = Observed { readings: THRESHOLDS.sustained_readings, ..at_the_cap() };
    let short = Observed { seconds: 12.0, ..least };
    assert_found(&by(steady(1000), &short), Judgement::Valid, POWER_LIMITED, "in 10.0 s");
    // Intervals between masks, and means of batches, as of lanes, are judged alike.
    let frames = pass(steady(FRAMES));
    let observed = Some(&least);
    let lanes = Evidence { frames: &frames, overlapping: true, batch: 4, on_gpu: true, observed };
    assert_found(&judge(&lanes), Judgement::Valid, POWER_LIMITED, "in 12.0 s");
    let crowded = by(steady(FRAMES), &Observed { other_processes: Some(1), ..at_the_cap() });
    assert_found(&crowded, Judgement::Invalid, "other_process", "1 other");
    let one = |times, observed| {
        let frames = pass(times);
        is_long(&Evidence { frames: &frames, overlapping: false, batch: 1, on_gpu: true, observed })
    };
    assert!(one(steady(1000), Some(&short)) && !one(steady(999), Some(&short)));
    let blind = Observed { limits: None, ..short };
    assert!(!one(steady(1000), Some(&blind)) && !one(steady(1000), None));
}

#[test]
fn a_pass_at_the_power_limit_lacks_one_condition_and_is_throttled() {
    let longer = "or measure a pass with at least 10 s of frames (a longer clip, or --repeat-clip)";
    let often = "or take at least 50 readings of a pass (--telemetry-ms)";
    let hot = Some(Limits::of([Limit::PowerCap, Limit::Thermal]));
    for (frames, observed, advice) in [
        (999, at_the_cap(), longer),
        // A GPU that waits between frames recovers meanwhile.
        (FRAMES, Observed { seconds: 16.0, ..at_the_cap() }, "filled 86 % of the pass, 90 %"),
        (FRAMES, Observed { readings: 49, ..at_the_cap() }, often),
        (FRAMES, Observed { limits: hot, ..at_the_cap() }, "then measure again"),
    ] {
        let verdict = by(steady(frames), &observed);
        assert_found(&verdict, Judgement::Invalid, "throttled", advice);
        assert_found(&verdict, Judgement::Invalid, "clock_drift", "between 1665 and 1980 MHz");
        let told = format!("{verdict:?}");
        assert!(!told.contains(POWER_LIMITED), "{told}");
        assert_eq!(told.contains("the limit counts"), observed.limits != hot, "{told}");
    }
    // Without the power limit a clock that moves is what it was.
    for limits in [Some(Limits::of([Limit::ClocksSetting])), None] {
        let verdict = by(steady(FRAMES), &Observed { limits, ..at_the_cap() });
        assert_found(&verdict, Judgement::Invalid, "clock_drift", "between 1665 and 1980 MHz");
        assert!(!format!("{verdict:?}").contains(POWER_LIMITED), "{verdict:?}");
    }
}

#[test]
fn a_pass_at_the_power_limit_whose_frames_are_not_steady_is_throttled() {
    let from = THRESHOLDS.steady_from;
    let mut drifting = steady(FRAMES);
    drifting.iter_mut().skip(from + FRAMES / 2).for_each(|time| *time *= 1.07);
    let mut unsteady = steady(FRAMES);
    unsteady.iter_mut().skip(from).step_by(2).for_each(|time| *time = 13.0);
    for (times, code) in [(drifting, "drift"), (unsteady, "unsteady")] {
        let verdict = by(times, &at_the_cap());
        assert_found(&verdict, Judgement::Invalid, code, "");
        assert_found(&verdict, Judgement::Invalid, "throttled", "(power_cap)");
        let told = format!("{verdict:?}");
        assert!(!told.contains(POWER_LIMITED), "{told}");
        assert!(!told.contains("the limit counts"), "it is long enough: {told}");
    }
    let few = by(steady(THRESHOLDS.steady_frames - 1), &at_the_cap());
    assert_found(&few, Judgement::Invalid, "throttled", "(power_cap)");
    // Hints about frames change nothing.
    let mut late = steady(FRAMES);
    late[from + 700] = 19.0;
    let verdict = by(late, &at_the_cap());
    assert_found(&verdict, Judgement::Valid, "outliers", "1 of 1200");
    assert_found(&verdict, Judgement::Valid, POWER_LIMITED, "quote the limit with it");
}

/// Less than a half of the frames does not move the medians, but the mean.
#[test]
fn faster_clocks_at_the_beginning_do_not_count() {
    let boosted = |share: f64, factor: f64| {
        let mut times = steady(FRAMES);
        let count = (share * FRAMES as f64) as usize;
        times.iter_mut().skip(THRESHOLDS.steady_from).take(count).for_each(|time| *time *= factor);
        by(times, &at_the_cap())
    };
    let verdict = boosted(0.24, 0.96);
    assert_found(
        &verdict,
        Judgement::Invalid,
        "throttled",
        "took 3.9 % longer than the first, 2 %",
    );
    assert!(!format!("{verdict:?}").contains("drift: "), "the halves' medians agree: {verdict:?}");
    assert_found(&boosted(0.24, 0.985), Judgement::Valid, POWER_LIMITED, "");
}

/// Quarters of bursts would differ by a burst more or less.
#[test]
fn bursts_are_even_by_the_batch() {
    let burst = |at: usize| if at.is_multiple_of(16) { 16.0 * 6.0 } else { 0.0 };
    let times = std::iter::repeat_n(6.0, THRESHOLDS.steady_from).chain((0..1700).map(burst));
    let frames = pass(times);
    let cap = at_the_cap();
    let observed = Some(&cap);
    let even = Evidence { frames: &frames, overlapping: true, batch: 16, on_gpu: true, observed };
    assert_found(&judge(&even), Judgement::Valid, POWER_LIMITED, "in 10.3 s");
}
