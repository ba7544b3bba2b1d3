/*!
The frame of a plot with two axes, and the axis below bars: grid, round numbers, axis names.
*/

use maud::{Markup, html};

use super::scale::Scale;
use super::{Style, px};

/// Upper edge of the data area.
pub const TOP: f64 = 12.0;
/// An approximate width of a tick's label with the space to the next one.
const LABEL: f64 = 46.0;

/// Draws the frame; `x` and `y` name the axes. A logarithmic axis has the word in its name. The
/// values 0, 1, 2, … of the x axis are called `x_names` where there are such.
pub fn axes(style: Style, x: (&Scale, &str), y: (&Scale, &str), x_names: &[String]) -> Markup {
    let ticks = match x_names.is_empty() {
        true => x.0.ticks(),
        false => (0..).map(f64::from).zip(x_names.iter().cloned()).collect(),
    };
    let named = |(scale, name): (&Scale, &str)| match scale.is_log() {
        true => format!("{name} (logarithmic)"),
        false => name.to_owned(),
    };
    let (left, right, bottom) = (style.left(), style.right(), style.bottom());
    let middle = (TOP + bottom) / 2.0;
    html! {
        @for (value, label) in y.0.ticks() {
            path.grid d=(format!("M{left} {}H{right}", px(y.0.at(value)))) {}
            text.tick x=(px(left - 8.0)) y=(px(y.0.at(value) + 4.0)) text-anchor="end" { (label) }
        }
        @for (value, label) in spaced(x.0, ticks) {
            path.grid d=(format!("M{} {TOP}V{bottom}", px(x.0.at(value)))) {}
            text.tick x=(px(x.0.at(value))) y=(px(bottom + 17.0)) text-anchor="middle" { (label) }
        }
        path.axis d=(format!("M{left} {TOP}V{bottom}H{right}")) {}
        text.muted x=(px((left + right) / 2.0)) y=(px(bottom + 37.0)) text-anchor="middle" { (named(x)) }
        text.muted x="12" y=(px(middle)) text-anchor="middle" transform=(format!("rotate(-90 12 \
            {})", px(middle))) { (named(y)) }
    }
}

/// Ticks of a horizontal axis whose labels do not touch.
fn spaced(scale: &Scale, ticks: Vec<(f64, String)>) -> Vec<(f64, String)> {
    let mut free = f64::NEG_INFINITY;
    let ticks = ticks.into_iter().filter(|(value, _)| {
        let fits = scale.at(*value) >= free;
        if fits {
            free = scale.at(*value) + LABEL;
        }
        fits
    });
    ticks.collect()
}

/// Draws the axis in `unit` and its grid below horizontal bars.
pub fn below(
    scale: &Scale,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
    unit: &str,
) -> Markup {
    html! {
        @for (value, label) in spaced(scale, scale.ticks()) {
            path.grid d=(format!("M{} {top}V{}", px(scale.at(value)), px(bottom))) {}
            text.tick x=(px(scale.at(value))) y=(px(bottom + 15.0)) text-anchor="middle" { (label) }
        }
        text.muted x=(px((left + right) / 2.0)) y=(px(bottom + 33.0)) text-anchor="middle" { (unit) }
    }
}
