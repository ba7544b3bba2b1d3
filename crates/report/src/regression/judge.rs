/*!
Which changes are regressions.

Each number of a model has one value for each recorded pass. Passes vary by noise, so a slowdown
counts only if it exceeds the limit *and* the noise:

- the change is the relative change of the passes' medians;
- it exceeds the noise if the ranges of the two runs' passes, from lowest to highest, do not
  overlap; of ten or more passes a tenth is dropped at each end, so that one outlier hides nothing;
- a change above the limit but within the noise is `unclear`: it is reported and is a failure only
  with `--strict`.

One pass has no spread: its range is a point. For two equally fast runs with three passes each, the
ranges separate in the bad direction by chance in one check of twenty, before the limit applies.

Memory follows the same rule for changes of at least one MiB. J&F, J and F are equal in all passes,
so only their limit counts. Percentiles without a frame beyond them are shown and not judged.
*/

use serde::Serialize;

use super::differ::pairs;
use super::metric::{LimitKind, Metric, Range};
use super::run::{ModelRun, ObjectRun, RunSummary};

/// Smallest change of memory that counts, MiB.
const LEAST_MEMORY_MIB: f64 = 1.0;

/// Points of J&F in the value 1.
const POINTS: f64 = 100.0;

/// Tolerance for limits that are met exactly, because decimal sums are not exact.
const ROUNDING: f64 = 1e-9;

/// Allowed changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Relative loss of frames per second, or gain of latency.
    pub slowdown: f64,
    /// Relative gain of memory.
    pub memory: f64,
    /// Loss of J&F, J and F in points of 100.
    pub jf_points: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { slowdown: 0.03, memory: 0.03, jf_points: 0.1 }
    }
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeVerdict {
    /// Within the limit.
    Same,
    /// Better by more than the limit, beyond the noise.
    Better,
    /// Worse by more than the limit, but within the noise.
    Unclear,
    /// Worse by more than the limit, beyond the noise.
    Worse,
    /// The run does not have the number.
    Missing,
    /// The clips are too short for this percentile.
    NotJudged,
}

/// A number of a model in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricChange {
    /// The model's tag.
    pub model: String,
    /// Its precision and size, which distinguish configurations of one tag.
    pub configuration: String,
    /// The number.
    pub metric: Metric,
    /// In the baseline.
    pub was: Range,
    /// In the run; `None` if it has none.
    pub is: Option<Range>,
    /// Relative change; for J&F, J and F the difference in points. Positive is more.
    pub change: Option<f64>,
    /// The limit in the same unit.
    pub limit: f64,
    /// The result.
    pub judgement: ChangeVerdict,
}

/// An object that only the baseline has measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The model's tag.
    pub model: String,
    /// Clip and object.
    pub object: String,
    /// The reason in the run.
    pub reason: Option<String>,
}

/// A finished check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Check {
    /// All numbers, model by model.
    pub comparisons: Vec<MetricChange>,
    /// Objects that only the baseline has measured.
    pub lost: Vec<Lost>,
}

impl Check {
    /// Number of comparisons with this result.
    pub fn count(&self, judgement: ChangeVerdict) -> usize {
        self.comparisons.iter().filter(|comparison| comparison.judgement == judgement).count()
    }

    /// Numbers for which some model's clips are too short, each once, in the order of the table.
    pub fn not_judged(&self) -> Vec<Metric> {
        let is_not = |metric: &Metric| {
            let of = |found: &MetricChange| {
                found.metric == *metric && found.judgement == ChangeVerdict::NotJudged
            };
            self.comparisons.iter().any(of)
        };
        Metric::ALL.into_iter().filter(is_not).collect()
    }

    /// Whether something is worse, missing or lost; with `strict` also whether something is
    /// unclear.
    pub fn has_failed(&self, strict: bool) -> bool {
        let bad =
            [ChangeVerdict::Worse, ChangeVerdict::Missing].map(|judgement| self.count(judgement));
        bad.iter().sum::<usize>() + self.lost.len() > 0
            || (strict && self.count(ChangeVerdict::Unclear) > 0)
    }
}

/// Compares the models and objects of both runs; [`super::differences`] decides whether they are
/// comparable.
pub fn check(was: &RunSummary, now: &RunSummary, limits: &Limits) -> Check {
    let mut check = Check::default();
    for (model, partner) in pairs(was, now) {
        if let Some(partner) = partner {
            compare_models(model, partner, limits, &mut check);
        }
    }
    check
}

fn compare_models(was: &ModelRun, now: &ModelRun, limits: &Limits, check: &mut Check) {
    let both = was.objects.iter().filter(|object| !object.passes.is_empty()).filter_map(|object| {
        let other = now.objects.iter().find(|other| other.key() == object.key())?;
        Some((object, other))
    });
    let (there, lost): (Vec<_>, Vec<_>) = both.partition(|(_, other)| !other.passes.is_empty());
    check.lost.extend(lost.into_iter().map(|(object, other)| Lost {
        model: was.model.clone(),
        object: format!("{}/{}", object.video, object.object),
        reason: other.reason.clone(),
    }));
    let configuration = was.configuration();
    for metric in Metric::ALL {
        let with: Vec<_> = there.iter().filter(|(object, _)| metric.is_in(object)).collect();
        let before: Vec<&ObjectRun> = with.iter().map(|(object, _)| *object).collect();
        let after: Vec<&ObjectRun> = with.iter().map(|(_, other)| *other).collect();
        let Some(old) = metric.range_of(&before) else { continue };
        let new = metric.range_of(&after);
        let long_enough = metric.can_be_judged(&before) && metric.can_be_judged(&after);
        let (change, judgement) = match new {
            Some(new) => judge(metric, old, new, limits, long_enough),
            None => (None, ChangeVerdict::Missing),
        };
        check.comparisons.push(MetricChange {
            model: was.model.clone(),
            configuration: configuration.clone(),
            metric,
            was: old,
            is: new,
            change,
            limit: limit(metric, limits),
            judgement,
        });
    }
}

fn limit(metric: Metric, limits: &Limits) -> f64 {
    match metric.kind() {
        LimitKind::Speed => limits.slowdown,
        LimitKind::Memory => limits.memory,
        LimitKind::Quality => limits.jf_points,
    }
}

/// The change from `old` to `new`, and whether it counts.
pub(super) fn judge(
    metric: Metric,
    old: Range,
    new: Range,
    limits: &Limits,
    long_enough: bool,
) -> (Option<f64>, ChangeVerdict) {
    let difference = new.middle - old.middle;
    let change = match metric.kind() {
        LimitKind::Quality => difference * POINTS,
        // A change from zero exceeds any limit.
        _ if old.middle == 0.0 && difference != 0.0 => f64::INFINITY.copysign(difference),
        _ if old.middle == 0.0 => 0.0,
        _ => difference / old.middle,
    };
    let judgement = match long_enough {
        true => weigh(metric, old, new, change, limit(metric, limits)),
        false => ChangeVerdict::NotJudged,
    };
    (Some(change).filter(|change| change.is_finite()), judgement)
}

fn weigh(metric: Metric, old: Range, new: Range, change: f64, limit: f64) -> ChangeVerdict {
    let worsening = if metric.more_is_better() { -change } else { change };
    let minor =
        metric.kind() == LimitKind::Memory && (new.middle - old.middle).abs() < LEAST_MEMORY_MIB;
    if minor || worsening.abs() <= limit + ROUNDING {
        return ChangeVerdict::Same;
    }
    let apart = new.high < old.low || old.high < new.low;
    match (worsening > 0.0, apart || metric.kind() == LimitKind::Quality) {
        (true, true) => ChangeVerdict::Worse,
        (true, false) => ChangeVerdict::Unclear,
        (false, true) => ChangeVerdict::Better,
        (false, false) => ChangeVerdict::Same,
    }
}

#[cfg(test)]
mod tests;
