/*!
The first sections of the page: notes, and the best groups.
*/

use maud::{Markup, html};

use super::part::{Part, badges};
use crate::chart::thousands;
use crate::content::Report;
use crate::data::Best;

/// Notes and read failures.
pub fn notes(report: &Report) -> Vec<Part> {
    if report.notes.is_empty() && report.problems.is_empty() {
        return Vec::new();
    }
    vec![Part::Html(html! {
        @if !report.problems.is_empty() {
            div.problems {
                p { strong { "Some files could not be read." } }
                ul.notes { @for problem in &report.problems { li { (problem) } } }
            }
        }
        @if !report.notes.is_empty() {
            ul.notes { @for note in &report.notes { li { (note) } } }
        }
    })]
}

/// A card for each measure.
pub fn cards(report: &Report) -> Vec<Part> {
    if report.best.is_empty() {
        return Vec::new();
    }
    vec![Part::Html(html! {
        div.cards { @for best in &report.best { (card(report, best)) } }
        p.muted { "Groups with only INVALID rows are excluded." }
        @if report.best.iter().any(|best| !best.caveats.is_empty()) {
            p { strong { "Compare with care: " } "conditions differ; see the notes above." }
        }
    })]
}

fn card(report: &Report, best: &Best) -> Markup {
    let group = &report.groups[best.group];
    html! {
        div.card {
            h3 { (best.measure) " of " (best.among) }
            div.value { (thousands(best.value, best.digits)) " " span.unit { (best.unit) } }
            p { (group.full_name()) }
            p { (badges(group)) }
        }
    }
}
