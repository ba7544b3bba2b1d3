/*!
Points in a plane: the colour shows the series, the marker's shape the class.
*/

use maud::html;

use super::axes::{BELOW, BOTTOM, LEFT, RIGHT, TOP, axes};
use super::legend::{Sign, legend, marker};
use super::scale::Scale;
use super::{Plot, fill, hollow, px};

/// One point.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Its value along the x axis.
    pub x: f64,
    /// Its value along the y axis.
    pub y: f64,
    /// Index of its name in [`Scatter::series`].
    pub series: usize,
    /// Index of its name in [`Scatter::classes`].
    pub class: usize,
    /// Tooltip.
    pub label: String,
    /// Its rows are INVALID, so it is drawn hollow.
    pub invalid: bool,
}

/// Data of a scatter plot.
#[derive(Clone, Debug, Default)]
pub struct Scatter {
    /// File name without extension.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Description of the plot.
    pub alt: String,
    /// Name of the x axis with its unit.
    pub x: String,
    /// Name of the y axis with its unit.
    pub y: String,
    /// The y axis is linear however small the least value is, because the value is a share.
    pub y_linear: bool,
    /// Names of the colours.
    pub series: Vec<String>,
    /// Names of the markers.
    pub classes: Vec<String>,
    /// The points.
    pub dots: Vec<Dot>,
    /// Notes below the plot.
    pub notes: Vec<String>,
}

/// Draws the points; `None` without one.
pub fn scatter(data: Scatter) -> Option<Plot> {
    if data.dots.is_empty() {
        return None;
    }
    let x = Scale::rates(data.dots.iter().map(|dot| dot.x), LEFT, RIGHT);
    let ys = data.dots.iter().map(|dot| dot.y);
    let y = match data.y_linear {
        true => Scale::from_zero(ys, BOTTOM, TOP),
        false => Scale::rates(ys, BOTTOM, TOP),
    };
    let mut entries: Vec<(Sign, String)> =
        data.series.iter().enumerate().map(|(at, name)| (Sign::Block(at), name.clone())).collect();
    if data.classes.len() > 1 {
        entries.extend(
            data.classes.iter().enumerate().map(|(at, name)| (Sign::Marker(at), name.clone())),
        );
    }
    let (legend, legend_height) = legend(&entries, LEFT, BELOW);
    let class = |dot: &Dot| match dot.invalid {
        true => hollow(dot.series),
        false => fill(dot.series) + " halo",
    };
    let body = html! {
        (axes((&x, &data.x), (&y, &data.y)))
        @for dot in &data.dots {
            path class=(class(dot)) d=(marker(dot.class, x.at(dot.x), y.at(dot.y), 6.5)) {
                title { (dot.label) }
            }
        }
        @if let [only] = data.dots.as_slice() {
            text.small x=(px((x.at(only.x) + 10.0).min(RIGHT - 120.0))) y=(px(y.at(only.y) - 8.0)) { (only.label) }
        }
        (legend)
    };
    Some(Plot {
        name: data.name,
        title: data.title,
        alt: data.alt,
        notes: data.notes,
        height: BELOW + legend_height,
        body,
    })
}
