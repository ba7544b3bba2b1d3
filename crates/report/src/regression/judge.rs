/*!
What counts as worse.

Each number of a model has one value for each recorded pass. Passes of one run differ by the
machine's own noise, so a slowdown counts only if it is beyond the limit *and* beyond that noise:

- its change is that of the passes' medians, over the baseline's;
- it is beyond the noise where the ranges of the two runs' passes, from lowest to highest, do not
  overlap; of ten passes and more a tenth is left out at each end, so that one odd pass hides
  nothing;
- beyond the limit but within the noise it is `unclear`: told, and no failure unless asked for
  (`--strict`).

One pass has no spread: its range is a point. Of two runs with three passes each that are equally
fast, the ranges come apart in the bad direction by chance in one check of twenty, before the limit
is looked at.

Memory follows the same rule, from one MiB of change on. J&F, J and F are the same in every pass, so
their limit alone decides. Percentiles of clips too short to have a frame beyond them are shown and
not judged.
*/

use serde::Serialize;

use super::differ::pairs;
use super::metric::{Kind, Metric, Range};
use super::run::{ModelRun, ObjectRun, Run};

/// Memory that nobody minds, MiB.
const LEAST_MEMORY_MIB: f64 = 1.0;

/// Points of J&F in one.
const POINTS: f64 = 100.0;

/// For limits that are met exactly: sums of decimals are not exact.
const ROUNDING: f64 = 1e-9;

/// What is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Loss of frames per second, or gain of latency, over the baseline's.
    pub slowdown: f64,
    /// Gain of memory over the baseline's.
    pub memory: f64,
    /// Loss of J&F, J and F in points of a hundred.
    pub jf_points: f64,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Within the limit.
    Same,
    /// Better by more than the limit, beyond the noise.
    Better,
    /// Worse by more than the limit, but within the noise.
    Unclear,
    /// Worse by more than the limit, beyond the noise.
    Worse,
    /// The baseline has it and the run has not.
    Missing,
    /// The clips are too short for this percentile.
    NotJudged,
}

/// One number of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The model's tag.
    pub model: String,
    /// Its precision and size, which tell two configurations of one tag apart.
    pub configuration: String,
    /// Which number.
    pub metric: Metric,
    /// In the baseline.
    pub was: Range,
    /// In the run; `None` where it has none.
    pub is: Option<Range>,
    /// Relative to the baseline; of J&F, J and F in points. Positive is more.
    pub change: Option<f64>,
    /// The limit that it was held against, in the same unit.
    pub limit: f64,
    /// What it says.
    pub judgement: Judgement,
}

/// An object that was measured and is not any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The model's tag.
    pub model: String,
    /// Clip and object.
    pub object: String,
    /// What the run says about it.
    pub reason: Option<String>,
}

/// A finished check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Check {
    /// All numbers, model by model.
    pub comparisons: Vec<Comparison>,
    /// Objects without numbers that had some.
    pub lost: Vec<Lost>,
}

impl Check {
    /// How many comparisons say this.
    pub fn count(&self, judgement: Judgement) -> usize {
        self.comparisons.iter().filter(|comparison| comparison.judgement == judgement).count()
    }

    /// The numbers that some model's clips are too short for, each once, in the order of the table.
    pub fn not_judged(&self) -> Vec<Metric> {
        let is_not = |metric: &Metric| {
            let of = |found: &Comparison| {
                found.metric == *metric && found.judgement == Judgement::NotJudged
            };
            self.comparisons.iter().any(of)
        };
        Metric::ALL.into_iter().filter(is_not).collect()
    }

    /// Something is worse, missing or lost; with `strict` also what is unclear.
    pub fn has_failed(&self, strict: bool) -> bool {
        let bad = [Judgement::Worse, Judgement::Missing].map(|judgement| self.count(judgement));
        bad.iter().sum::<usize>() + self.lost.len() > 0
            || (strict && self.count(Judgement::Unclear) > 0)
    }
}

/// Compares what both have; whether they may be compared at all is [`super::differences`]'s
/// business.
pub fn check(was: &Run, now: &Run, limits: &Limits) -> Check {
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
    let condition = |name: &str| was.conditions.get(name).map_or("", String::as_str);
    let configuration = format!("{} {}", condition("imgsz"), condition("precision"));
    for metric in Metric::ALL {
        let with: Vec<_> = there.iter().filter(|(object, _)| metric.is_in(object)).collect();
        let before: Vec<&ObjectRun> = with.iter().map(|(object, _)| *object).collect();
        let after: Vec<&ObjectRun> = with.iter().map(|(_, other)| *other).collect();
        let Some(old) = metric.range_of(&before) else { continue };
        let new = metric.range_of(&after);
        let long_enough = metric.can_be_judged(&before) && metric.can_be_judged(&after);
        let (change, judgement) = match new {
            Some(new) => judge(metric, old, new, limits, long_enough),
            None => (None, Judgement::Missing),
        };
        check.comparisons.push(Comparison {
            model: was.model.clone(),
            configuration: configuration.trim().to_owned(),
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
        Kind::Speed => limits.slowdown,
        Kind::Memory => limits.memory,
        Kind::Quality => limits.jf_points,
    }
}

fn judge(
    metric: Metric,
    old: Range,
    new: Range,
    limits: &Limits,
    long_enough: bool,
) -> (Option<f64>, Judgement) {
    let difference = new.middle - old.middle;
    let change = match metric.kind() {
        Kind::Quality => difference * POINTS,
        // From nothing to something is more than any limit.
        _ if old.middle == 0.0 && difference != 0.0 => f64::INFINITY.copysign(difference),
        _ if old.middle == 0.0 => 0.0,
        _ => difference / old.middle,
    };
    let judgement = match long_enough {
        true => weigh(metric, old, new, change, limit(metric, limits)),
        false => Judgement::NotJudged,
    };
    (Some(change).filter(|change| change.is_finite()), judgement)
}

fn weigh(metric: Metric, old: Range, new: Range, change: f64, limit: f64) -> Judgement {
    let worsening = if metric.more_is_better() { -change } else { change };
    let minor = metric.kind() == Kind::Memory && (new.middle - old.middle).abs() < LEAST_MEMORY_MIB;
    if minor || worsening.abs() <= limit + ROUNDING {
        return Judgement::Same;
    }
    let apart = new.high < old.low || old.high < new.low;
    match (worsening > 0.0, apart || metric.kind() == Kind::Quality) {
        (true, true) => Judgement::Worse,
        (true, false) => Judgement::Unclear,
        (false, true) => Judgement::Better,
        (false, false) => Judgement::Same,
    }
}

#[cfg(test)]
mod tests;
