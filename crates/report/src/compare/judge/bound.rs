/*!
A lower bound of the speed-up for passes with disturbances.

Other work on a machine makes frames late and never early. The bound divides the baseline's time by
the subject's: the least time of each frame in any pass of the baseline, by the slowest pass of the
subject over each object. A passing disturbance can raise it only if it hits the same frame in every
pass. Each object also needs an undisturbed pass of the baseline. A slowdown of all its passes from
the first frame to the last is invisible in times, and no bound covers it. Lower clocks of the
subject alone lengthen its passes and so only lower the ratio.
*/

use std::collections::BTreeMap;

use super::side_results::SideResults;
use super::validity;
use vos::record::{ObjectKey, Verdict, Weight};
use vos::verdict::POWER_LIMITED;

/// Codes that a pair's verdict may have: frames came late, now and then or for a whole round. Lower
/// clocks or another device slow every pass alike.
const LATE: [&str; 3] = ["unsteady", "drift", "rounds_differ"];

/// Codes that the subject alone may have: its clocks were lowered.
const SLOWED: [&str; 2] = ["throttled", "clock_drift"];

/// Codes that the baseline may not have, even as notes: its clocks were lowered, or may have been
/// unseen. Its least times at a power limit are longer than without one, which would raise the
/// bound.
const BLIND: [&str; 3] = ["unwatched", "few_readings", POWER_LIMITED];

/// The code that a pair may not have, even as a note: rounds measured at different times may differ
/// for any reason.
const APART: &str = "not_in_turn";

/// The times of a pass over an object.
#[derive(Clone, Debug)]
struct PassTimes {
    /// Latency of each frame, ms.
    times: Vec<f64>,
    /// The pass has no disturbance.
    calm: bool,
}

/// The passes over each object in all rounds.
type Objects = BTreeMap<ObjectKey, Vec<PassTimes>>;

/// Whether the bound is shown: frames came late or the subject was throttled, and nothing else
/// speaks against the ratio.
pub(super) fn is_due(pair: &Verdict, baseline: &Verdict) -> bool {
    let hints = |verdict: &Verdict, code: &str| verdict.findings.iter().any(|f| f.code == code);
    let can_only_lower =
        |code: &str| LATE.contains(&code) || SLOWED.contains(&code) && !hints(baseline, code);
    let against = pair.findings.iter().filter(|found| found.weight != Weight::Note);
    pair.findings.iter().any(|found| can_only_lower(&found.code))
        && against.map(|found| found.code.as_str()).all(can_only_lower)
        && !hints(pair, APART)
        && !BLIND.iter().any(|code| hints(baseline, code))
}

/// The lower bound of the ratio of speeds; `None` if an object has no undisturbed pass of the
/// baseline.
pub(super) fn at_least(subject: &SideResults<'_>, baseline: &SideResults<'_>) -> Option<f64> {
    of(&passes(subject), &passes(baseline))
}

fn of(subject: &Objects, baseline: &Objects) -> Option<f64> {
    let (mut slowest, mut fastest) = (0.0, 0.0);
    for (object, passes) in subject {
        let others = baseline.get(object)?;
        let frames = passes.first()?.times.len();
        let is_whole = |pass: &PassTimes| pass.times.len() == frames;
        if !others.iter().any(|pass| pass.calm) || !passes.iter().chain(others).all(is_whole) {
            return None;
        }
        slowest += passes.iter().map(|pass| pass.times.iter().sum()).reduce(f64::max)?;
        for frame in 0..frames {
            fastest += others.iter().map(|pass| pass.times[frame]).reduce(f64::min)?;
        }
    }
    let ratio = fastest / slowest;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

fn passes(side: &SideResults<'_>) -> Objects {
    let mut objects = Objects::new();
    for round in &side.rounds {
        for (key, passes) in &round.objects {
            objects.entry(key.clone()).or_default().extend(passes.iter().map(|pass| PassTimes {
                times: pass.frames.iter().map(|frame| frame.time.ms()).collect(),
                calm: validity::is_calm(side, round, pass),
            }));
        }
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::record::Finding;

    /// Latency of each frame, and whether the pass is undisturbed.
    type Given<'a> = (&'a [f64], bool);

    fn objects(of: &[(&str, &[Given<'_>])]) -> Objects {
        let key = |video: &str| ObjectKey {
            video: video.to_owned(),
            object: "000".to_owned(),
            tag: "m".to_owned(),
        };
        let pass = |&(times, calm): &Given<'_>| PassTimes { times: times.to_vec(), calm };
        of.iter().map(|(video, all)| (key(video), all.iter().map(pass).collect())).collect()
    }

    #[test]
    fn the_slowest_pass_stands_beside_the_least_time_of_each_frame() {
        let subject = objects(&[("a", &[(&[5.0, 5.0], true), (&[5.0, 6.0], false)])]);
        let calm = objects(&[("a", &[(&[30.0, 22.0], true), (&[20.0, 33.0], true)])]);
        assert_eq!(of(&subject, &calm), Some(42.0 / 11.0));
        // A disturbed pass that was faster shows that the undisturbed one can be no slower.
        let disturbed = objects(&[("a", &[(&[40.0, 40.0], true), (&[30.0, 90.0], false)])]);
        assert_eq!(of(&subject, &disturbed), Some(70.0 / 11.0));
        // There is no bound for an object without an undisturbed pass, nor for one that is missing
        // or incomplete.
        for none in [
            objects(&[("a", &[(&[40.0, 40.0], false)])]),
            objects(&[("b", &[(&[40.0, 40.0], true)])]),
            objects(&[("a", &[(&[40.0], true)])]),
        ] {
            assert_eq!(of(&subject, &none), None);
        }
        assert_eq!(of(&objects(&[]), &objects(&[])), None);
    }

    #[test]
    fn it_is_due_where_frames_came_late_and_nothing_else_is_against_it() {
        let verdict = |codes: &[(&str, Weight)]| {
            let finding = |&(code, weight): &(&str, Weight)| Finding {
                code: code.to_owned(),
                sentence: String::new(),
                weight,
            };
            Verdict::of(codes.iter().map(finding).collect())
        };
        let quiet = verdict(&[]);
        let due = |codes: &[(&str, Weight)]| is_due(&verdict(codes), &quiet);
        assert!(due(&[("unsteady", Weight::Fault), ("rounds_differ", Weight::Fault)]));
        assert!(due(&[("drift", Weight::Note), ("other_fidelity", Weight::Note)]));
        assert!(!due(&[]) && !due(&[("outliers", Weight::Note)]));
        for (other, weight) in [
            ("clocks_apart", Weight::Fault),
            ("few_rounds", Weight::Gap),
            ("stopped_early", Weight::Gap),
            ("not_in_turn", Weight::Note),
        ] {
            assert!(!due(&[("unsteady", Weight::Fault), (other, weight)]), "{other}");
        }
        let late = verdict(&[("unsteady", Weight::Fault)]);
        for blind in BLIND {
            assert!(!is_due(&late, &verdict(&[(blind, Weight::Note)])), "{blind}");
        }
        // The subject's own power limit only lowers the bound, and asks for none by itself.
        let limited = (POWER_LIMITED, Weight::Note);
        assert!(due(&[("unsteady", Weight::Fault), limited]) && !due(&[limited]));
        for slowed in SLOWED {
            let held_down = verdict(&[(slowed, Weight::Fault)]);
            assert!(is_due(&held_down, &quiet), "{slowed} in the subject");
            assert!(!is_due(&held_down, &held_down), "{slowed} in the baseline");
        }
    }
}
