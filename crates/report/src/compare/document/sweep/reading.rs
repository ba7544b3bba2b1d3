/*!
What a sweep says, in sentences: the fastest point, the slowest stage along each curve, points
without a speed.
*/

use super::fit;
use crate::compare::judge::{Fastest, SweepResult, SweepRow, fastest};
use crate::compare::sweep::{Axis, curves};

/// The sentences, model by model.
pub fn remarks(result: &SweepResult) -> Vec<String> {
    let mut lines = Vec::new();
    for (model, rows) in result.models() {
        lines.push(format!("{model}: {}", fastest_of(&result.rows, model)));
        lines.extend(
            slowest_stages(&result.axes, &rows).iter().map(|line| format!("{model}: {line}")),
        );
        let fits = fit::per_object(&result.axes, &rows);
        lines.extend(fits.iter().map(|line| format!("{model}: {line}")));
        for row in rows.iter().filter(|row| !row.outcome.is_proven()) {
            let why = row.why.as_deref().unwrap_or("no reason");
            lines.push(format!("{model} {}: {}: {why}", row.combination, row.outcome.as_str()));
        }
        for row in rows.iter().filter(|row| row.speed.is_some()) {
            lines.extend(row.verdict.findings.iter().map(|finding| {
                let word = row.verdict.judgement.as_str();
                format!(
                    "{model} {} {word}: {}: {}",
                    row.combination, finding.code, finding.sentence
                )
            }));
        }
        let missing = rows.iter().filter_map(|row| Some((row, row.no_nsys_report.as_ref()?)));
        lines.extend(
            missing.map(|(row, why)| format!("{model} {}: no nsys report: {why}", row.combination)),
        );
    }
    lines
}

/// Along each curve with two or more speeds: the slowest stage, and where another one becomes so.
pub fn slowest_stages(axes: &[Axis], rows: &[&SweepRow]) -> Vec<String> {
    let mut lines = Vec::new();
    for curve in curves(axes) {
        let axis = &axes[curve.axis];
        let value = |row: &SweepRow| {
            let found = row.point.iter().find(|coordinate| coordinate.setting == axis.setting);
            found.map_or_else(String::new, |coordinate| coordinate.value.clone())
        };
        let mut runs: Vec<(&str, Vec<String>)> = Vec::new();
        for row in curve.points.iter().filter_map(|at| rows.get(*at)) {
            let Some((stage, _)) = &row.slowest_stage else { continue };
            match runs.last_mut().filter(|(known, _)| known == stage) {
                Some((_, values)) => values.push(value(row)),
                None => runs.push((stage, vec![value(row)])),
            }
        }
        if runs.iter().map(|(_, values)| values.len()).sum::<usize>() < 2 {
            continue;
        }
        let others = match curve.others.as_str() {
            "" => String::new(),
            others => format!(" ({others})"),
        };
        let name = axis.setting.name();
        lines.push(match runs.as_slice() {
            [(stage, _)] => {
                format!("the slowest stage is {stage} at every value of {name}{others}")
            }
            _ => {
                let parts =
                    runs.iter().map(|(stage, values)| format!("{stage} at {}", values.join(", ")));
                let parts: Vec<String> = parts.collect();
                format!("the slowest stage changes along {name}{others}: {}", parts.join("; "))
            }
        });
    }
    lines
}

/// The fastest combination of a model, or the reason why there is none.
pub fn fastest_of(rows: &[SweepRow], model: &str) -> String {
    let fps = |row: &SweepRow| {
        format!("{:.2} frames of single objects a second", row.object_fps.unwrap_or(f64::NAN))
    };
    let gain = |row: &SweepRow| {
        row.gain_to_first
            .as_ref()
            .map_or_else(String::new, |gain| format!(", {} the rate of {}", gain.text(), gain.of))
    };
    let stage = |row: &SweepRow| {
        row.slowest_stage.as_ref().map_or_else(String::new, |(name, ms)| {
            format!("; its slowest stage is {name}, {ms:.2} ms a frame")
        })
    };
    match fastest(rows, model) {
        Fastest::Of(row) => {
            format!("fastest is {}, {}{}{}", row.combination, fps(row), gain(row), stage(row))
        }
        Fastest::Alone(row) => format!(
            "cannot name a fastest combination: only {} has a valid speed, {}{}",
            row.combination,
            fps(row),
            stage(row)
        ),
        Fastest::Invalid(1) => {
            "cannot name a fastest combination: the only speed is INVALID".to_owned()
        }
        Fastest::Invalid(count) => {
            format!("cannot name a fastest combination: all {count} speeds are INVALID")
        }
        Fastest::Unknown => "no combination has a speed to show".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::judge::Outcome;
    use crate::compare::sweep::{Coordinate, Setting};
    use vos::record::{Judgement, Verdict};

    /// A row of model "m" with this speed, if any.
    fn row(combination: &str, object_fps: Option<f64>, judgement: Judgement) -> SweepRow {
        SweepRow {
            model: "m".to_owned(),
            combination: combination.to_owned(),
            outcome: if object_fps.is_some() { Outcome::Same } else { Outcome::NotAvailable },
            object_fps,
            slowest_stage: Some(("encoder".to_owned(), 2.5)),
            verdict: Verdict { judgement, findings: Vec::new() },
            ..SweepRow::default()
        }
    }

    #[test]
    fn a_fastest_needs_two_valid_speeds() {
        let (slow, quick) =
            (row("a", Some(10.0), Judgement::Valid), row("b", Some(20.0), Judgement::Unjudged));
        let invalid = row("c", Some(30.0), Judgement::Invalid);
        let failed = row("d", None, Judgement::Unjudged);
        let remark = |rows: &[&SweepRow]| {
            let rows = rows.iter().map(|row| (*row).clone()).collect();
            remarks(&SweepResult { rows, ..SweepResult::default() }).remove(0)
        };
        let two = "m: fastest is b, 20.00 frames of single objects a second; its slowest stage is \
                   encoder, 2.50 ms a frame";
        assert_eq!(remark(&[&slow, &quick]), two);
        assert_eq!(remark(&[&slow, &quick, &invalid, &failed]), two);
        for rows in [&[&slow, &failed][..], &[&invalid, &slow], &[&slow]] {
            let remark = remark(rows);
            assert!(
                remark.starts_with(
                    "m: cannot name a fastest combination: only a has a valid speed, 10.00 frames"
                ),
                "{remark}"
            );
            assert!(remark.contains("its slowest stage is encoder"), "{remark}");
        }
        assert!(remark(&[&invalid, &invalid]).ends_with("all 2 speeds are INVALID"));
        assert!(remark(&[&invalid, &failed]).ends_with("the only speed is INVALID"));
        assert_eq!(remark(&[&failed]), "m: no combination has a speed to show");
    }

    #[test]
    fn the_slowest_stage_is_followed_along_the_axis() {
        let axes = ["encode_batch=1,2,4,8,16".parse::<Axis>().unwrap()];
        let point = |(value, stage): (&&str, &str)| SweepRow {
            point: vec![Coordinate { setting: Setting::EncodeBatch, value: (*value).to_owned() }],
            slowest_stage: (!stage.is_empty()).then(|| (stage.to_owned(), 1.0)),
            ..SweepRow::default()
        };
        let told = |stages: [&str; 5]| {
            let rows: Vec<_> = ["1", "2", "4", "8", "16"].iter().zip(stages).map(point).collect();
            slowest_stages(&axes, &rows.iter().collect::<Vec<_>>())
        };
        assert_eq!(
            told(["encoder", "encoder", "", "decode", "decode"]),
            ["the slowest stage changes along encode_batch: encoder at 1, 2; decode at 8, 16"]
        );
        assert_eq!(
            told(["track"; 5]),
            ["the slowest stage is track at every value of encode_batch"]
        );
        assert_eq!(told(["track", "", "", "", ""]), Vec::<String>::new());
    }
}
