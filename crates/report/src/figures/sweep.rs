/*!
Sweeps: the rate against the swept setting, and the stages at each point, so that one sees which is
the slowest and where that changes.
*/

use super::{CURVES, listed, slug};
use crate::chart::{Line, Lines, Plot, Style, lines, thousands};
use crate::compare::judge::SweepRow;
use crate::compare::sweep::{Axis, Curve, Setting, curves};
use crate::content::Report;
use vos::record::Judgement;
use vos::stage::Stage;

/// Stages below this part of the slowest one at every point are left out: their lines would lie on
/// the axis.
const SMALL: f64 = 0.02;

/// The plots of all sweeps.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (number, sweep) in report.sweeps.iter().enumerate() {
        let axes = sweep.result.axes.as_slice();
        let curves = curves(axes);
        for (model, rows) in sweep.result.models() {
            let of = Of { style, number, model, rows: &rows, axes };
            plots.extend(of.rates(&curves));
            plots.extend(curves.iter().take(CURVES).filter_map(|curve| of.stages(curve)));
        }
    }
    plots
}

/// A model of a sweep.
struct Of<'a> {
    style: Style,
    number: usize,
    model: &'a str,
    rows: &'a [&'a SweepRow],
    axes: &'a [Axis],
}

impl Of<'_> {
    /// The rows of a curve, each with its place on the axis.
    fn points<'a>(&'a self, curve: &'a Curve) -> impl Iterator<Item = (f64, &'a SweepRow)> {
        curve
            .points
            .iter()
            .enumerate()
            .filter_map(|(at, point)| Some((at as f64, *self.rows.get(*point)?)))
    }

    /// A rate is of single objects where their number is swept.
    fn unit(&self) -> &'static str {
        match self.axes.iter().any(|axis| axis.setting == Setting::Objects) {
            true => "frames of single objects / s",
            false => "FPS",
        }
    }

    fn base(&self, curve: &Curve, kind: &str, title: &str) -> Lines {
        let axis = &self.axes[curve.axis];
        let first = if self.number == 0 { String::new() } else { format!("_{}", self.number + 1) };
        Lines {
            style: self.style,
            name: slug(&format!("sweep{first}_{}_{kind}", self.model)),
            title: format!("{title}: {}", self.model),
            x: axis.setting.name().to_owned(),
            x_names: axis.values.clone(),
            y_from_zero: true,
            ..Lines::default()
        }
    }

    fn rates(&self, curves: &[Curve]) -> Option<Plot> {
        let first = curves.first()?;
        let line = |curve: &Curve| {
            let label = match curve.others.as_str() {
                "" => self.unit().to_owned(),
                others => others.to_owned(),
            };
            let mut line = Line { label, ..Line::default() };
            for (x, row) in self.points(curve) {
                let Some(fps) = row.object_fps else { continue };
                line.points.push((x, fps));
                let invalid = row.verdict.judgement == Judgement::Invalid;
                let text = format!(
                    "{}: {}{}",
                    row.combination,
                    thousands(fps, 2),
                    if invalid { ", INVALID" } else { "" }
                );
                if invalid { &mut line.hollow } else { &mut line.marks }.push((x, fps, text));
                let ends = row.object_fps_interval;
                line.whiskers.extend(ends.map(|ends| (x, ends.low, ends.high)));
            }
            line
        };
        let lines_of: Vec<Line> = curves.iter().map(line).collect();
        let mut notes = Vec::new();
        if self.rows.iter().any(|row| row.object_fps_interval.is_some()) {
            notes.push("Whiskers: 95 % interval over rounds and clips.".to_owned());
        }
        if lines_of.iter().any(|line| !line.hollow.is_empty()) {
            notes.push("Drawn hollow: the speed is INVALID.".to_owned());
        }
        let without: Vec<String> = self
            .rows
            .iter()
            .filter(|row| row.object_fps.is_none())
            .map(|row| row.combination.clone())
            .collect();
        if !without.is_empty() {
            notes.push(format!("No speed: {}.", listed(without)));
        }
        let told = self.rows.iter().filter_map(|row| {
            Some(format!("{}: {}", row.combination, thousands(row.object_fps?, 2)))
        });
        let alt = format!("{} at each point of the sweep. {}.", self.unit(), listed(told));
        let base = self.base(first, "rate", "Rate");
        lines(Lines { alt, y: self.unit().to_owned(), lines: lines_of, notes, ..base })
    }

    fn stages(&self, curve: &Curve) -> Option<Plot> {
        let longest = |stage: &str| {
            let times = self.points(curve).flat_map(|(_, row)| &row.stages);
            times.filter(|time| time.stage == stage).map(|time| time.ms).fold(0.0, f64::max)
        };
        let name = |stage: Stage| stage.column().trim_end_matches("_ms");
        let most = Stage::ALL.map(|stage| longest(name(stage))).into_iter().fold(0.0, f64::max);
        let (mut lines_of, mut small) = (Vec::new(), Vec::new());
        let mut outside = false;
        for (at, stage) in Stage::ALL.into_iter().enumerate() {
            let longest = longest(name(stage));
            if longest == 0.0 {
                continue;
            }
            if longest < SMALL * most {
                small.push(stage.label().to_owned());
                continue;
            }
            let mut line =
                Line { label: stage.label().to_owned(), colour: Some(at), ..Line::default() };
            for (x, row) in self.points(curve) {
                let found = row.stages.iter().find(|time| time.stage == name(stage));
                let Some(time) = found else { continue };
                line.points.push((x, time.ms));
                if time.outside && !outside {
                    outside = true;
                    line.label += " (outside the frame's time)";
                }
                if row.slowest_stage.as_ref().is_some_and(|(slowest, _)| *slowest == time.stage) {
                    let text = format!(
                        "{}: {} is the slowest stage, {} ms",
                        row.combination,
                        stage.label(),
                        thousands(time.ms, 3)
                    );
                    line.marks.push((x, time.ms, text));
                }
            }
            lines_of.push(line);
        }
        let mut notes = vec!["Marked: the slowest stage of each point.".to_owned()];
        if self.points(curve).any(|(_, row)| row.overlapping) {
            notes.push(
                "Frames overlap, so the slowest stage limits the rate. Decoding is divided by its \
                 threads."
                    .to_owned(),
            );
        }
        if !small.is_empty() {
            notes.push(format!(
                "Left out, below {:.0} % of the slowest: {}.",
                100.0 * SMALL,
                listed(small)
            ));
        }
        let told = self.points(curve).filter_map(|(_, row)| {
            let (stage, ms) = row.slowest_stage.as_ref()?;
            Some(format!("{}: {stage}, {} ms", row.combination, thousands(*ms, 2)))
        });
        let alt = format!("Time of each stage at each point. The slowest: {}.", listed(told));
        let (kind, title) = match curve.others.as_str() {
            "" => ("stages".to_owned(), "Stages".to_owned()),
            others => (format!("stages_{others}"), format!("Stages with {others}")),
        };
        let base = self.base(curve, &kind, &title);
        lines(Lines { alt, y: "ms per frame".to_owned(), lines: lines_of, notes, ..base })
    }
}
