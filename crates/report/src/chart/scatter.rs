/*!
Points in a plane: the colour shows the series, the marker's shape the class.
*/

use maud::{Markup, html};

use super::axes::{TOP, axes};
use super::labels::{Taken, place};
use super::legend::{Sign, legend, marker};
use super::scale::Scale;
use super::{Head, Plot, Style, fill, hollow, px};

/// One point.
#[derive(Clone, Debug, Default)]
pub struct Dot {
    /// Its value along the x axis.
    pub x: f64,
    /// Its value along the y axis.
    pub y: f64,
    /// Ends of its whisker along the x axis.
    pub x_range: Option<(f64, f64)>,
    /// Ends of its whisker along the y axis.
    pub y_range: Option<(f64, f64)>,
    /// The number of its colour, which [`Scatter::series`] names.
    pub series: usize,
    /// Index of its name in [`Scatter::classes`].
    pub class: usize,
    /// Its name, drawn next to it.
    pub name: String,
    /// Tooltip.
    pub label: String,
    /// Its rows are INVALID, so it is drawn hollow.
    pub invalid: bool,
}

/// Data of a scatter plot.
#[derive(Clone, Debug, Default)]
pub struct Scatter {
    /// For a page or for a paper.
    pub style: Style,
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
    /// More is better on both axes: the axes fit the points and do not begin at zero, and a dotted
    /// line joins the points that no other one beats in both.
    pub front: bool,
    /// Numbers of colours with their names.
    pub series: Vec<(usize, String)>,
    /// Names of the markers.
    pub classes: Vec<String>,
    /// The points.
    pub dots: Vec<Dot>,
    /// Notes below the plot.
    pub notes: Vec<String>,
}

/// Draws the points; `None` without one.
pub fn scatter(mut data: Scatter) -> Option<Plot> {
    if data.dots.is_empty() {
        return None;
    }
    let style = data.style;
    let (x, y) = scales(&data);
    let mut entries: Vec<(Sign, String)> =
        data.series.iter().map(|(at, name)| (Sign::Block(*at), name.clone())).collect();
    if data.classes.len() > 1 {
        entries.extend(
            data.classes.iter().enumerate().map(|(at, name)| (Sign::Marker(at), name.clone())),
        );
    }
    let (legend, legend_height) = legend(style, &entries, style.left(), style.below());
    let class = |dot: &Dot| match dot.invalid {
        true => hollow(dot.series),
        false => fill(dot.series) + " halo",
    };
    let front = if data.front { front(&data.dots) } else { Vec::new() };
    let names = names(&data, &x, &y);
    let body = html! {
        (axes(style, (&x, &data.x), (&y, &data.y), &[]))
        @if data.front { (broken(style, &x, &y)) }
        @if front.len() > 1 {
            path.guide d=(stairs(&front, &x, &y)) { title { "No other point is both faster and \
                                                             more accurate" } }
        }
        @for dot in &data.dots {
            @if let Some((low, high)) = dot.x_range {
                path.axis d=(format!("M{} {y}H{}M{0} {top}v6M{1} {top}v6", px(x.at(low)), px(x.at(high)),
                    y = px(y.at(dot.y)), top = px(y.at(dot.y) - 3.0))) {}
            }
            @if let Some((low, high)) = dot.y_range {
                path.axis d=(format!("M{x} {}V{}M{left} {0}h6M{left} {1}h6", px(y.at(low)), px(y.at(high)),
                    x = px(x.at(dot.x)), left = px(x.at(dot.x) - 3.0))) {}
            }
            path class=(class(dot)) d=(marker(dot.class, x.at(dot.x), y.at(dot.y), 6.5)) {
                title { (dot.label) }
            }
        }
        (names)
        (legend)
    };
    if front.len() > 1 {
        data.notes.push(
            "Dotted: the Pareto front; no other point there is both faster and more accurate."
                .to_owned(),
        );
    }
    let head = Head { style, name: &data.name, title: &data.title, alt: &data.alt };
    Some(head.plot(data.notes, style.below() + legend_height, body))
}

fn scales(data: &Scatter) -> (Scale, Scale) {
    let style = data.style;
    let with_ends = |value: f64, range: Option<(f64, f64)>| {
        [Some(value), range.map(|ends| ends.0), range.map(|ends| ends.1)].into_iter().flatten()
    };
    let xs = data.dots.iter().flat_map(|dot| with_ends(dot.x, dot.x_range));
    let ys = data.dots.iter().flat_map(|dot| with_ends(dot.y, dot.y_range));
    let (left, right, bottom) = (style.left(), style.right(), style.bottom());
    match data.front {
        true => (Scale::zoomed(xs, left, right), Scale::zoomed_linear(ys, bottom, TOP)),
        false => (Scale::rates(xs, left, right), Scale::rates(ys, bottom, TOP)),
    }
}

/// The points that no other valid point beats in both directions, by x.
fn front(dots: &[Dot]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        dots.iter().filter(|dot| !dot.invalid).map(|dot| (dot.x, dot.y)).collect();
    points.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let mut best = f64::NEG_INFINITY;
    points.retain(|(_, y)| {
        let beats = *y > best;
        best = best.max(*y);
        beats
    });
    points.reverse();
    points
}

/// From the most accurate point to the fastest one along the axes: each point holds its accuracy up
/// to its speed.
fn stairs(front: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    let mut data = String::new();
    for (at, (right, up)) in front.iter().enumerate() {
        let (right, up) = (px(x.at(*right)), px(y.at(*up)));
        data += &if at == 0 { format!("M{right} {up}") } else { format!("V{up}H{right}") };
    }
    data
}

/// Marks at the corner for axes that do not begin at zero.
fn broken(style: Style, x: &Scale, y: &Scale) -> Markup {
    let (left, bottom) = (style.left(), style.bottom());
    html! {
        @if !y.is_log() && y.low() > 0.0 {
            path.axis d=(format!("M{} {}l8 -5M{} {}l8 -5", left - 4.0, bottom - 8.0, left - 4.0, bottom - 13.0)) {}
        }
        @if !x.is_log() && x.low() > 0.0 {
            path.axis d=(format!("M{} {}l5 -8M{} {}l5 -8", left + 8.0, bottom + 4.0, left + 13.0, bottom + 4.0)) {}
        }
    }
}

/// The points' names where there is room.
fn names(data: &Scatter, x: &Scale, y: &Scale) -> Markup {
    let style = data.style;
    let points: Vec<(f64, f64)> = data.dots.iter().map(|dot| (x.at(dot.x), y.at(dot.y))).collect();
    let mut taken = Taken::new((style.left(), style.right()), (TOP, style.bottom()), &points);
    html! {
        @for (dot, point) in data.dots.iter().zip(&points) {
            @if let Some((lx, ly)) = place(&mut taken, *point, &dot.name, 11.0) {
                text.small x=(px(lx)) y=(px(ly)) { (dot.name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unbeaten_points_are_on_the_front() {
        let dot = |x: f64, y: f64, invalid| Dot { x, y, invalid, ..Dot::default() };
        let dots = [
            dot(1.0, 9.0, false),
            dot(2.0, 8.0, false),
            dot(1.5, 7.0, false),
            dot(3.0, 8.0, false),
            dot(9.0, 9.9, true),
        ];
        assert_eq!(front(&dots), [(1.0, 9.0), (3.0, 8.0)], "an INVALID point beats nobody");
    }
}
