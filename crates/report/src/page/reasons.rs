/*!
Why rows are INVALID or have no numbers: codes with their counts, folded.
*/

use maud::html;

use super::part::{Part, badge, badges};
use crate::content::Report;
use crate::data::{Group, ReasonCode};
use crate::table::{Cell, Table};

/// The parts; none if every row counts.
pub fn parts(report: &Report) -> Vec<Part> {
    let rejected: Vec<&Group> =
        report.groups.iter().filter(|group| !group.codes.is_empty()).collect();
    if rejected.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(
        "reasons",
        "Rows by reason; a row may have several reasons",
        &["Reason", report.platforms.kind.word(), "Model", "Rows", "The worst of them"],
        3,
    );
    table.heads[4].1 = false;
    for group in &rejected {
        for code in &group.codes {
            let counted = format!("{} of {}", code.rows, group.counts.rows);
            let cells = vec![
                Cell::text(code.code.replace('_', " ")),
                Cell::text(&group.platform),
                Cell::text(&group.name),
                Cell::right(counted, Some(code.rows as f64)),
                Cell::text(&code.worst).wrapped(),
            ];
            table.push(cells, false);
        }
    }
    let mut parts = vec![Part::fold(summary(&rejected), false, "bulk", vec![Part::Table(table)])];
    let details = html! {
        @for group in &rejected {
            h3 { (group.full_name()) " " (badges(group)) }
            ul.notes {
                @for reason in &group.reasons {
                    li { (reason.rows) " × " (badge(reason.state)) ": " (reason.text) }
                }
            }
        }
    };
    let folded = html! { "The reasons as the tables have them" };
    parts.push(Part::fold(folded, false, "bulk", vec![Part::Html(details)]));
    parts
}

/// Each code with its rows of all groups, the most frequent first.
fn summary(rejected: &[&Group]) -> maud::Markup {
    let mut all: Vec<ReasonCode> = Vec::new();
    for code in rejected.iter().flat_map(|group| &group.codes) {
        match all.iter_mut().find(|known| (known.state, &known.code) == (code.state, &code.code)) {
            Some(known) => known.rows += code.rows,
            None => all.push(code.clone()),
        }
    }
    all.sort_by_key(|code| std::cmp::Reverse(code.rows));
    let rows: usize = rejected.iter().map(|group| group.counts.rows).sum();
    const SHOWN: usize = 6;
    html! {
        @for (at, code) in all.iter().take(SHOWN).enumerate() {
            @if at > 0 { ", " }
            (code.code.replace('_', " ")) " " (code.rows) " of " (rows)
        }
        @if all.len() > SHOWN { ", and " (all.len() - SHOWN) " more" }
    }
}
