/*!
Box plots in groups: one box for each platform, the platform's name above it, outliers as points with
their names.
*/

use maud::{Markup, html};

use super::axes::below;
use super::scale::Scale;
use super::words::{fit, width};
use super::{Head, Plot, fill, px};

/// One box.
#[derive(Clone, Debug, Default)]
pub struct BoxRow {
    /// Its name, above it; empty if the group has only one.
    pub name: String,
    /// The number of its colour.
    pub series: usize,
    /// End of the lower whisker, lower quartile, median, upper quartile, end of the upper whisker.
    pub five: [f64; 5],
    /// Values and names of the outliers.
    pub outliers: Vec<(f64, String)>,
    /// Text right of the plot.
    pub text: String,
    /// Tooltip.
    pub label: String,
}

/// Boxes under one label.
#[derive(Clone, Debug, Default)]
pub struct BoxGroup {
    /// Label above the boxes.
    pub label: String,
    /// The boxes from top to bottom.
    pub rows: Vec<BoxRow>,
}

const LEFT: f64 = 16.0;
/// Room for the text right of the plot.
const NUMBER: f64 = 116.0;
const HEADING: f64 = 20.0;
const NAME: f64 = 15.0;
const BOX: f64 = 12.0;
/// Space below a box, and below a group.
const GAP: f64 = 6.0;
const RADIUS: f64 = 2.6;

/// Draws the boxes on one axis, which is logarithmic if the values span orders of magnitude; `None`
/// without a box.
pub fn boxes(head: &Head<'_>, unit: &str, groups: &[BoxGroup], notes: Vec<String>) -> Option<Plot> {
    let rows = || groups.iter().flat_map(|group| &group.rows);
    rows().next()?;
    let values: Vec<f64> = rows()
        .flat_map(|row| row.five.into_iter().chain(row.outliers.iter().map(|(value, _)| *value)))
        .collect();
    let right = head.style.width() - NUMBER;
    let scale = Scale::around(values.iter().copied(), LEFT, right);
    let height = |row: &BoxRow| BOX + GAP + if row.name.is_empty() { 0.0 } else { NAME };
    let mut y = 6.0;
    let mut tops = Vec::new();
    for group in groups {
        tops.push(y);
        y += HEADING + group.rows.iter().map(height).sum::<f64>() + GAP;
    }
    let unit = if scale.is_log() { format!("{unit} (logarithmic)") } else { unit.to_owned() };
    let body = html! {
        (below(&scale, (LEFT, right), (4.0, y), &unit))
        @for (group, top) in groups.iter().zip(&tops) {
            text.strong x=(px(LEFT)) y=(px(top + 14.0)) { (fit(&group.label, right - LEFT, 12.0)) }
            @for (at, row) in group.rows.iter().enumerate() {
                @let above: f64 = group.rows[..at].iter().map(height).sum();
                (one(&scale, right, row, top + HEADING + above))
            }
        }
        path.axis d=(format!("M{} 4V{}", px(LEFT), px(y))) {}
    };
    Some(head.plot(notes, y + 40.0, body))
}

fn one(scale: &Scale, right: f64, row: &BoxRow, top: f64) -> Markup {
    let y = if row.name.is_empty() { top } else { top + NAME };
    let middle = y + BOX / 2.0;
    let [low, q1, median, q3, high] = row.five.map(|value| scale.at(value));
    let caps = |x: f64| format!("M{} {}v{}", px(x), px(middle - 3.5), px(7.0));
    html! {
        @if !row.name.is_empty() {
            text.tick x=(px(LEFT + 6.0)) y=(px(top + 11.0)) { (fit(&row.name, right - LEFT, 11.0)) }
        }
        path.ink d=(format!("M{} {m}H{}M{} {m}H{}{}{}", px(low), px(q1), px(q3), px(high), caps(low),
            caps(high), m = px(middle))) {}
        rect class=(fill(row.series)) x=(px(q1)) y=(px(y)) width=(px((q3 - q1).max(1.0))) height=(px(BOX)) rx="1" {
            title { (row.label) }
        }
        path.ink d=(format!("M{} {}v{}", px(median), px(y - 1.0), px(BOX + 2.0))) {}
        @for (value, name) in &row.outliers {
            circle class=(fill(row.series)) cx=(px(scale.at(*value))) cy=(px(middle)) r=(RADIUS) {
                title { (name) }
            }
        }
        @if let Some((x, name)) = farthest(scale, row, high, right) {
            text.tick x=(px(x)) y=(px(middle + 4.0)) { (name) }
        }
        text.small x=(px(right + NUMBER - 6.0)) y=(px(middle + 4.0)) text-anchor="end" { (row.text) }
    }
}

/// The name of the largest outlier with its left end, if it fits between points or right of them.
fn farthest<'a>(scale: &Scale, row: &'a BoxRow, high: f64, right: f64) -> Option<(f64, &'a str)> {
    let (value, name) = row.outliers.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (at, wide) = (scale.at(*value), width(name, 11.0));
    if at < high {
        return None;
    }
    if at + 7.0 + wide < right {
        return Some((at + 7.0, name));
    }
    let left = at - 7.0 - wide;
    let is_free = |x: f64| x + RADIUS < left || x >= at - 1.0;
    let free = row.outliers.iter().all(|(value, _)| is_free(scale.at(*value)));
    (left > high + 4.0 && free).then_some((left, name.as_str()))
}
