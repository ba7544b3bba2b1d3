/*!
Targets as passed or failed, and hints with their evidence.
*/

use maud::html;

use super::details::named;
use super::part::Part;
use crate::content::Report;
use crate::table::{Cell, NOT_MEASURED, Table, Tone, shown};
use crate::targets::{State, Verdict, Verdicts};

/// Number of passed targets, a line for each model, and every result with its source.
pub fn parts(report: &Report) -> Vec<Part> {
    let Some(verdicts) = &report.targets else { return Vec::new() };
    let count = |state| verdicts.count(state);
    let counts = html! {
        p {
            strong { (count(State::Pass)) " passed, " (count(State::Fail)) " failed, "
                (count(State::NotMeasured)) " not measured" }
            @if count(State::Invalid) > 0 { strong { ", " (count(State::Invalid)) " with only \
                INVALID rows" } }
            " (" (verdicts.from) ")"
        }
    };
    let heads = ["Target", "Model", "Value", "Target value", "Result", "Measured"];
    let mut table = Table::new("targets", "Targets by model", &heads, 2);
    for head in &mut table.heads[3..] {
        head.1 = false;
    }
    for verdict in &verdicts.results {
        table.push(line(report, verdict), verdict.state == State::Invalid);
    }
    let summary = html! { "Every target with its source" };
    let open = verdicts.results.len() <= 12;
    vec![
        Part::Html(counts),
        Part::Table(matrix(report, verdicts)),
        Part::fold(summary, open, "bulk", vec![Part::Table(table)]),
    ]
}

/// A line for each model, a column for each target.
fn matrix(report: &Report, verdicts: &Verdicts) -> Table {
    let mut columns: Vec<&Verdict> = Vec::new();
    let mut groups: Vec<usize> = Vec::new();
    for verdict in &verdicts.results {
        if !columns
            .iter()
            .any(|known| (&known.name, &known.limit) == (&verdict.name, &verdict.limit))
        {
            columns.push(verdict);
        }
        if !groups.contains(&verdict.group) {
            groups.push(verdict.group);
        }
    }
    let heads = ["Model", report.platforms.kind.word()];
    let mut table = Table::new("targets_by_model", "Each model against each target", &heads, 2);
    table
        .heads
        .extend(columns.iter().map(|column| (column.name.clone(), true, column.limit.clone())));
    for group in groups {
        let of_group = &report.groups[group];
        let mut cells = named(of_group).to_vec();
        cells.extend(columns.iter().map(|column| {
            let found = verdicts.results.iter().find(|verdict| {
                verdict.group == group
                    && (&verdict.name, &verdict.limit) == (&column.name, &column.limit)
            });
            found.map_or_else(|| Cell::missing("no target"), cell)
        }));
        table.push(cells, of_group.invalid);
    }
    table
}

fn cell(verdict: &Verdict) -> Cell {
    let (tone, sign) = sign(verdict.state);
    match verdict.value {
        Some(value) => Cell {
            badges: vec![(tone, sign.to_owned())],
            ..Cell::number(Some(value), 2, verdict.state == State::Invalid)
        },
        None if verdict.required => Cell::missing(format!("{NOT_MEASURED} (required)")),
        None => Cell::missing(NOT_MEASURED),
    }
}

fn sign(state: State) -> (Tone, &'static str) {
    match state {
        State::Pass => (Tone::Good, "✓"),
        State::Fail => (Tone::Bad, "✗"),
        State::Invalid => (Tone::Bad, "!"),
        State::NotMeasured => (Tone::Plain, "–"),
    }
}

fn line(report: &Report, verdict: &Verdict) -> Vec<Cell> {
    let group = &report.groups[verdict.group];
    let (tone, sign) = sign(verdict.state);
    let value = match verdict.value {
        Some(value) => Cell {
            struck: verdict.state == State::Invalid,
            ..Cell::right(format!("{} {}", shown(value, 2), verdict.unit), Some(value))
        },
        None => Cell::missing(NOT_MEASURED),
    };
    let result = Cell::badge(tone, format!("{sign} {}", verdict.state.word()));
    let measured = match verdict.basis.is_empty() {
        true => verdict.metric.clone(),
        false => format!("{}, {}", verdict.metric, verdict.basis),
    };
    vec![
        Cell::text(&verdict.name),
        Cell::text(group.full_name()).wrapped(),
        value,
        Cell::text(verdict.limit.clone()),
        if verdict.required { result.with("(required)") } else { result },
        Cell::text(measured).wrapped(),
    ]
}

/// Hints about what limits the speed.
pub fn hints(report: &Report) -> Vec<Part> {
    vec![Part::Html(html! {
        @if report.hints.is_empty() {
            p { "The measurements give no hint. Unmeasured quantities (clocks, power, GPU time) \
                 cannot give one." }
        }
        @for hint in &report.hints {
            div.hint {
                p { strong { (hint.code) } " · " (hint.about) }
                p { (hint.sentence) }
                p.muted { "Evidence: " (hint.evidence) "." }
            }
        }
    })]
}
