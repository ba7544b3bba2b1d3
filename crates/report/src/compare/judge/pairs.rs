/*!
Pairs of sides: which are compared in speed, and the ratio of each.
*/

use super::result::{Factor, Outcome, Ratio, SideReport, Withheld};
use super::side_results::Admission;
use super::{bootstrap, bound, speed, validity};
use vos::record::Verdict;

/// The subject against every other side, and each further side except PyTorch's against PyTorch's.
pub(super) fn ratios(
    admissions: &[Admission<'_>],
    reports: &[SideReport],
    interleaved: bool,
) -> Vec<Ratio> {
    let sides: Vec<_> = admissions.iter().zip(reports).collect();
    let mut found = Vec::new();
    for (at, subject) in sides.iter().enumerate() {
        if at > 0 && (is_pytorch(subject.0) || subject.0.is_err()) {
            continue;
        }
        // The first side's ratios to all others exist already.
        for (other, baseline) in sides.iter().enumerate().skip(1) {
            if other != at && (at == 0 || is_pytorch(baseline.0)) {
                found.push(ratio(*subject, *baseline, interleaved));
            }
        }
    }
    found
}

/// PyTorch ran the side.
fn is_pytorch(side: &Admission<'_>) -> bool {
    side.as_ref().is_ok_and(|side| side.pytorch().is_some())
}

/// A side has the reference's masks.
fn as_reference(side: &SideReport) -> bool {
    matches!(side.outcome, Outcome::Reference | Outcome::Same)
}

/// The subject has the reference's masks, and PyTorch those of the original at its precision. So
/// the subject did at least the work that PyTorch does at that precision.
fn is_stricter(a: &SideReport, (baseline, b): (&Admission<'_>, &SideReport)) -> bool {
    as_reference(a) && b.outcome == Outcome::AsOriginal && is_pytorch(baseline)
}

/// Why the speeds of two proven sides may not be compared: their masks are proven against different
/// runs.
fn other_footing(a: &SideReport, (baseline, b): (&Admission<'_>, &SideReport)) -> Option<String> {
    let original = |side: &SideReport| {
        let found = side.as_original.as_ref().filter(|found| found.equality.same)?;
        Some(found.side.clone())
    };
    let same = (as_reference(a) && as_reference(b))
        || is_stricter(a, (baseline, b))
        || original(a).is_some_and(|of| original(b) == Some(of));
    let whose = |side: &SideReport| match (as_reference(side), original(side)) {
        (true, _) => format!("{} has the reference's masks", side.side),
        (false, Some(of)) => format!("{} those of {of} {}", side.side, side.precision),
        (false, None) => format!("{} has neither", side.side),
    };
    (!same).then(|| format!("other masks: {}, {}", whose(a), whose(b)))
}

/// The addition to a ratio's sentence if the masks are not the reference's. The sentence is often
/// copied alone.
fn footing(a: &SideReport, b: &SideReport) -> String {
    let original = |side: &SideReport| {
        let found = side.as_original.as_ref().filter(|_| side.outcome == Outcome::AsOriginal)?;
        Some(format!("{} {}", found.side, side.precision))
    };
    match (original(a), original(b)) {
        (None, None) => String::new(),
        (Some(of), Some(_)) => format!(", both with the masks of {of}, not the reference's"),
        (None, Some(of)) => {
            format!(", {} with the reference's masks, {} only with those of {of}", a.side, b.side)
        }
        (Some(of), None) => {
            format!(", {} only with the masks of {of}, {} with the reference's", a.side, b.side)
        }
    }
}

fn ratio(
    (subject, a): (&Admission<'_>, &SideReport),
    (baseline, b): (&Admission<'_>, &SideReport),
    interleaved: bool,
) -> Ratio {
    let unproven: Vec<String> = [a, b]
        .iter()
        .filter(|report| !report.outcome.is_proven())
        .map(|report| {
            let why = report.why.as_deref().unwrap_or("no reason");
            format!("{} {}: {why}", report.side, report.outcome.as_str())
        })
        .collect();
    let mut found = Ratio {
        subject: a.side.clone(),
        baseline: b.side.clone(),
        times_as_fast: None,
        withheld: None,
        at_least: None,
        why: match unproven.is_empty() {
            true => other_footing(a, (baseline, b)),
            false => Some(unproven.join("; ")),
        },
        sentence: format!("{} and {} cannot be compared", a.side, b.side),
        verdict: Verdict::default(),
    };
    let (Ok(subject), Ok(baseline)) = (subject, baseline) else { return found };
    let (left, right) = (speed::cells(subject), speed::cells(baseline));
    let Some(ratio) = bootstrap::ratio(&left, &right) else { return found };
    let interval = bootstrap::interval(&left, &right);
    let factor = Factor { ratio, interval };
    let sides = [(subject, &a.verdict), (baseline, &b.verdict)];
    found.verdict = validity::of_pair(sides, Some(ratio), interval, interleaved);
    match &found.why {
        None => {
            let name = |report: &SideReport| format!("{} {}", report.side, report.precision);
            found.sentence = format!(
                "{} is {} times as fast as {}{}",
                name(a),
                factor.text(),
                name(b),
                footing(a, b)
            );
            found.times_as_fast = Some(factor);
            if bound::is_due(&found.verdict, &b.verdict) {
                found.at_least = bound::at_least(subject, baseline);
            }
        }
        Some(why) => {
            found.withheld = Some(Withheld { why: why.clone(), not_to_be_published: factor });
        }
    }
    found
}
