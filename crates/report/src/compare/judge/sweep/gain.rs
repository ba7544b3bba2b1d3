/*!
The gain of a point: its rate over that of the point before and of the first point.
*/

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SweepRow;
use crate::compare::judge::bootstrap::{self, Cell, Rounds};
use crate::compare::judge::result::Factor;
use crate::compare::judge::side_results::SideResults;
use crate::compare::sweep::{Axis, steps_before};
use vos::record::Judgement;
use vos::verdict::POWER_LIMITED;

/// The rate of a point over that of another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gain {
    /// The other point.
    pub of: String,
    /// Frames of single objects a second over those of the other point.
    pub times: Factor,
    /// One of the two speeds is INVALID, or exactly one of them is at the power limit.
    pub invalid: bool,
}

impl Gain {
    /// `2.13 ± 0.04 ×`; in brackets if it is [`Self::invalid`].
    pub fn text(&self) -> String {
        let text = format!("{} ×", self.times.text());
        if self.invalid { format!("({text})") } else { text }
    }
}

/// Frames of single objects and their time in each round and clip. Objects that are tracked
/// together share their frames' times, which count once for a group. If a clip's last group is
/// smaller, its groups count as equal.
pub(super) fn object_cells(side: &SideResults<'_>, together: usize) -> Rounds {
    let round = |round: &crate::compare::judge::side_results::ModelRound<'_>| {
        let mut clips: BTreeMap<&str, (usize, Cell)> = BTreeMap::new();
        for (key, passes) in &round.objects {
            let (objects, cell) = clips.entry(&key.video).or_default();
            *objects += 1;
            for frame in passes.iter().flat_map(|pass| &pass.frames) {
                cell.frames += 1.0;
                cell.seconds += frame.time.ms() / 1000.0;
            }
        }
        let share = |(objects, mut cell): (usize, Cell)| {
            cell.seconds *= objects.div_ceil(together.max(1)) as f64 / objects as f64;
            cell
        };
        clips.into_values().map(share).collect()
    };
    side.rounds.iter().map(round).collect()
}

/// Fills the gains of a model's rows. `cells` has each row's frames and times; none for a row
/// without a speed. A step goes to the nearest point before that has a speed.
pub(super) fn fill(axes: &[Axis], rows: &mut [SweepRow], cells: &[Option<Rounds>]) {
    let gain = |rows: &[SweepRow], at: usize, other: usize| {
        let (own, others) = (cells.get(at)?.as_ref()?, cells.get(other)?.as_ref()?);
        let ratio = bootstrap::ratio(own, others)?;
        let is_invalid = |at: usize| rows[at].verdict.judgement == Judgement::Invalid;
        // A point with clocks that it may not hold is not compared with one at the power limit.
        let is_limited = |at: usize| rows[at].verdict.find(POWER_LIMITED).is_some();
        Some(Gain {
            of: rows[other].combination.clone(),
            times: Factor { ratio, interval: bootstrap::interval(own, others) },
            invalid: is_invalid(at) || is_invalid(other) || is_limited(at) != is_limited(other),
        })
    };
    let has_speed = |at: &usize| cells.get(*at).is_some_and(Option::is_some);
    let first = (0..rows.len()).find(has_speed);
    for at in 0..rows.len() {
        let before = steps_before(axes, at).into_iter().find(has_speed);
        rows[at].gain_to_previous = before.and_then(|before| gain(rows, at, before));
        rows[at].gain_to_first =
            first.filter(|first| *first < at).and_then(|first| gain(rows, at, first));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::record::{Finding, Verdict, Weight};

    fn cells(seconds: &[f64]) -> Option<Rounds> {
        Some(seconds.iter().map(|&seconds| vec![Cell { frames: 10.0, seconds }]).collect())
    }

    #[test]
    fn a_step_passes_over_a_point_without_a_speed() {
        let axes = ["encode_batch=1,2,4,8".parse::<Axis>().unwrap()];
        let row = |name: &str| SweepRow { combination: name.to_owned(), ..SweepRow::default() };
        let mut rows = ["1", "2", "4", "8"].map(row);
        rows[3].verdict.judgement = Judgement::Invalid;
        let of = [cells(&[4.0, 4.0]), cells(&[2.0, 2.0]), None, cells(&[1.0, 1.0])];
        fill(&axes, &mut rows, &of);
        let text = |gain: &Option<Gain>| {
            gain.as_ref()
                .map_or_else(|| "-".to_owned(), |gain| format!("{} {}", gain.of, gain.text()))
        };
        let shown = rows.map(|row| [text(&row.gain_to_previous), text(&row.gain_to_first)]);
        assert_eq!(shown[0], ["-", "-"]);
        assert_eq!(shown[1], ["1 2.000 ± 0.000 ×", "1 2.000 ± 0.000 ×"]);
        assert_eq!(shown[2], ["-", "-"]);
        assert_eq!(shown[3], ["2 (2.000 ± 0.000 ×)", "1 (4.000 ± 0.000 ×)"]);
    }

    #[test]
    fn a_point_at_the_power_limit_has_a_gain_only_to_one_that_is_there_too() {
        let axes = ["lanes=1,2,4".parse::<Axis>().unwrap()];
        let row = |name: &str| SweepRow { combination: name.to_owned(), ..SweepRow::default() };
        let mut rows = ["1", "2", "4"].map(row);
        for row in &mut rows[1..] {
            let (code, sentence) = (POWER_LIMITED.to_owned(), String::new());
            row.verdict = Verdict::of(vec![Finding { code, sentence, weight: Weight::Note }]);
        }
        fill(&axes, &mut rows, &[cells(&[4.0]), cells(&[2.0]), cells(&[1.0])]);
        let invalid = |gain: &Option<Gain>| gain.as_ref().map(|gain| gain.invalid);
        assert_eq!(invalid(&rows[1].gain_to_previous), Some(true));
        let [last, first] = [&rows[2].gain_to_previous, &rows[2].gain_to_first].map(invalid);
        assert_eq!((last, first), (Some(false), Some(true)));
    }
}
