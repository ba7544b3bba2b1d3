/*!
Stacked bars, one a row: the stages of a frame's time.
*/

use maud::html;

use super::axes::below;
use super::legend::{Sign, legend};
use super::scale::{Scale, thousands};
use super::words::{fit, width};
use super::{Head, Plot, fill, hollow, px};

/// One bar.
#[derive(Clone, Debug)]
pub struct StackRow {
    /// Label above the bar.
    pub label: String,
    /// Series and length of each part, from the left.
    pub parts: Vec<(usize, f64)>,
    /// Its rows are INVALID, so its parts are drawn hollow.
    pub invalid: bool,
}

const LEFT: f64 = 16.0;
/// Room for the number right of the longest bar.
const NUMBER: f64 = 72.0;
const BAR: f64 = 22.0;
const ROW: f64 = 54.0;
/// Narrower parts would have width 0 in the file.
const THINNEST: f64 = 0.1;

/// Draws the rows from zero on one axis in `unit`; `series` names the parts. `None` if no part has
/// a length.
pub fn stacked(
    head: &Head<'_>,
    unit: &str,
    series: &[(usize, &str)],
    rows: &[StackRow],
    notes: Vec<String>,
) -> Option<Plot> {
    let total = |row: &StackRow| row.parts.iter().map(|(_, length)| length).sum::<f64>();
    rows.iter().find(|row| total(row) > 0.0)?;
    let (whole, right) = (head.style.width(), head.style.width() - NUMBER);
    let scale = Scale::from_zero(rows.iter().map(total), LEFT, right);
    let name_of =
        |part: usize| series.iter().find(|(at, _)| *at == part).map_or("", |(_, name)| *name);
    let bottom = 8.0 + rows.len() as f64 * ROW;
    let entries: Vec<(Sign, String)> =
        series.iter().map(|(at, name)| (Sign::Block(*at), (*name).to_owned())).collect();
    let (legend, legend_height) = legend(head.style, &entries, LEFT, bottom + 40.0);
    let body = html! {
        (below(&scale, (LEFT, right), (6.0, bottom), unit))
        @for (at, row) in rows.iter().enumerate() {
            @let top = 8.0 + at as f64 * ROW;
            text x=(px(LEFT)) y=(px(top + 14.0)) { (fit(&row.label, whole - 2.0 * LEFT, 12.0)) }
            @for (start, (part, length)) in starts(&row.parts).zip(&row.parts) {
                @let (from, to) = (scale.at(start), scale.at(start + length));
                @let share = format!("{:.0} %", 100.0 * length / total(row));
                // A thinner part is only in the table, because some readers reject a rectangle
                // without width.
                @if to - from >= THINNEST {
                    rect class=(if row.invalid { hollow(*part) } else { fill(*part) + " halo" })
                        x=(px(from)) y=(px(top + 20.0)) width=(px(to - from)) height=(px(BAR)) {
                        title { (row.label) ", " (name_of(*part)) ": " (thousands(*length, 3)) " " (unit) ", " (share) }
                    }
                }
                // On a label in the page's colour, because no text colour is readable on all eight.
                @if to - from > width(&share, 11.0) + 12.0 {
                    rect.chip x=(px((from + to - width(&share, 11.0)) / 2.0 - 3.0)) y=(px(top + 24.0)) rx="3"
                        width=(px(width(&share, 11.0) + 6.0)) height="14" {}
                    text.small x=(px((from + to) / 2.0)) y=(px(top + 35.0)) text-anchor="middle" { (share) }
                }
            }
            text.small x=(px(scale.at(total(row)) + 6.0)) y=(px(top + 35.0)) { (thousands(total(row), 2)) }
        }
        path.axis d=(format!("M{} 6V{}", px(LEFT), px(bottom))) {}
        (legend)
    };
    Some(head.plot(notes, bottom + 40.0 + legend_height, body))
}

/// Start of each part.
fn starts(parts: &[(usize, f64)]) -> impl Iterator<Item = f64> + '_ {
    parts.iter().scan(0.0, |sum, (_, length)| {
        let start = *sum;
        *sum += length;
        Some(start)
    })
}
