/*!
Numbers of a model over the runs, and the runs at which a number changed its level.

A level is the runs since the last change. Each further run is compared with its level by the rule
of a baseline check (see [`super::super::judge`]): the run begins a new level if its median differs
from the median of all the level's passes by more than the limit, and if the ranges of both do not
overlap. The level's range includes the variation between runs, which one baseline does not know.
*/

use serde::Serialize;

use super::{Entry, History};
use crate::regression::differ::pairs;
use crate::regression::judge::{ChangeVerdict, Limits, judge};
use crate::regression::metric::{Metric, Range};
use crate::regression::run::{ModelRun, ObjectRun};

/// The numbers of a history, in the order of its table.
pub const METRICS: [Metric; 6] = [
    Metric::Fps,
    Metric::P95Ms,
    Metric::P99Ms,
    Metric::GpuPeakAllocMib,
    Metric::CpuPeakRssMib,
    Metric::JandF,
];

/// A number of a model over the runs.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The model's tag.
    pub model: String,
    /// Its size and precision.
    pub configuration: String,
    /// The number.
    pub metric: Metric,
    /// Its values, oldest first.
    pub points: Vec<Point>,
    /// The runs at which its level changed, oldest first.
    pub changes: Vec<LevelChange>,
}

/// A number in one run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Index of the run.
    pub entry: usize,
    /// Median and range of its passes; `None` if the run lacks it, for some object or all.
    pub range: Option<Range>,
}

/// A run at which a number changed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LevelChange {
    /// Index of the run.
    pub entry: usize,
    /// All passes of the level before.
    pub was: Range,
    /// The run's passes; `None` if it lacks the number.
    pub is: Option<Range>,
    /// Relative change; for J&F the difference in points. Positive is more.
    pub change: Option<f64>,
    /// Better, worse or missing.
    pub verdict: ChangeVerdict,
}

impl LevelChange {
    /// Whether the run is worse.
    pub fn is_regression(&self) -> bool {
        matches!(self.verdict, ChangeVerdict::Worse | ChangeVerdict::Missing)
    }
}

/// All numbers of all models, in the order of the first run with the model.
pub fn series(history: &History, limits: &Limits) -> Vec<Series> {
    let lines = models(&history.entries);
    let numbers = lines.iter().flat_map(|line| METRICS.map(|metric| one(line, metric, limits)));
    numbers.flatten().collect()
}

/// The runs of each model: index and model. A model in two configurations is followed by its like.
fn models(entries: &[Entry]) -> Vec<Vec<(usize, &ModelRun)>> {
    let mut lines: Vec<Vec<(usize, &ModelRun)>> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| entries.get(before));
        let partners = before.map(|before| pairs(&before.run, &entry.run)).unwrap_or_default();
        for model in &entry.run.models {
            let is_partner = |(_, now): &&(_, Option<&ModelRun>)| {
                now.is_some_and(|now| std::ptr::eq(now, model))
            };
            let was = partners.iter().find(is_partner).map(|(was, _)| *was);
            let known = lines.iter_mut().find(|line| {
                line.last().is_some_and(|(_, last)| was.is_some_and(|was| std::ptr::eq(*last, was)))
            });
            match known {
                Some(line) => line.push((at, model)),
                None => lines.push(vec![(at, model)]),
            }
        }
    }
    lines
}

/// One number of a model; `None` if no run has it.
fn one(line: &[(usize, &ModelRun)], metric: Metric, limits: &Limits) -> Option<Series> {
    let (mut points, mut changes) = (Vec::new(), Vec::new());
    let (mut level, mut long_enough): (Vec<f64>, bool) = (Vec::new(), true);
    let mut scored = 0;
    for (entry, model) in line {
        // Some objects have no J and F in any run: too few of their frames are annotated.
        let with = model.objects.iter().filter(|object| metric.is_in(object));
        let objects: Vec<&ObjectRun> = with.collect();
        // The mean of fewer objects is another number.
        let range = metric.range_of(&objects).filter(|_| objects.len() >= scored);
        scored = scored.max(objects.len());
        points.push(Point { entry: *entry, range });
        long_enough &= metric.can_be_judged(&objects);
        if let Some(was) = Range::of(&level) {
            let (change, verdict) = match range {
                Some(is) => judge(metric, was, is, limits, long_enough),
                None => (None, ChangeVerdict::Missing),
            };
            let is_new = match verdict {
                ChangeVerdict::Better | ChangeVerdict::Worse => true,
                // A number that stays away is named once.
                ChangeVerdict::Missing => points.iter().rev().nth(1).is_some_and(Point::is_known),
                _ => false,
            };
            if is_new {
                changes.push(LevelChange { entry: *entry, was, is: range, change, verdict });
            }
            if matches!(verdict, ChangeVerdict::Better | ChangeVerdict::Worse) {
                level.clear();
            }
        }
        if range.is_some() {
            level.extend(metric.of_model(&objects));
        }
    }
    points.iter().any(Point::is_known).then(|| Series {
        model: line[0].1.model.clone(),
        configuration: line[0].1.configuration(),
        metric,
        points,
        changes,
    })
}

impl Point {
    fn is_known(&self) -> bool {
        self.range.is_some()
    }
}
