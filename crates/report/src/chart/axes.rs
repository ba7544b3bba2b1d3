/*!
The frame of a plot with two axes, and the axis below bars: grid, round numbers, axis names.
*/

use maud::{Markup, html};

use super::scale::Scale;
use super::{WIDTH, px};

/// Left edge of the data area.
pub const LEFT: f64 = 64.0;
/// Its right edge.
pub const RIGHT: f64 = WIDTH - 18.0;
/// Its upper edge.
pub const TOP: f64 = 12.0;
/// Its lower edge.
pub const BOTTOM: f64 = 312.0;
/// First free y below the axis and its name.
pub const BELOW: f64 = BOTTOM + 46.0;

/// Draws the frame; `x` and `y` name the axes. A logarithmic axis has the word in its name.
pub fn axes(x: (&Scale, &str), y: (&Scale, &str)) -> Markup {
    let named = |(scale, name): (&Scale, &str)| match scale.is_log() {
        true => format!("{name} (logarithmic)"),
        false => name.to_owned(),
    };
    let middle = (TOP + BOTTOM) / 2.0;
    html! {
        @for (value, label) in y.0.ticks() {
            path.grid d=(format!("M{LEFT} {}H{RIGHT}", px(y.0.at(value)))) {}
            text.tick x=(px(LEFT - 8.0)) y=(px(y.0.at(value) + 4.0)) text-anchor="end" { (label) }
        }
        @for (value, label) in x.0.ticks() {
            path.grid d=(format!("M{} {TOP}V{BOTTOM}", px(x.0.at(value)))) {}
            text.tick x=(px(x.0.at(value))) y=(px(BOTTOM + 17.0)) text-anchor="middle" { (label) }
        }
        path.axis d=(format!("M{LEFT} {TOP}V{BOTTOM}H{RIGHT}")) {}
        text.muted x=(px((LEFT + RIGHT) / 2.0)) y=(px(BOTTOM + 37.0)) text-anchor="middle" { (named(x)) }
        text.muted x="16" y=(px(middle)) text-anchor="middle" transform=(format!("rotate(-90 16 \
            {})", px(middle))) { (named(y)) }
    }
}

/// Draws the axis in `unit` and its grid below horizontal bars.
pub fn below(scale: &Scale, (left, right): (f64, f64), bottom: f64, unit: &str) -> Markup {
    html! {
        @for (value, label) in scale.ticks() {
            path.grid d=(format!("M{} 6V{}", px(scale.at(value)), px(bottom))) {}
            text.tick x=(px(scale.at(value))) y=(px(bottom + 15.0)) text-anchor="middle" { (label) }
        }
        text.muted x=(px((left + right) / 2.0)) y=(px(bottom + 33.0)) text-anchor="middle" { (unit) }
    }
}
