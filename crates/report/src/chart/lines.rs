/*!
Curves over a common axis: distributions, times along a clip, drift.
*/

use maud::html;

use super::axes::{TOP, axes};
use super::legend::{Sign, legend, marker};
use super::scale::Scale;
use super::{Head, LIKE, Plot, SERIES, Style, dashes, hollow, path, px};

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Its name.
    pub label: String,
    /// Its points in order.
    pub points: Vec<(f64, f64)>,
    /// The number of its colour; without one its place among the lines.
    pub colour: Option<usize>,
    /// The line with the same colour and markers, of which this one is a second curve; it is then
    /// dashed with wide gaps.
    pub like: Option<usize>,
    /// Marked points, each with its tooltip.
    pub marks: Vec<(f64, f64, String)>,
    /// The same of INVALID values, drawn hollow.
    pub hollow: Vec<(f64, f64, String)>,
    /// Whiskers: a point of the x axis with the ends of its interval.
    pub whiskers: Vec<(f64, f64, f64)>,
}

/// A dotted line across the plot at a value of y.
#[derive(Clone, Debug)]
pub struct Guide {
    /// The value.
    pub y: f64,
    /// Its name, drawn at the right end.
    pub label: String,
}

/// Data of a plot of curves.
#[derive(Clone, Debug, Default)]
pub struct Lines {
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
    /// Ends of the y axis if fixed, such as 0 and 1 of a share.
    pub y_ends: Option<(f64, f64)>,
    /// The y axis begins at zero.
    pub y_from_zero: bool,
    /// The curves fluctuate so much that dashes would be unreadable: they are thin and
    /// distinguished by markers.
    pub busy: bool,
    /// The curves.
    pub lines: Vec<Line>,
    /// Dotted lines across.
    pub guides: Vec<Guide>,
    /// Notes below the plot.
    pub notes: Vec<String>,
    /// Names of the values 0, 1, 2, … of the x axis, which are then all and evenly spaced.
    pub x_names: Vec<String>,
}

/// Draws the curves; `None` without a point.
pub fn lines(data: Lines) -> Option<Plot> {
    let xs = data.lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x));
    let ys = data.lines.iter().flat_map(|line| {
        let ends = line.whiskers.iter().flat_map(|(_, low, high)| [*low, *high]);
        line.points.iter().map(|(_, y)| *y).chain(ends)
    });
    xs.clone().next()?;
    let style = data.style;
    let (left, right, bottom) = (style.left(), style.right(), style.bottom());
    let x = match data.x_names.len() {
        0 => Scale::around(xs, left, right),
        // Half a step at both ends, so that no point lies on the axis.
        names => Scale::between(-0.5, names as f64 - 0.5, left, right),
    };
    let y = match (data.y_ends, data.y_from_zero) {
        (Some((low, high)), _) => Scale::between(low, high, bottom, TOP),
        (None, true) => Scale::rates(ys, bottom, TOP),
        (None, false) => Scale::around(ys, bottom, TOP),
    };
    let colour_of =
        |at: usize| data.lines.get(at).and_then(|line| line.colour).unwrap_or(at) % SERIES;
    let entries: Vec<(Sign, String)> = data
        .lines
        .iter()
        .enumerate()
        .map(|(at, line)| {
            let sign = match (data.busy, line.like) {
                (_, Some(like)) => Sign::Like(colour_of(like)),
                (true, None) => Sign::Marked(colour_of(at), at),
                (false, None) => Sign::Line(colour_of(at), at),
            };
            (sign, line.label.clone())
        })
        .collect();
    let (legend, legend_height) = legend(style, &entries, left, style.below());
    let body = html! {
        (axes(style, (&x, &data.x), (&y, &data.y), &data.x_names))
        @for (at, guide) in data.guides.iter().enumerate() {
            @let next = data.guides.get(at + 1).map_or(f64::INFINITY, |next| y.at(guide.y) - y.at(next.y));
            path.guide d=(format!("M{left} {}H{right}", px(y.at(guide.y)))) {}
            // The name is below its line if the next line is too close above.
            text.tick x=(px(right - 4.0)) y=(px(y.at(guide.y) + if next < 15.0 { 12.0 } else { -4.0 })) text-anchor="end" { (guide.label) }
        }
        @for (at, line) in data.lines.iter().enumerate() {
            @let colour = colour_of(line.like.unwrap_or(at));
            @let shape = line.like.unwrap_or(at);
            path class=(format!("s{colour}{}", if data.busy { " thin" } else { "" })) stroke-linejoin="round"
                stroke-dasharray=[line.like.map(|_| LIKE).or_else(|| dashes(at).filter(|_| !data.busy))]
                d=(path(line.points.iter().map(|(px, py)| (x.at(*px), y.at(*py))))) {
                title { (line.label) }
            }
            @if data.busy {
                @for (mx, my) in spread(&line.points) {
                    path class=(format!("f{colour} halo")) d=(marker(shape, x.at(mx), y.at(my), 4.5)) {}
                }
            }
            @for (mx, low, high) in &line.whiskers {
                path.ink d=(format!("M{m} {}V{}M{l} {0}h6M{l} {1}h6", px(y.at(*low)), px(y.at(*high)),
                    m = px(x.at(*mx)), l = px(x.at(*mx) - 3.0))) {}
            }
            @for (mx, my, label) in &line.marks {
                path class=(format!("f{colour} halo")) d=(marker(at, x.at(*mx), y.at(*my), 4.5)) {
                    title { (label) }
                }
            }
            @for (mx, my, label) in &line.hollow {
                path class=(hollow(colour)) d=(marker(at, x.at(*mx), y.at(*my), 4.5)) {
                    title { (label) }
                }
            }
        }
        (legend)
    };
    let head = Head { style, name: &data.name, title: &data.title, alt: &data.alt };
    Some(head.plot(data.notes, style.below() + legend_height, body))
}

/// A few points along a curve, the last one included.
fn spread(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + '_ {
    const MARKERS: usize = 6;
    let last = points.len().saturating_sub(1);
    (0..MARKERS.min(points.len())).map(move |at| points[last - at * last / MARKERS])
}
