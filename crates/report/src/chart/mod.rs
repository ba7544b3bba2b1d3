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
mod boxes;
mod forest;
mod labels;
mod legend;
mod lines;
mod palette;
mod scale;
mod scatter;
mod stacked;
mod strips;
mod style;
mod words;

use maud::{Markup, PreEscaped, html};

pub use bars::{Bar, BarGroup, bars};
pub use boxes::{BoxGroup, BoxRow, boxes};
pub use forest::{Forest, ForestGroup, ForestRow, forest};
pub use lines::{Guide, Line, Lines, lines};
pub use palette::{DARK, LIGHT, SERIES, file_rules, page_rules};
pub use scale::thousands;
pub use scatter::{Dot, Scatter, scatter};
pub use stacked::{StackRow, stacked};
pub use strips::{Cells, Strip, strips};
pub use style::Style;

/// Height of the title in a standalone file, where no heading is above the plot.
const TITLE_HEIGHT: f64 = 34.0;

/// How a plot is drawn and called.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    /// For a page or for a paper.
    pub style: Style,
    /// File name without extension.
    pub name: &'a str,
    /// Heading.
    pub title: &'a str,
    /// Description for readers who do not see it.
    pub alt: &'a str,
}

impl Head<'_> {
    /// The finished plot.
    fn plot(&self, notes: Vec<String>, height: f64, body: Markup) -> Plot {
        Plot {
            style: self.style,
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            alt: self.alt.to_owned(),
            notes,
            height,
            body,
        }
    }
}

/// A finished plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// For a page or for a paper.
    pub style: Style,
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
            svg.plot viewBox=(format!("0 0 {} {}", self.style.width(), px(self.height))) role="img"
                aria-labelledby=(format!("{title} {text}")) xmlns="http://www.w3.org/2000/svg" {
                title id=(title) { (self.title) }
                desc id=(text) { (self.alt) }
                (self.body)
            }
        }
    }

    /// The plot as a standalone file: for a page with its title and with colours that follow the
    /// reader's theme, for a paper without a title, in inches and on white.
    pub fn file(&self) -> String {
        self.source(self.style == Style::Page)
    }

    /// The file in light colours alone: usvg skips rules of a dark theme with a warning.
    pub fn light(&self) -> String {
        self.source(false)
    }

    fn source(&self, dark: bool) -> String {
        let top = if self.style == Style::Paper { 0.0 } else { TITLE_HEIGHT };
        let (width, height) = (self.style.width(), self.height + top);
        let theme = |theme| format!("{}.plot .back{{fill:{}}}", file_rules(theme), theme.card);
        let mut rules = format!(
            ".plot{{font-family:Roboto,'Segoe UI','Helvetica Neue',Arial,sans-serif}}{}",
            theme(&LIGHT)
        );
        if self.style == Style::Paper {
            rules += ".plot .tick,.plot .small{font-size:12px}";
        }
        if dark {
            rules += &format!("@media (prefers-color-scheme:dark){{{}}}", theme(&DARK));
        }
        let svg = html! {
            svg.plot xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {}", px(height)))
                width=(self.style.length(width)) height=(self.style.length(height)) role="img"
                aria-labelledby="title text" {
                title id="title" { (self.title) }
                desc id="text" { (self.alt) }
                style { (PreEscaped(rules)) }
                rect.back width="100%" height="100%" {}
                @if top > 0.0 {
                    text.strong x="16" y="22" style="font-size:15px" { (words::fit(&self.title, width - 32.0, 15.0)) }
                }
                g transform=(format!("translate(0 {top})")) { (self.body) }
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
    match (series, series % (2 * SERIES) < SERIES) {
        (REST, _) => "rest".to_owned(),
        (_, true) => format!("f{}", series % SERIES),
        // The ninth series has the first colour, paler.
        (_, false) => format!("f{} pale", series % SERIES),
    }
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
