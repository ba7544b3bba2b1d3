/*!
Targets as passed or failed, and hints with their evidence.
*/

use maud::{Markup, html};

use super::cells::{NOT_MEASURED, shown, table as cells_table};
use crate::content::Report;
use crate::targets::{State, Verdict, Verdicts};

/// Number of passed targets, a line for each model, and every result with its source.
pub fn table(report: &Report, verdicts: &Verdicts) -> Markup {
    let head = html! {
        th scope="col" { "Target" }
        th scope="col" { "Model" }
        th scope="col" class="n" { "Value" }
        th scope="col" { "Target value" }
        th scope="col" { "Result" }
        th scope="col" { "Measured" }
    };
    let body = html! { @for verdict in &verdicts.results { (line(report, verdict)) } };
    let count = |state| verdicts.count(state);
    html! {
        p {
            strong { (count(State::Pass)) " passed, " (count(State::Fail)) " \
                failed, " (count(State::NotMeasured)) " not \
                measured" }
            @if count(State::Invalid) > 0 { strong { ", " (count(State::Invalid)) " with only \
                INVALID rows" } }
            " (" (verdicts.from) ")"
        }
        (matrix(report, verdicts))
        details.bulk open[verdicts.results.len() <= 12] {
            summary { "Every target with its source" }
            (cells_table("Targets by model", true, &head, &body))
        }
    }
}

/// A line for each model, a column for each target.
fn matrix(report: &Report, verdicts: &Verdicts) -> Markup {
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
    let head = html! {
        th scope="col" { "Model" }
        th scope="col" { "Platform" }
        @for column in &columns { th scope="col" class="n" { (column.name) " " span.limit { (column.limit) } } }
    };
    let body = html! {
        @for group in groups {
            @let of_group = &report.groups[group];
            tr class=[of_group.invalid.then_some("invalid")] {
                th scope="row" { (of_group.name) }
                td { (of_group.platform) }
                @for column in &columns {
                    @let found = verdicts.results.iter().find(|verdict| {
                        verdict.group == group && (&verdict.name, &verdict.limit) == (&column.name, &column.limit)
                    });
                    @match found {
                        Some(verdict) => (cell(verdict)),
                        None => td.n.none { "no target" },
                    }
                }
            }
        }
    };
    cells_table("Each model against each target", true, &head, &body)
}

fn cell(verdict: &Verdict) -> Markup {
    let (class, sign) = sign(verdict.state);
    match verdict.value {
        Some(value) => html! {
            td.n data-v=(value) {
                span.badge.(class) title=(verdict.state.word()) { (sign) span.unseen { " " (verdict.state.word()) } } " "
                @if verdict.state == State::Invalid { s { (shown(value, 2)) } } @else { (shown(value, 2)) }
            }
        },
        None => html! { td.n.none { (NOT_MEASURED) @if verdict.required { " (required)" } } },
    }
}

fn sign(state: State) -> (&'static str, &'static str) {
    match state {
        State::Pass => ("good", "✓"),
        State::Fail => ("bad", "✗"),
        State::Invalid => ("bad", "!"),
        State::NotMeasured => ("plain", "–"),
    }
}

fn line(report: &Report, verdict: &Verdict) -> Markup {
    let group = &report.groups[verdict.group];
    let (class, sign) = sign(verdict.state);
    let struck = verdict.state == State::Invalid;
    html! {
        tr class=[struck.then_some("invalid")] {
            th scope="row" { (verdict.name) }
            td.wrap { (group.full_name()) }
            @match verdict.value {
                Some(value) => td.n data-v=(value) {
                    @let text = format!("{} {}", shown(value, 2), verdict.unit);
                    @if struck { s { (text) } } @else { (text) }
                },
                None => td.n.none { (NOT_MEASURED) },
            }
            td { (verdict.limit) }
            td { span.badge.(class) { (sign) " " (verdict.state.word()) } @if verdict.required { " \
                (required)" } }
            td.wrap { code { (verdict.metric) } @if !verdict.basis.is_empty() { ", " (verdict.basis) } }
        }
    }
}

/// Hints about what limits the speed.
pub fn hints(report: &Report) -> Markup {
    html! {
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
    }
}
