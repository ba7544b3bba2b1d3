/*!
The page: one self-contained HTML file.

The page fetches no font, script or picture, and a content security policy enforces that. The policy
names the one script by its hash, so even a value that was not escaped could not run. Without the
script everything is readable, and tables cannot be sorted.
*/

mod best;
mod comparisons;
mod details;
mod environment;
mod frame;
mod history;
mod masks;
mod memory;
mod part;
mod plots;
mod power;
mod profiles;
mod proof;
mod reasons;
mod rows;
mod summary;
mod sweep;
mod targets;

use maud::html;

use super::content::Report;
use super::figures::Figures;
use super::table::Table;
use part::Part;

/// The page as text.
pub fn render(report: &Report, figures: &Figures, title: &str) -> String {
    let sections = sections(report, figures);
    let contents: Vec<(&str, &str)> =
        sections.iter().map(|section| (section.id, section.title.as_str())).collect();
    let body = html! {
        @for section in &sections {
            section id=(section.id) aria-labelledby=(format!("{}-heading", section.id)) {
                h2 id=(format!("{}-heading", section.id)) { (section.title) }
                @for part in &section.parts { (part.render()) }
            }
        }
    };
    frame::page(report, title, &contents, &body)
}

/// Every table of the page, in its order.
pub fn tables(report: &Report, figures: &Figures) -> Vec<Table> {
    let sections = sections(report, figures);
    let tables = sections.iter().flat_map(|section| &section.parts).flat_map(Part::tables);
    tables.cloned().collect()
}

/// One section.
struct Section {
    id: &'static str,
    title: String,
    parts: Vec<Part>,
}

/// The proof first, then the masks, then the rest. Sections without a part are omitted.
fn sections(report: &Report, figures: &Figures) -> Vec<Section> {
    let has_rows = !report.groups.is_empty();
    let kind = report.platforms.kind;
    let against = format!("{} against {}", kind.word(), kind.lower());
    let with_rows = |parts: fn(&Report, &Figures) -> Vec<Part>| match has_rows {
        true => parts(report, figures),
        false => Vec::new(),
    };
    let all = [
        ("proof", "What was proven", proof::parts(report, figures)),
        ("sweep", "Sweeps", sweep::parts(report, figures)),
        ("masks", "Masks", masks::parts(report)),
        ("notes", "Before you read", best::notes(report)),
        ("best", "At a glance", best::cards(report)),
        ("summary", "Summary", with_rows(|report, _| summary::parts(report))),
        ("invalid", "Why rows are INVALID or have no numbers", reasons::parts(report)),
        ("targets", "Targets", targets::parts(report)),
        ("accuracy", "Speed against accuracy", with_rows(details::accuracy)),
        ("platforms", against.as_str(), comparisons::platforms(report, figures)),
        ("latency", "Latency", with_rows(details::latency)),
        ("stages", "Operation breakdown", with_rows(details::stages)),
        ("memory", "Memory", with_rows(details::memory)),
        ("power", "Power, clocks, temperature", with_rows(power::parts)),
        ("hints", "What limits the speed", with_rows(|report, _| targets::hints(report))),
        ("drift", "Drift", comparisons::drift(report, figures)),
        ("history", "Runs over time", history::parts(report, figures)),
        ("profiles", "Profiles of the GPU", profiles::parts(report, figures)),
        ("rows", "Every row", with_rows(|report, _| rows::parts(report))),
        ("environment", "Environment", with_rows(|report, _| environment::sources(report))),
        ("reading", "How to read this", vec![environment::reading()]),
    ];
    let filled = all.into_iter().filter(|(_, _, parts)| !parts.is_empty());
    filled.map(|(id, title, parts)| Section { id, title: title.to_owned(), parts }).collect()
}

#[cfg(test)]
mod tests;
