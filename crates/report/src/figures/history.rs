/*!
Numbers over the runs of a history: a plot of rate, latency, memory and J&F for each model, with
marks at the runs where the level changed.
*/

use super::{listed, slug};
use crate::chart::{Line, Lines, Plot, Style, lines};
use crate::content::Report;
use crate::data::RunsOverTime;
use crate::regression::{Metric, Point, Series};

/// Title, axis and numbers of the plots.
const PLOTS: [(&str, &str, &[Metric]); 4] = [
    ("Rate", "FPS", &[Metric::Fps]),
    ("Latency", "ms", &[Metric::P95Ms, Metric::P99Ms]),
    ("Memory", "MiB", &[Metric::GpuPeakAllocMib, Metric::CpuPeakRssMib]),
    ("Masks", "J&F, %", &[Metric::JandF]),
];

/// The plots of all histories.
pub fn plots(report: &Report, style: Style) -> Vec<Plot> {
    let mut plots = Vec::new();
    for history in &report.histories {
        let mut models: Vec<(&str, &str)> = Vec::new();
        for series in &history.series {
            let model = (series.model.as_str(), series.configuration.as_str());
            if !models.contains(&model) {
                models.push(model);
            }
        }
        for model in models {
            plots.extend(PLOTS.iter().filter_map(|plot| draw(history, model, plot, style)));
        }
    }
    plots
}

fn draw(
    history: &RunsOverTime,
    (model, configuration): (&str, &str),
    (title, unit, metrics): &(&str, &str, &[Metric]),
    style: Style,
) -> Option<Plot> {
    let is_ours =
        |of: &&Series| (of.model.as_str(), of.configuration.as_str()) == (model, configuration);
    let of =
        |metric: &Metric| history.series.iter().filter(is_ours).find(|of| of.metric == *metric);
    let shown: Vec<&Series> = metrics.iter().filter_map(of).collect();
    let lines_of: Vec<Line> = shown.iter().map(|series| line(history, series)).collect();
    let descriptions = shown.iter().map(|series| {
        let changes = series.changes.len();
        format!("{}: {} runs, {changes} changes", series.metric.name(), series.points.len())
    });
    let alt = format!("{model} on {} over the runs. {}.", history.machine, listed(descriptions));
    lines(Lines {
        style,
        name: slug(&format!("history_{}_{model}_{configuration}_{title}", history.name)),
        title: format!("{title}: {model} {configuration}, {}", history.name),
        alt,
        x: "run".to_owned(),
        y: (*unit).to_owned(),
        lines: lines_of,
        ..Lines::default()
    })
}

fn line(history: &RunsOverTime, series: &Series) -> Line {
    let scale = if series.metric.is_in_points() { 100.0 } else { 1.0 };
    let at = |point: &Point| Some(((point.entry + 1) as f64, scale * point.range?.middle));
    let marks = series.changes.iter().filter_map(|change| {
        let (build, by) = (&history.runs.get(change.entry)?.build, change.change?);
        let by = match series.metric.is_in_points() {
            true => format!("{by:+.2} points"),
            false => format!("{:+.1} %", 100.0 * by),
        };
        let y = scale * change.is?.middle;
        let run = change.entry + 1;
        Some((run as f64, y, format!("run {run}, {build}: {} {by}", series.metric.name())))
    });
    Line {
        label: series.metric.name().to_owned(),
        points: series.points.iter().filter_map(at).collect(),
        marks: marks.collect(),
        ..Line::default()
    }
}
