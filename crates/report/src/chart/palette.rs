/*!
Colours, for a light and a dark background.

The eight series colours have a contrast of at least 3:1 with their background and are
distinguishable with each of the three kinds of colour blindness; a test checks both. No plot relies
on colour alone: markers, dashes and labels carry the same information.
*/

use std::fmt::{Display, Write};

/// Number of series colours; the ninth series has the first colour again.
pub const SERIES: usize = 8;

/// Colours of one theme.
pub struct Theme {
    /// Page background.
    pub page: &'static str,
    /// Background of figures and tables.
    pub card: &'static str,
    /// Text.
    pub ink: &'static str,
    /// Secondary text.
    pub muted: &'static str,
    /// Borders.
    pub line: &'static str,
    /// Links and the focus ring.
    pub accent: &'static str,
    /// Passed.
    pub good: &'static str,
    /// Failed.
    pub bad: &'static str,
    /// Uncertain.
    pub warn: &'static str,
    /// Shadow at the edge of a table that scrolls.
    pub shade: &'static str,
    /// One colour for each series.
    pub series: [&'static str; SERIES],
}

/// For bright rooms, paper and plot files.
pub const LIGHT: Theme = Theme {
    page: "#f6f7f9",
    card: "#ffffff",
    ink: "#1b2027",
    muted: "#545d69",
    line: "#d5dae1",
    accent: "#0b62ab",
    good: "#136c4b",
    bad: "#b3261e",
    warn: "#8a5a00",
    shade: "#8894a499",
    series: [
        "#0b6bb8", "#f5391f", "#1d9d73", "#8e2f7f", "#341d46", "#7a8e21", "#e253a5", "#7a1f1f",
    ],
};

/// For dark rooms.
pub const DARK: Theme = Theme {
    page: "#101318",
    card: "#181c22",
    ink: "#e7eaee",
    muted: "#a6b0bd",
    line: "#363d48",
    accent: "#7bbcff",
    good: "#52cf9c",
    bad: "#ff8a80",
    warn: "#f0bd57",
    shade: "#8390a399",
    series: [
        "#76bdff", "#f0862f", "#24e297", "#bd73c4", "#f2e15c", "#8c7ff4", "#b9c0c9", "#e0505e",
    ],
};

impl Theme {
    /// The colours as custom properties of CSS.
    pub fn variables(&self) -> String {
        let named = [
            ("page", self.page),
            ("card", self.card),
            ("ink", self.ink),
            ("muted", self.muted),
            ("line", self.line),
            ("accent", self.accent),
            ("good", self.good),
            ("bad", self.bad),
            ("warn", self.warn),
            ("shade", self.shade),
        ];
        let mut css = String::new();
        // Writing to a String cannot fail.
        for (name, colour) in named {
            let _ = write!(css, "--{name}:{colour};");
        }
        for (index, colour) in self.series.iter().enumerate() {
            let _ = write!(css, "--c{index}:{colour};");
        }
        css
    }
}

/// The rules for everything inside a plot, for standalone files. Their colours are literal, because
/// many readers of SVG files ignore custom properties.
pub fn file_rules(theme: &Theme) -> String {
    rules(&|name| match name {
        "card" => theme.card,
        "ink" => theme.ink,
        "muted" => theme.muted,
        "line" => theme.line,
        _ => name
            .strip_prefix('c')
            .and_then(|n| n.parse().ok())
            .map_or(theme.ink, |n: usize| theme.series[n % SERIES]),
    })
}

/// The same rules for the page, whose colours change with the reader's choice.
pub fn page_rules() -> String {
    rules(&|name| format!("var(--{name})"))
}

fn rules<T: Display>(colour: &dyn Fn(&str) -> T) -> String {
    let mut css = String::new();
    let mut rule = |selector: &str, body: String| {
        let _ = write!(css, ".plot {selector}{{{body}}}");
    };
    rule("text", format!("fill:{};font-size:12px", colour("ink")));
    rule(".tick", format!("fill:{};font-size:11px", colour("muted")));
    rule(".small", "font-size:11px".to_owned());
    rule(".strong", "font-weight:bold".to_owned());
    rule(".muted", format!("fill:{}", colour("muted")));
    rule(".grid", format!("stroke:{};stroke-width:1;fill:none", colour("line")));
    rule(".axis", format!("stroke:{};stroke-width:1;fill:none", colour("muted")));
    rule(
        ".guide",
        format!("stroke:{};stroke-width:1;stroke-dasharray:2 4;fill:none", colour("muted")),
    );
    rule(".halo", format!("stroke:{};stroke-width:1.5", colour("card")));
    rule(".chip", format!("fill:{}", colour("card")));
    rule(".ink", format!("stroke:{};stroke-width:1.2;fill:none", colour("ink")));
    rule(".pale", "opacity:.55".to_owned());
    let hollow =
        |c: &dyn Display| format!("fill:none;stroke:{c};stroke-width:1.5;stroke-dasharray:3 2");
    rule(".rest", format!("fill:{}", colour("muted")));
    rule(".hrest", hollow(&colour("muted")));
    for index in 0..SERIES {
        let c = colour(&format!("c{index}"));
        rule(&format!(".f{index}"), format!("fill:{c}"));
        rule(&format!(".h{index}"), hollow(&c));
        rule(&format!(".s{index}"), format!("stroke:{c};stroke-width:1.8;fill:none"));
    }
    // After the series' rules, whose width this one overrides.
    rule(".thin", "stroke-width:1".to_owned());
    css
}

#[cfg(test)]
mod tests;
