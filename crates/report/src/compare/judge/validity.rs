/*!
Whether speeds are valid: the rules for each pass, for rounds and for pairs of sides.

Passes are judged again from their raw times, whatever verdict their writer stored, so that the same
rules hold for both sides.
*/

use std::collections::BTreeMap;

use super::bootstrap::Interval;
use super::clocks::{self, Clocks};
use super::side_results::{ModelRound, SideResults};
use super::speed::Speed;
use crate::compare::runs::PassRecord;
use crate::compare::thresholds::SPEED;
use vos::record::{Finding, Limit, Observed, Verdict, Weight};
use vos::stats;
use vos::verdict::{self, Evidence, POWER_LIMITED};

/// The rule that the stages of a pass must add up to its latencies.
const UNEXPLAINED: &str = "unexplained";

/// Rules that are applied here to the raw times; the writer's findings for them are dropped.
const RULES: [&str; 12] = [
    "throttled",
    POWER_LIMITED,
    "clock_drift",
    "other_process",
    "unsteady",
    "drift",
    UNEXPLAINED,
    "few_frames",
    "p99_of_few",
    "outliers",
    "few_readings",
    "unwatched",
];

/// Findings that a few passes may have: the interval is drawn from all rounds and clips and so
/// includes them.
const NOW_AND_THEN: [&str; 2] = ["unsteady", "drift"];

fn finding(weight: Weight, code: &str, sentence: String) -> Finding {
    Finding { code: code.to_owned(), sentence, weight }
}

fn percent(part: f64) -> f64 {
    100.0 * part
}

/// Judges one side: its passes, its rounds, its build.
pub(super) fn of_side(side: &SideResults<'_>, speed: &Speed) -> Verdict {
    let mut findings = of_passes(side);
    findings.extend(few_rounds(speed));
    findings.extend(stopped(side));
    findings.extend(rounds_differ(speed));
    findings.extend(tail_of_few(side, speed));
    findings.extend(debug_build(side));
    for finding in &mut findings {
        finding.sentence = format!("{}: {}", side.name, finding.sentence);
    }
    Verdict::of(findings)
}

/// The findings of all passes.
fn of_passes(side: &SideResults<'_>) -> Vec<Finding> {
    let passes = side.passes().map(|(round, pass)| of_pass(side, round, pass));
    together(&passes.collect::<Vec<_>>())
}

/// What a pass is judged by.
fn evidence<'a>(
    side: &SideResults<'_>,
    round: &ModelRound<'_>,
    pass: &'a PassRecord,
    observed: Option<&'a Observed>,
) -> Evidence<'a> {
    Evidence {
        frames: &pass.frames,
        overlapping: side.overlapping(),
        batch: round.folder.encode_batch(),
        on_gpu: side.on_gpu(),
        observed,
    }
}

/// The findings of one pass.
fn of_pass(side: &SideResults<'_>, round: &ModelRound<'_>, pass: &PassRecord) -> Vec<Finding> {
    let observed = observed(round, pass);
    let judged = verdict::judge(&evidence(side, round, pass, observed.as_ref()));
    // Stage times of another pass do not explain this pass's latencies.
    let own =
        judged.findings.into_iter().filter(|found| !pass.stages_apart || found.code != UNEXPLAINED);
    // Findings that only the writer can make stay, such as a graph that was compiled inside the
    // pass.
    let theirs = pass.findings.iter().filter(|found| !RULES.contains(&found.code.as_str()));
    own.chain(theirs.cloned()).collect()
}

/// Whether a pass has no finding beyond notes.
pub(super) fn is_calm(side: &SideResults<'_>, round: &ModelRound<'_>, pass: &PassRecord) -> bool {
    of_pass(side, round, pass).iter().all(|found| found.weight == Weight::Note)
}

/// Each code once, with the number of passes that have it. Codes of [`NOW_AND_THEN`] become notes
/// if few passes have one of them.
fn together(passes: &[Vec<Finding>]) -> Vec<Finding> {
    let is_now_and_then = |found: &Finding| NOW_AND_THEN.contains(&found.code.as_str());
    let disturbed = passes.iter().filter(|found| found.iter().any(is_now_and_then)).count();
    let seldom = disturbed as f64 <= SPEED.disturbed * passes.len() as f64;
    let mut codes: BTreeMap<&str, (usize, &Finding)> = BTreeMap::new();
    for found in passes.iter().flatten() {
        // Percentiles cover all passes together here and have a finding of their own.
        if found.code != "p99_of_few" {
            codes.entry(&found.code).or_insert((0, found)).0 += 1;
        }
    }
    let counted = |(count, found): (usize, &Finding)| Finding {
        code: found.code.clone(),
        sentence: format!("{count} of {} passes, the first: {}", passes.len(), found.sentence),
        weight: if seldom && is_now_and_then(found) { Weight::Note } else { found.weight },
    };
    codes.into_values().map(counted).collect()
}

/// The sensors without the comparison's own runners, which wait for their turn and have no work on
/// the GPU.
fn observed(round: &ModelRound<'_>, pass: &PassRecord) -> Option<Observed> {
    let seen = pass.observed?;
    // A side that knew of them has left them out already.
    let waiting = if seen.idle_processes.is_some() { 0 } else { round.waiting };
    Some(seen.beside_idle(waiting))
}

fn few_rounds(speed: &Speed) -> Option<Finding> {
    let rounds = speed.round_fps.len();
    (rounds < SPEED.rounds).then(|| {
        let sentence = format!(
            "{rounds} of at least {} rounds, too few to see how rounds differ; raise --rounds",
            SPEED.rounds
        );
        finding(Weight::Gap, "few_rounds", sentence)
    })
}

/// A side that ended early, for instance because a process hung, may have been slower before.
fn stopped(side: &SideResults<'_>) -> Option<Finding> {
    side.stopped_early().map(|sentence| finding(Weight::Gap, "stopped_early", sentence))
}

fn rounds_differ(speed: &Speed) -> Option<Finding> {
    let spread = stats::population_std(&speed.round_fps)? / stats::mean(&speed.round_fps)?;
    (spread > SPEED.round_spread).then(|| {
        let (low, high) = (stats::min(&speed.round_fps), stats::max(&speed.round_fps));
        let sentence = format!(
            "the spread of its rounds is {:.1} %, the limit {:.0} % ({:.2} to {:.2} FPS); leave \
             the machine alone and measure again",
            percent(spread),
            percent(SPEED.round_spread),
            low.unwrap_or(f64::NAN),
            high.unwrap_or(f64::NAN)
        );
        finding(Weight::Fault, "rounds_differ", sentence)
    })
}

fn tail_of_few(side: &SideResults<'_>, speed: &Speed) -> Option<Finding> {
    let missing: Vec<&str> = [("p50", speed.p50_ms), ("p95", speed.p95_ms), ("p99", speed.p99_ms)]
        .into_iter()
        .filter(|(_, value)| value.is_none() && !side.overlapping())
        .map(|(name, _)| name)
        .collect();
    (!missing.is_empty()).then(|| {
        let sentence = format!(
            "{} of {} frames: fewer than {} frames lie beyond; run more clips or rounds",
            missing.join(" and "),
            speed.later_frames,
            SPEED.frames_beyond
        );
        finding(Weight::Note, "tail_of_few", sentence)
    })
}

fn debug_build(side: &SideResults<'_>) -> Option<Finding> {
    let build = |round: &ModelRound<'_>| round.folder.environment.get("build").cloned();
    let debug = side.rounds.iter().filter_map(build).any(|build| build == "debug");
    debug.then(|| {
        let sentence = "segtrt was built without optimisation; build with --release".to_owned();
        finding(Weight::Fault, "debug_build", sentence)
    })
}

/// Judges a ratio: both sides, and differences between them.
pub(super) fn of_pair(
    sides: [(&SideResults<'_>, &Verdict); 2],
    ratio: Option<f64>,
    interval: Option<Interval>,
    interleaved: bool,
) -> Verdict {
    let [(a, left), (b, right)] = sides;
    let mut findings: Vec<Finding> =
        [left, right].iter().flat_map(|v| v.findings.clone()).collect();
    findings.extend(other_machine(a, b));
    findings.extend(clocks(a).zip(clocks(b)).and_then(|(x, y)| clocks::apart(&x, &y)));
    findings.extend(other_fidelity(a, b));
    findings.extend(width(ratio, interval));
    let clips = a.rounds.first().map_or(0, |round| {
        round.objects.keys().map(|key| &key.video).collect::<std::collections::BTreeSet<_>>().len()
    });
    if clips == 1 {
        let sentence = "one clip was run: the interval does not cover differences between clips; run more \
             clips";
        findings.push(finding(Weight::Note, "one_clip", sentence.to_owned()));
    }
    if !interleaved {
        let sentence = "the sides were possibly not measured in turn, so that a slow drift of the \
                        machine would show as a difference; let segtrt compare measure both";
        findings.push(finding(Weight::Note, "not_in_turn", sentence.to_owned()));
    }
    Verdict::of(findings)
}

fn other_machine(a: &SideResults<'_>, b: &SideResults<'_>) -> Option<Finding> {
    let fault = |what: &str, x: &str, y: &str| {
        let sentence = format!("{what}: {} ran on {x}, {} on {y}", a.name, b.name);
        finding(Weight::Fault, "other_machine", sentence)
    };
    if a.on_gpu() != b.on_gpu() {
        let (x, y) = (&a.conditions.device, &b.conditions.device);
        return (!x.is_empty() && !y.is_empty())
            .then(|| fault("the sides ran on different devices", x, y));
    }
    let differ = |fact: &dyn Fn(&SideResults<'_>) -> Option<String>, what: &str| {
        let (x, y) = (fact(a)?, fact(b)?);
        (x != y).then(|| fault(what, &x, &y))
    };
    differ(&|side| side.fact("gpu/uuid"), "the sides ran on different GPUs")
        .or_else(|| differ(&gpu_name, "the sides ran on different GPUs"))
        .or_else(|| differ(&|side| side.fact("processor"), "the sides ran on different processors"))
}

/// The GPU's name from its sensors, or from the rows, which some backends fill with a number only.
fn gpu_name(side: &SideResults<'_>) -> Option<String> {
    let device = &side.conditions.device;
    let is_name = side.on_gpu() && !device.starts_with("gpu ");
    side.fact("gpu/name").or_else(|| is_name.then(|| device.clone()))
}

/// Different resizing or hole filling changes masks. The masks show the effect; this note names the
/// cause.
fn other_fidelity(a: &SideResults<'_>, b: &SideResults<'_>) -> Option<Finding> {
    let (x, y) = (&a.conditions.fidelity, &b.conditions.fidelity);
    (x != y && !x.is_empty() && !y.is_empty()).then(|| {
        let sentence = format!("{} ran as {x} and {} as {y}", a.name, b.name);
        finding(Weight::Note, "other_fidelity", sentence)
    })
}

/// The clocks of a side; `None` if no sensor told them.
fn clocks<'a>(side: &SideResults<'a>) -> Option<Clocks<'a>> {
    let clocks = side.passes().filter_map(|(_, pass)| pass.observed?.sm_clock_mean_mhz);
    let is_limited = |(round, pass): (&ModelRound<'_>, &PassRecord)| {
        of_pass(side, round, pass).iter().any(|found| found.code == POWER_LIMITED)
    };
    let limited: Vec<bool> = side.passes().map(is_limited).collect();
    let is_long = |(round, pass): (&ModelRound<'_>, &PassRecord)| {
        verdict::is_long(&evidence(side, round, pass, pass.observed.as_ref()))
    };
    let is_set = |pass: &PassRecord| {
        let limits = pass.observed.and_then(|seen| seen.limits);
        limits.is_some_and(|limits| limits.iter().any(|limit| limit == Limit::ClocksSetting))
    };
    let limit = |round: &ModelRound<'_>| {
        round.folder.environment.get("gpu")?.get("power_limit_w")?.as_f64()
    };
    Some(Clocks {
        name: side.name,
        mean_mhz: stats::mean(&clocks.collect::<Vec<_>>())?,
        power_limited: !limited.contains(&false),
        ever_limited: limited.contains(&true),
        long: side.passes().all(is_long),
        clocks_set: side.passes().any(|(_, pass)| is_set(pass)),
        power_limits_w: side.rounds.iter().map(limit).collect(),
    })
}

fn width(ratio: Option<f64>, interval: Option<Interval>) -> Option<Finding> {
    let Some(Interval { low, high }) = interval else {
        let sentence = "one round of one clip has no interval; raise --rounds or run more clips";
        return Some(finding(Weight::Gap, "no_interval", sentence.to_owned()));
    };
    let half = (high - low) / 2.0 / ratio?;
    (half > SPEED.interval).then(|| {
        let sentence = format!(
            "the interval is the ratio ± {:.0} %, the limit {:.0} %; raise --rounds or run more \
             clips",
            percent(half),
            percent(SPEED.interval)
        );
        finding(Weight::Note, "wide_interval", sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_passes_may_be_disturbed() {
        // Twelve passes, the first of which have one of these codes each.
        let findings = |codes: &[&str]| {
            let mut passes = vec![Vec::new(); 12];
            for (pass, code) in passes.iter_mut().zip(codes) {
                pass.push(finding(Weight::Fault, code, "slower".into()));
            }
            together(&passes)
        };
        let weights = |codes: &[&str]| -> Vec<Weight> {
            findings(codes).into_iter().map(|found| found.weight).collect()
        };
        assert_eq!(weights(&["drift"; 3]), [Weight::Note]);
        assert_eq!(weights(&["unsteady"; 4]), [Weight::Fault]);
        assert_eq!(findings(&["drift"; 4])[0].sentence, "4 of 12 passes, the first: slower");
        // Passes count, whichever of the two codes they have.
        assert_eq!(weights(&["drift", "drift", "unsteady"]), [Weight::Note; 2]);
        assert_eq!(weights(&["drift", "drift", "unsteady", "unsteady"]), [Weight::Fault; 2]);
        // Throttling always counts.
        assert_eq!(weights(&["throttled"]), [Weight::Fault]);
    }
}
