/*!
Pairs of sides: which are compared in speed, and what may be said of each pair.
*/

use super::model::Entered;
use super::result::{Factor, Outcome, Ratio, SideReport, Withheld};
use super::{belief, bootstrap, bound, original, speed};
use vos::record::Verdict;

/// The subject against every other side; each further side that is not PyTorch against those that
/// are.
pub(super) fn ratios(
    entered: &[Entered<'_>],
    reports: &[SideReport],
    interleaved: bool,
) -> Vec<Ratio> {
    let sides: Vec<_> = entered.iter().zip(reports).collect();
    let mut found = Vec::new();
    for (at, subject) in sides.iter().enumerate() {
        if at > 0 && (original::is_pytorch(&subject.1.backend) || subject.0.is_err()) {
            continue;
        }
        // The first side's ratio to each other one is there already.
        for (other, baseline) in sides.iter().enumerate().skip(1) {
            if other != at && (at == 0 || original::is_pytorch(&baseline.1.backend)) {
                found.push(ratio(*subject, *baseline, interleaved));
            }
        }
    }
    found
}

/// A side has the masks of the reference.
fn as_reference(side: &SideReport) -> bool {
    matches!(side.outcome, Outcome::Reference | Outcome::Same)
}

/// The subject has the reference's masks, and PyTorch those of the original at its own precision:
/// the subject has done no less than was asked, and PyTorch what it does at that precision.
fn is_stricter(a: &SideReport, b: &SideReport) -> bool {
    as_reference(a) && b.outcome == Outcome::AsOriginal && original::is_pytorch(&b.backend)
}

/// Why the speeds of a subject and a baseline may not be compared though each is proven: their
/// masks are proven against different runs.
fn other_footing(a: &SideReport, b: &SideReport) -> Option<String> {
    let original = |side: &SideReport| {
        let found = side.as_original.as_ref().filter(|found| found.equality.same)?;
        Some(found.side.clone())
    };
    let same = (as_reference(a) && as_reference(b))
        || is_stricter(a, b)
        || original(a).is_some_and(|of| original(b) == Some(of));
    let whose = |side: &SideReport| match (as_reference(side), original(side)) {
        (true, _) => format!("{} has the reference's masks", side.side),
        (false, Some(of)) => format!("{} those of {of} {}", side.side, side.precision),
        (false, None) => format!("{} has its own", side.side),
    };
    (!same).then(|| format!("other masks: {}, {}", whose(a), whose(b)))
}

/// What a ratio says of its footing where that is not the reference alone: its sentence is read and
/// copied alone.
fn footing(a: &SideReport, b: &SideReport) -> String {
    let original = |side: &SideReport| {
        let found = side.as_original.as_ref().filter(|_| side.outcome == Outcome::AsOriginal)?;
        Some(format!("{} {}", found.side, side.precision))
    };
    match (original(a), original(b)) {
        (None, None) => String::new(),
        (Some(of), Some(_)) => format!(", both with the masks of {of} and not the reference's"),
        (None, Some(of)) => {
            format!(", {} with the reference's masks, {} with those of {of} alone", a.side, b.side)
        }
        (Some(of), None) => {
            format!(", {} with the masks of {of} alone, {} with the reference's", a.side, b.side)
        }
    }
}

fn ratio(
    (subject, a): (&Entered<'_>, &SideReport),
    (baseline, b): (&Entered<'_>, &SideReport),
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
            true => other_footing(a, b),
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
    found.verdict = belief::of_pair(sides, Some(ratio), interval, interleaved);
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
