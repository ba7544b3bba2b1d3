/*!
Parts of a section: markup, tables, and parts that can be folded away.
*/

use maud::{Markup, html};

use crate::chart::SERIES;
use crate::data::Group;
use crate::input::Validity;
use crate::table::{Cell, Row, Table, validity_badge};

/// A part of a section.
pub enum Part {
    /// Markup.
    Html(Markup),
    /// A table, which is also written as a file.
    Table(Table),
    /// Parts that a click shows.
    Fold {
        /// The line that is always shown.
        summary: Markup,
        /// Shown at first.
        open: bool,
        /// `bulk`: not opened for printing; `small`: kept on one page.
        class: &'static str,
        /// The parts.
        parts: Vec<Part>,
    },
}

impl Part {
    /// A folded part.
    pub fn fold(summary: Markup, open: bool, class: &'static str, parts: Vec<Self>) -> Self {
        Self::Fold { summary, open, class, parts }
    }

    /// The part on the page.
    pub fn render(&self) -> Markup {
        match self {
            Self::Html(markup) => markup.clone(),
            Self::Table(table) => rendered(table),
            Self::Fold { summary, open, class, parts } => html! {
                details class=(class) open[*open] {
                    summary { (summary) }
                    @for part in parts { (part.render()) }
                }
            },
        }
    }

    /// All tables in it.
    pub fn tables(&self) -> Vec<&Table> {
        match self {
            Self::Html(_) => Vec::new(),
            Self::Table(table) => vec![table],
            Self::Fold { parts, .. } => parts.iter().flat_map(Self::tables).collect(),
        }
    }
}

/// A scrollable table, which the script can sort and copy.
fn rendered(table: &Table) -> Markup {
    html! {
        div.sheet {
            // Focusable, so that the keyboard can scroll it.
            div.scroll tabindex="0" role="region" aria-label=(table.caption) {
                table.sortable[table.sortable] {
                    caption { (table.caption) }
                    thead {
                        tr {
                            @for (name, number, more) in &table.heads {
                                th scope="col" class=[number.then_some("n")] {
                                    (name) @if !more.is_empty() { " " span.limit { (more) } }
                                }
                            }
                        }
                    }
                    tbody { @for row in &table.rows { (line(row)) } }
                }
            }
        }
    }
}

fn line(row: &Row) -> Markup {
    html! {
        tr class=[row.invalid.then_some("invalid")] {
            @for (at, cell) in row.cells.iter().enumerate() {
                @if at == 0 { th scope="row" { (inside(cell)) } } @else {
                    td class=[class(cell)] data-v=[cell.value] { (inside(cell)) }
                }
            }
        }
    }
}

fn class(cell: &Cell) -> Option<String> {
    let side = cell.series.is_some();
    let all = [(cell.number, "n"), (cell.none, "none"), (cell.wrap, "wrap"), (side, "side")];
    let words: Vec<&str> = all.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn inside(cell: &Cell) -> Markup {
    html! {
        @if let Some(series) = cell.series { (swatch(series)) " " }
        @for (tone, words) in &cell.badges { span.badge.(tone.class()) { (words) } " " }
        @if cell.struck { s { (cell.text) } } @else { (cell.text) }
        @if !cell.aside.is_empty() { " " span.muted { (cell.aside) } }
    }
}

/// The colour of a series.
pub fn swatch(series: usize) -> Markup {
    let class =
        format!("swatch c{}{}", series % SERIES, if series >= SERIES { " pale" } else { "" });
    html! { span class=(class) aria-hidden="true" {} }
}

/// A coloured word with a sign.
pub fn badge(validity: Validity) -> Markup {
    let (tone, words) = validity_badge(validity);
    html! { span.badge.(tone.class()) { (words) } }
}

/// Number of rows of a group by validity.
pub fn counts(group: &Group) -> Vec<(usize, Validity)> {
    let counts = &group.counts;
    let all = [
        (counts.valid, Validity::Valid),
        (counts.invalid, Validity::Invalid),
        (counts.unjudged, Validity::Unjudged),
        (counts.no_verdict, Validity::NoVerdict),
        (counts.rows - counts.measured, Validity::Unmeasured),
    ];
    all.into_iter().filter(|(count, _)| *count > 0).collect()
}

/// The same as markup.
pub fn badges(group: &Group) -> Markup {
    html! {
        @for (count, validity) in counts(group) { span.count { (count) " " (badge(validity)) } " " }
    }
}

/// The same as a cell.
pub fn badge_cell(group: &Group) -> Cell {
    let badges = counts(group).into_iter().map(|(count, validity)| {
        let (tone, words) = validity_badge(validity);
        (tone, format!("{count} {words}"))
    });
    Cell { badges: badges.collect(), ..Cell::default() }
}
