/*!
The legend of a plot: meaning of its colours, markers and dashes.
*/

use maud::{Markup, html};

use super::words::{fit, width};
use super::{LIKE, SERIES, Style, dashes, fill, px};

/// The sign of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sign {
    /// A line in the colour of the first and with the dashes of the second number.
    Line(usize, usize),
    /// The dashes of a second curve of this series, in its colour.
    Like(usize),
    /// A thin line in the colour of the first and with the marker of the second number.
    Marked(usize, usize),
    /// A filled square in the colour of this series.
    Block(usize),
    /// This marker, in the colour of text.
    Marker(usize),
}

const FONT: f64 = 12.0;
const ROW: f64 = 19.0;
const SIGN_WIDTH: f64 = 26.0;
const GAP: f64 = 18.0;

/// Draws the entries in rows from `top` on and returns their height.
pub fn legend(style: Style, entries: &[(Sign, String)], left: f64, top: f64) -> (Markup, f64) {
    let right = style.width();
    let (mut x, mut y) = (left, top + 13.0);
    let mut placed = Vec::new();
    for (sign, label) in entries {
        let label = fit(label, right - left - SIGN_WIDTH - 16.0, FONT);
        let wide = SIGN_WIDTH + width(&label, FONT) + GAP;
        if x > left && x + wide - GAP > right - 8.0 {
            x = left;
            y += ROW;
        }
        placed.push((*sign, label, x, y));
        x += wide;
    }
    let drawn = html! {
        @for (sign, label, x, y) in &placed {
            (draw(*sign, *x, *y - 4.0))
            text x=(px(x + SIGN_WIDTH)) y=(px(*y)) { (label) }
        }
    };
    (drawn, if entries.is_empty() { 0.0 } else { y - top + 8.0 })
}

fn draw(sign: Sign, x: f64, y: f64) -> Markup {
    match sign {
        Sign::Line(series, dash) => html! {
            path class=(format!("s{}", series % SERIES)) stroke-dasharray=[dashes(dash)]
                d=(format!("M{} {}h20", px(x), px(y))) {}
        },
        Sign::Like(series) => html! {
            path class=(format!("s{} thin", series % SERIES)) stroke-dasharray=(LIKE)
                d=(format!("M{} {}h20", px(x), px(y))) {}
            path class=(format!("f{} halo", series % SERIES)) d=(marker(series, x + 10.0, y, 4.5)) {}
        },
        Sign::Marked(series, shape) => html! {
            path class=(format!("s{} thin", series % SERIES)) d=(format!("M{} \
                {}h20", px(x), px(y))) {}
            path class=(format!("f{} halo", series % SERIES)) d=(marker(shape, x + 10.0, y, 4.5)) {}
        },
        Sign::Block(series) => html! {
            rect class=(fill(series)) x=(px(x + 6.0)) y=(px(y - 6.0)) width="12" height="12" rx="2" {}
        },
        Sign::Marker(shape) => html! { path.axis d=(marker(shape, x + 10.0, y, 5.0)) {} },
    }
}

/// The outline of the marker number `shape` around a point.
pub fn marker(shape: usize, x: f64, y: f64, r: f64) -> String {
    let corners = |corners: &[(f64, f64)]| {
        let points = corners.iter().map(|(dx, dy)| (x + dx * r, y + dy * r));
        super::path(points) + "Z"
    };
    match shape % 8 {
        0 => {
            let (left, r, d) = (px(x - r), px(r), px(2.0 * r));
            format!("M{left} {y}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z", y = px(y))
        }
        1 => corners(&[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)]),
        2 => corners(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        3 => corners(&[(0.0, -1.3), (1.1, 0.0), (0.0, 1.3), (-1.1, 0.0)]),
        4 => corners(&[(0.0, 1.2), (1.1, -0.9), (-1.1, -0.9)]),
        5 => {
            let (a, b) = (0.4, 1.2);
            corners(&[
                (-a, -b),
                (a, -b),
                (a, -a),
                (b, -a),
                (b, a),
                (a, a),
                (a, b),
                (-a, b),
                (-a, a),
                (-b, a),
                (-b, -a),
                (-a, -a),
            ])
        }
        6 => corners(&[
            (-1.2, 0.0),
            (-0.6, -1.05),
            (0.6, -1.05),
            (1.2, 0.0),
            (0.6, 1.05),
            (-0.6, 1.05),
        ]),
        _ => corners(&[
            (0.0, -1.3),
            (0.35, -0.35),
            (1.3, 0.0),
            (0.35, 0.35),
            (0.0, 1.3),
            (-0.35, 0.35),
            (-1.3, 0.0),
            (-0.35, -0.35),
        ]),
    }
}
