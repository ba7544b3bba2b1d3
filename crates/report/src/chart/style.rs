/*!
Size of plots: for a page, and for a column of a paper.
*/

/// What a plot is drawn for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A page on a screen: 680 units wide, text of 12.
    #[default]
    Page,
    /// A column of a paper: 3.3 inches wide, text of 8 points, no title.
    Paper,
}

/// Width of a column, inches.
const COLUMN_INCHES: f64 = 3.3;
/// Points of a unit in a paper: text of 12 units has 8 points.
const POINTS: f64 = 8.0 / 12.0;
const POINTS_PER_INCH: f64 = 72.0;

impl Style {
    /// Width of a plot, units.
    pub fn width(self) -> f64 {
        match self {
            Self::Page => 680.0,
            Self::Paper => (COLUMN_INCHES * POINTS_PER_INCH / POINTS).round(),
        }
    }

    /// A length of the drawing as an attribute of the file: pixels, or inches in a paper.
    pub fn length(self, units: f64) -> String {
        match self {
            Self::Page => super::px(units),
            Self::Paper => format!("{:.3}in", units * POINTS / POINTS_PER_INCH),
        }
    }

    /// Left edge of a plot with two axes.
    pub fn left(self) -> f64 {
        if self == Self::Paper { 60.0 } else { 64.0 }
    }

    /// Right edge of a plot with two axes.
    pub fn right(self) -> f64 {
        self.width() - if self == Self::Paper { 8.0 } else { 18.0 }
    }

    /// Lower edge of a plot with two axes.
    pub fn bottom(self) -> f64 {
        if self == Self::Paper { 212.0 } else { 312.0 }
    }

    /// First free y below the axis and its name.
    pub fn below(self) -> f64 {
        self.bottom() + 46.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_papers_plot_is_a_column_wide_and_its_text_has_eight_points() {
        assert_eq!(Style::Paper.length(Style::Paper.width()), "3.296in");
        assert_eq!(Style::Page.length(680.0), "680");
    }
}
