/*!
Plots as SVG, drawn with maud.

Plotting crates either add a megabyte of script (charming, plotly) or fix every colour in the
drawing (plotters). Then a picture cannot follow the page's light or dark theme and has no text for
readers who do not see it. Here a plot consists of elements with classes: the page sets their
colours by custom properties, a standalone file has the same rules with literal colours, and every
plot has a title and a description.
*/

mod axes;
mod bars;
mod legend;
mod lines;
mod palette;
mod scale;
mod scatter;
mod stacked;
mod words;

use maud::{Markup, PreEscaped, html};

pub use bars::{Bar, BarGroup, bars};
pub use lines::{Guide, Line, Lines, lines};
pub use palette::{DARK, LIGHT, SERIES, file_rules, page_rules};
pub use scale::thousands;
pub use scatter::{Dot, Scatter, scatter};
pub use stacked::{StackRow, stacked};

/// Width of every plot, in SVG units.
pub const WIDTH: f64 = 680.0;
/// Height of the title in a standalone file, where no heading is above the plot.
const TITLE_HEIGHT: f64 = 34.0;

/// A finished plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// File name without extension, and its id in the page.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Description for readers who do not see it.
    pub alt: String,
    /// Notes for the reader, such as omitted or thinned data.
    pub notes: Vec<String>,
    height: f64,
    body: Markup,
}

impl Plot {
    /// The plot as an element of the page.
    pub fn inline(&self) -> Markup {
        let (title, text) = (format!("{}-title", self.name), format!("{}-text", self.name));
        html! {
            svg.plot viewBox=(format!("0 0 {WIDTH} {}", px(self.height))) role="img"
                aria-labelledby=(format!("{title} {text}")) xmlns="http://www.w3.org/2000/svg" {
                title id=(title) { (self.title) }
                desc id=(text) { (self.alt) }
                (self.body)
            }
        }
    }

    /// The plot as a standalone file.
    pub fn file(&self) -> String {
        let height = px(self.height + TITLE_HEIGHT);
        let rules = format!(
            ".plot{{font-family:Roboto,'Segoe UI','Helvetica Neue',Arial,sans-serif}}{}",
            file_rules(&LIGHT)
        );
        let svg = html! {
            svg.plot xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} \
                {height}")) width=(WIDTH)
                height=(height) role="img" aria-labelledby="title text" {
                title id="title" { (self.title) }
                desc id="text" { (self.alt) }
                style { (PreEscaped(rules)) }
                rect width="100%" height="100%" fill=(LIGHT.card) {}
                text.strong x="16" y="22" style="font-size:15px" { (words::fit(&self.title, WIDTH - 32.0, 15.0)) }
                g transform=(format!("translate(0 {TITLE_HEIGHT})")) { (self.body) }
            }
        };
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", printable(&svg.into_string()))
    }
}

/// Removes characters that XML forbids even in escaped form; a video's name may contain them.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t' | '\r')).collect()
}

/// A coordinate with as many decimals as a screen can show.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The points as the data of a path.
fn path(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut data = String::new();
    for (index, (x, y)) in points.into_iter().enumerate() {
        data.push(if index == 0 { 'M' } else { 'L' });
        data.push_str(&px(x));
        data.push(' ');
        data.push_str(&px(y));
    }
    data
}

/// The series of the remainder: grey, and none of the eight.
pub const REST: usize = usize::MAX;

/// The class that fills a shape in the colour of a series.
fn fill(series: usize) -> String {
    if series == REST { "rest".to_owned() } else { format!("f{}", series % SERIES) }
}

/// Dashes of the second curve of a series.
const LIKE: &str = "3 6";

/// The class that draws only the dashed outline of a shape in the colour of a series: INVALID
/// values stay attributable.
fn hollow(series: usize) -> String {
    if series == REST { "hrest".to_owned() } else { format!("h{}", series % SERIES) }
}

/// Dashes that distinguish lines besides their colour; none for the first.
fn dashes(series: usize) -> Option<&'static str> {
    [
        None,
        Some("7 3"),
        Some("2 3"),
        Some("9 3 2 3"),
        Some("12 4"),
        Some("4 2"),
        Some("1 2"),
        Some("6 2 1 2 1 2"),
    ][series % SERIES]
}

#[cfg(test)]
mod tests;
