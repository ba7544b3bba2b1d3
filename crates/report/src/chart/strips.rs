/*!
Rows of cells or of bars along one axis: a heat map over time, or a histogram for each name.
*/

use maud::{Markup, html};

use super::axes::below;
use super::scale::Scale;
use super::words::{fit, width};
use super::{Head, Plot, fill, px};

/// How the numbers of a strip are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    /// As cells that are the fuller the larger the number.
    Heat,
    /// As bars.
    Bars,
}

/// One strip.
#[derive(Clone, Debug, Default)]
pub struct Strip {
    /// Label above it.
    pub label: String,
    /// Text above its right end.
    pub text: String,
    /// The number of its colour.
    pub series: usize,
    /// The numbers, 0 to 1.
    pub parts: Vec<f64>,
    /// Tooltip of each.
    pub titles: Vec<String>,
}

const LEFT: f64 = 16.0;
const MARGIN: f64 = 16.0;
const LABEL: f64 = 18.0;
const STRIP: f64 = 22.0;
const GAP: f64 = 8.0;

/// Draws the strips; `axis` has the ends of the common axis and its name, if there is one. `None`
/// without a number.
pub fn strips(
    head: &Head<'_>,
    cells: Cells,
    axis: Option<(f64, f64, &str)>,
    rows: &[Strip],
    notes: Vec<String>,
) -> Option<Plot> {
    rows.iter().find(|row| !row.parts.is_empty())?;
    let right = head.style.width() - MARGIN;
    let row_height = LABEL + STRIP + GAP;
    let bottom = 4.0 + rows.len() as f64 * row_height;
    let body = html! {
        @if let Some((from, to, unit)) = axis {
            (below(&Scale::between(from, to, LEFT, right), (LEFT, right), (bottom, bottom + 3.0), unit))
        }
        @for (at, row) in rows.iter().enumerate() {
            (one(cells, right, row, 4.0 + at as f64 * row_height))
        }
    };
    Some(head.plot(notes, if axis.is_some() { bottom + 44.0 } else { bottom + 4.0 }, body))
}

fn one(cells: Cells, right: f64, row: &Strip, top: f64) -> Markup {
    let wide = (right - LEFT) / row.parts.len().max(1) as f64;
    let room = right - LEFT - width(&row.text, 11.0) - 12.0;
    let y = top + LABEL;
    html! {
        text x=(px(LEFT)) y=(px(top + 13.0)) { (fit(&row.label, room, 12.0)) }
        text.tick x=(px(right)) y=(px(top + 13.0)) text-anchor="end" { (row.text) }
        @for (at, part) in row.parts.iter().enumerate() {
            @let part = part.clamp(0.0, 1.0);
            @let title = row.titles.get(at).map_or("", String::as_str);
            @let left = LEFT + at as f64 * wide;
            @if part > 0.0 {
                @match cells {
                    Cells::Heat => {
                        rect class=(fill(row.series)) x=(px(left)) y=(px(y)) width=(px(wide))
                            height=(px(STRIP)) fill-opacity=(format!("{:.2}", part.max(0.02))) {
                                title { (title) }
                            }
                    },
                    Cells::Bars => {
                        @let high = (part * STRIP).max(1.5);
                        rect class=(fill(row.series)) x=(px(left + 0.5)) y=(px(y + STRIP - high))
                            width=(px(wide - 1.0)) height=(px(high)) { title { (title) } }
                    },
                }
            }
        }
        @match cells {
            Cells::Heat => {
                rect.grid x=(px(LEFT)) y=(px(y)) width=(px(right - LEFT)) height=(px(STRIP)) {}
            },
            Cells::Bars => { path.axis d=(format!("M{} {}H{}", px(LEFT), px(y + STRIP), px(right))) {} },
        }
    }
}
