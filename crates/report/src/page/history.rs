/*!
Runs over time: plots, and the table of changes.
*/

use maud::html;

use super::part::Part;
use super::plots::figures as draw;
use crate::content::Report;
use crate::data::RunsOverTime;
use crate::figures::Figures;
use crate::regression::{ChangeVerdict, Metric, Range};
use crate::table::{Cell, Table, Tone};

/// The parts; none without a history.
pub fn parts(report: &Report, figures: &Figures) -> Vec<Part> {
    let mut parts = vec![Part::Html(draw(&figures.history))];
    for history in &report.histories {
        let changes = history.series.iter().map(|series| series.changes.len()).sum::<usize>();
        let words = format!(
            "{} on {}: {} runs, {changes} changes of a level.",
            history.name,
            history.machine,
            history.runs.len()
        );
        parts.push(Part::Html(html! { p { (words) } }));
        if changes > 0 {
            parts.push(Part::Table(table(history)));
        }
    }
    if report.histories.is_empty() { Vec::new() } else { parts }
}

/// The optimisations and regressions: before → after.
fn table(history: &RunsOverTime) -> Table {
    let heads = ["Run", "Added", "Build", "Model", "Number", "Before", "From then on", "Change"];
    let caption = "Changes of a level: median (range of the passes)";
    let mut table = Table::new(&format!("history_{}", history.name), caption, &heads, 5);
    let changes = history
        .series
        .iter()
        .flat_map(|series| series.changes.iter().map(move |change| (series, change)));
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by_key(|(_, change)| change.entry);
    for (series, change) in changes {
        let Some(run) = history.runs.get(change.entry) else { continue };
        let (tone, word) = match change.verdict {
            ChangeVerdict::Better => (Tone::Good, "better"),
            ChangeVerdict::Missing => (Tone::Bad, "missing"),
            _ => (Tone::Bad, "worse"),
        };
        let by = change.change.map(|by| match series.metric.is_in_points() {
            true => (by, format!("{by:+.2} points")),
            false => (by, format!("{:+.1} %", 100.0 * by)),
        });
        let mut by = Cell::right(
            by.as_ref().map_or(String::new(), |(_, text)| text.clone()),
            by.map(|(value, _)| value),
        );
        by.badges.push((tone, word.to_owned()));
        let after = change.is.map_or_else(
            || Cell::missing("not measured"),
            |is| Cell::right(range(series.metric, &is), Some(is.middle)),
        );
        let number = (change.entry + 1) as f64;
        let cells = vec![
            Cell::right(format!("{number}"), Some(number)),
            Cell::text(run.added.split('T').next().unwrap_or_default()),
            Cell::text(&run.build).with(run.differences.join("; ")),
            Cell::text(format!("{} {}", series.model, series.configuration)),
            Cell::text(series.metric.name()),
            Cell::right(range(series.metric, &change.was), Some(change.was.middle)),
            after,
            by,
        ];
        table.push(cells, false);
    }
    table
}

fn range(metric: Metric, range: &Range) -> String {
    let scale = if metric.is_in_points() { 100.0 } else { 1.0 };
    let [middle, low, high] = [range.middle, range.low, range.high].map(|value| scale * value);
    let digits = metric.digits();
    match range.passes {
        0 | 1 => format!("{middle:.digits$}"),
        _ => format!("{middle:.digits$} ({low:.digits$} to {high:.digits$})"),
    }
}
