use super::*;

/// A long pass at the power limit, on clocks that move with the load.
fn at_the_cap() -> Observed {
    Observed {
        seconds: 12.4,
        readings: 120,
        power_mean_w: Some(698.4),
        sm_clock_min_mhz: Some(1665.0),
        sm_clock_max_mhz: Some(1980.0),
        limits: Some(Limits::of([Limit::PowerCap, Limit::ClocksSetting])),
        ..calm()
    }
}

#[test]
fn a_long_steady_pass_at_the_power_limit_counts_with_a_hint() {
    let verdict = watched(&at_the_cap());
    let told = "reached its power limit (power_cap) in a pass of 12.4 s, 698 W on average, the SM clock \
                at 1665 to 1980 MHz; ";
    assert_found(&verdict, Judgement::Valid, POWER_LIMITED, told);
    assert_eq!(verdict.findings.len(), 1, "clocks that move are a part of it: {verdict:?}");
    let silent = Observed { power_mean_w: None, ..at_the_cap() };
    assert_found(&watched(&silent), Judgement::Valid, POWER_LIMITED, "of 12.4 s, the SM clock");
    let least = Observed {
        seconds: THRESHOLDS.sustained_seconds,
        readings: THRESHOLDS.sustained_readings,
        ..at_the_cap()
    };
    assert_found(&watched(&least), Judgement::Valid, POWER_LIMITED, "of 10.0 s");
    // Intervals between masks, and means of batches, as of lanes, are judged alike.
    let frames = pass(steady(200));
    let observed = Some(&least);
    let lanes = Evidence { frames: &frames, overlapping: true, batch: 4, on_gpu: true, observed };
    assert_found(&judge(&lanes), Judgement::Valid, POWER_LIMITED, "of 10.0 s");
    let crowded = watched(&Observed { other_processes: Some(1), ..at_the_cap() });
    assert_found(&crowded, Judgement::Invalid, "other_process", "1 other");
}

#[test]
fn a_pass_at_the_power_limit_lacks_one_condition_and_is_throttled() {
    let cap = at_the_cap;
    let longer = "or measure a pass of at least 10 s (a longer clip, or --repeat-clip)";
    let often = "or take at least 50 readings of a pass (--telemetry-ms)";
    let hot = Some(Limits::of([Limit::PowerCap, Limit::Thermal]));
    for (observed, advice) in [
        (Observed { seconds: 9.9, ..cap() }, longer),
        (Observed { readings: 49, ..cap() }, often),
        (Observed { limits: hot, ..cap() }, "then measure again"),
    ] {
        let verdict = watched(&observed);
        assert_found(&verdict, Judgement::Invalid, "throttled", advice);
        assert_found(&verdict, Judgement::Invalid, "clock_drift", "between 1665 and 1980 MHz");
        let told = format!("{verdict:?}");
        assert!(!told.contains(POWER_LIMITED), "{told}");
        assert_eq!(told.contains("the limit counts"), observed.limits != hot, "{told}");
    }
    // Without the power limit a clock that moves is what it was.
    for limits in [Some(Limits::of([Limit::ClocksSetting])), None] {
        let verdict = watched(&Observed { limits, ..cap() });
        assert_found(&verdict, Judgement::Invalid, "clock_drift", "between 1665 and 1980 MHz");
        assert!(!format!("{verdict:?}").contains(POWER_LIMITED), "{verdict:?}");
    }
}

#[test]
fn a_pass_at_the_power_limit_whose_frames_are_not_steady_is_throttled() {
    let observed = at_the_cap();
    let by = |times: Vec<f64>| {
        let frames = pass(times);
        let observed = Some(&observed);
        judge(&Evidence { frames: &frames, overlapping: false, batch: 1, on_gpu: true, observed })
    };
    let mut drifting = steady(200);
    drifting.iter_mut().skip(18 + 100).for_each(|time| *time *= 1.07);
    let mut unsteady = steady(200);
    unsteady.iter_mut().skip(18).step_by(2).for_each(|time| *time = 13.0);
    let few = steady(THRESHOLDS.steady_frames - 1);
    for (times, code) in [(drifting, "drift"), (unsteady, "unsteady"), (few, "few_frames")] {
        let verdict = by(times);
        assert_found(&verdict, Judgement::Invalid, code, "");
        assert_found(&verdict, Judgement::Invalid, "throttled", "(power_cap)");
        let told = format!("{verdict:?}");
        assert!(!told.contains(POWER_LIMITED), "{told}");
        assert!(!told.contains("the limit counts"), "it is long enough: {told}");
    }
    // Hints about frames change nothing.
    assert_found(&by(steady(99)), Judgement::Valid, POWER_LIMITED, "quote the limit with it");
}
