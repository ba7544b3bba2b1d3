/*!
Bars with whiskers in groups, each with its numbers in columns: the speeds of a comparison.
*/

use maud::{Markup, html};

use super::axes::below;
use super::legend::{Sign, legend};
use super::scale::Scale;
use super::words::fit;
use super::{Head, Plot, Style, fill, hollow, px};

/// One bar.
#[derive(Clone, Debug, Default)]
pub struct ForestRow {
    /// Its name.
    pub name: String,
    /// The number of its colour.
    pub series: usize,
    /// Its length; none if it must not be shown.
    pub value: Option<f64>,
    /// Ends of its whisker.
    pub range: Option<(f64, f64)>,
    /// It is INVALID, so the bar is drawn hollow.
    pub invalid: bool,
    /// Texts of the columns.
    pub columns: [String; 4],
    /// The first column without its interval: a paper shows it and the second column.
    pub short: String,
    /// Tooltip.
    pub label: String,
}

/// Bars under one label.
#[derive(Clone, Debug, Default)]
pub struct ForestGroup {
    /// Label above the bars.
    pub label: String,
    /// The bars from top to bottom.
    pub rows: Vec<ForestRow>,
}

/// Data of the plot.
#[derive(Clone, Debug, Default)]
pub struct Forest {
    /// Unit of the axis.
    pub unit: String,
    /// Headings of the columns.
    pub heads: [String; 4],
    /// The groups.
    pub groups: Vec<ForestGroup>,
    /// Notes below the plot.
    pub notes: Vec<String>,
}

const LEFT: f64 = 16.0;
const TOP: f64 = 26.0;
const HEADING: f64 = 22.0;
const ROW: f64 = 19.0;
const BAR: f64 = 13.0;
/// Space below a group.
const GAP: f64 = 6.0;
/// Width of the names left of the bars on a page.
const NAMES: f64 = 168.0;
/// Right ends of the columns on a page.
const COLUMNS: [f64; 4] = [466.0, 552.0, 620.0, 676.0];
/// Room for two columns right of the bars in a paper.
const NUMBERS: f64 = 128.0;

/// Draws the bars from zero on one axis; `None` if no bar has a length.
pub fn forest(head: &Head<'_>, data: Forest) -> Option<Plot> {
    let rows = || data.groups.iter().flat_map(|group| &group.rows);
    let ends = rows().flat_map(|row| [row.value, row.range.map(|range| range.1)]).flatten();
    rows().find(|row| row.value.is_some())?;
    let style = head.style;
    let (left, right) = match style {
        Style::Page => (LEFT + NAMES, COLUMNS[0] - 66.0),
        Style::Paper => (LEFT - 8.0, style.width() - NUMBERS),
    };
    let scale = Scale::from_zero(ends, left, right);
    let mut y = TOP;
    let tops: Vec<f64> = data
        .groups
        .iter()
        .map(|group| {
            let top = y;
            y += HEADING + group.rows.len() as f64 * ROW + GAP;
            top
        })
        .collect();
    let bottom = y;
    let entries = if style == Style::Paper { sides(&data) } else { Vec::new() };
    let (legend, legend_height) = legend(style, &entries, left, bottom + 40.0);
    let body = html! {
        (below(&scale, (left, right), (TOP - 4.0, bottom), &data.unit))
        @if style == Style::Page {
            @for (head, end) in data.heads.iter().zip(COLUMNS) {
                text.tick x=(px(end)) y="14" text-anchor="end" { (head) }
            }
        }
        @for (group, top) in data.groups.iter().zip(&tops) {
            text.strong x=(px(left.min(LEFT))) y=(px(top + 15.0)) { (fit(&group.label, style.width() - LEFT, 12.0)) }
            @for (at, row) in group.rows.iter().enumerate() {
                (one(style, &scale, (left, right), row, top + HEADING + at as f64 * ROW))
            }
        }
        path.axis d=(format!("M{} {}V{}", px(left), px(TOP - 4.0), px(bottom))) {}
        (legend)
    };
    let height = bottom + 40.0 + legend_height;
    Some(head.plot(data.notes, height, body))
}

/// Each side once, for the legend.
fn sides(data: &Forest) -> Vec<(Sign, String)> {
    let mut found: Vec<(Sign, String)> = Vec::new();
    for row in data.groups.iter().flat_map(|group| &group.rows) {
        if !found.iter().any(|(_, name)| *name == row.name) {
            found.push((Sign::Block(row.series), row.name.clone()));
        }
    }
    found
}

fn one(style: Style, scale: &Scale, (left, right): (f64, f64), row: &ForestRow, y: f64) -> Markup {
    let middle = y + BAR / 2.0;
    let baseline = px(y + 10.5);
    let class = if row.invalid { hollow(row.series) } else { fill(row.series) };
    let end = scale.at(row.value.unwrap_or(0.0));
    html! {
        @if style == Style::Page {
            text.small x=(px(left - 8.0)) y=(baseline) text-anchor="end" { (fit(&row.name, NAMES - 8.0, 11.0)) }
        }
        @if row.value.is_some() {
            rect class=(class) x=(px(left)) y=(px(y)) height=(px(BAR)) width=(px((end - left).max(0.5))) rx="1.5" {
                title { (row.label) }
            }
        }
        @if let Some((low, high)) = row.range {
            path.ink d=(format!("M{} {m}H{}M{0} {t}v7M{1} {t}v7", px(scale.at(low)), px(scale.at(high)),
                m = px(middle), t = px(middle - 3.5))) {}
        }
        @match style {
            Style::Page => {
                @for (text, end) in row.columns.iter().zip(COLUMNS) {
                    text.small x=(px(end)) y=(baseline) text-anchor="end" { (text) }
                }
            },
            Style::Paper => {
                text.small x=(px(right + 38.0)) y=(baseline) text-anchor="end" { (row.short) }
                text.small x=(px(style.width() - 2.0)) y=(baseline) text-anchor="end" { (row.columns[1]) }
            },
        }
    }
}
