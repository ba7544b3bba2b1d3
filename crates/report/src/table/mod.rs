/*!
Tables of the page as data: the page shows them as HTML, `--tables` writes them as Markdown and
LaTeX.
*/

mod files;
mod text;

pub use files::write;

use crate::chart::thousands;
use crate::input::Validity;

/// The text of a missing number.
pub const NOT_MEASURED: &str = "not measured";

/// Colour of a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Passed.
    Good,
    /// Failed.
    Bad,
    /// Uncertain.
    Warn,
    /// Neither.
    Plain,
}

impl Tone {
    /// The class of the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Plain => "plain",
        }
    }
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// The number by which the table is sorted; without one it is sorted by the text.
    pub value: Option<f64>,
    /// Aligned right.
    pub number: bool,
    /// There is no value; the text says so.
    pub none: bool,
    /// Struck through: from INVALID rows.
    pub struck: bool,
    /// Long text that may break anywhere.
    pub wrap: bool,
    /// Coloured words before the text, each with a sign, so that no colour is needed.
    pub badges: Vec<(Tone, String)>,
    /// Additional words in a secondary colour.
    pub aside: String,
    /// Index of a series whose colour is shown before the text.
    pub series: Option<usize>,
}

impl Cell {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A text, or the word for a missing one.
    pub fn known(text: Option<&str>) -> Self {
        match text {
            Some(text) => Self::text(text),
            None => Self { none: true, ..Self::text("unknown") },
        }
    }

    /// A number with its decimals, struck through if its rows are INVALID.
    pub fn number(value: Option<f64>, digits: usize, struck: bool) -> Self {
        match value {
            Some(number) => {
                Self { value, number: true, struck, ..Self::text(shown(number, digits)) }
            }
            None => Self::missing(NOT_MEASURED),
        }
    }

    /// The words in place of a number.
    pub fn missing(words: impl Into<String>) -> Self {
        Self { number: true, none: true, ..Self::text(words) }
    }

    /// A text at a number's place.
    pub fn right(text: impl Into<String>, value: Option<f64>) -> Self {
        Self { number: true, value, ..Self::text(text) }
    }

    /// Words with a colour and a sign.
    pub fn badge(tone: Tone, words: impl Into<String>) -> Self {
        Self { badges: vec![(tone, words.into())], ..Self::default() }
    }

    /// The verdict of a row.
    pub fn validity(validity: Validity) -> Self {
        let (tone, words) = validity_badge(validity);
        Self::badge(tone, words)
    }

    /// The same with additional words.
    pub fn with(self, aside: impl Into<String>) -> Self {
        Self { aside: aside.into(), ..self }
    }

    /// The same, breaking anywhere.
    pub fn wrapped(self) -> Self {
        Self { wrap: true, ..self }
    }

    /// Everything in it as one text, struck numbers in brackets.
    pub fn plain(&self) -> String {
        let mut parts: Vec<String> = self.badges.iter().map(|(_, words)| words.clone()).collect();
        match (self.text.is_empty(), self.struck) {
            (true, _) => {}
            (false, true) => parts.push(format!("({})", self.text)),
            (false, false) => parts.push(self.text.clone()),
        }
        if !self.aside.is_empty() {
            parts.push(self.aside.clone());
        }
        parts.join(" ")
    }
}

/// A verdict's colour, sign and word.
pub fn validity_badge(validity: Validity) -> (Tone, String) {
    let (tone, sign) = match validity {
        Validity::Valid => (Tone::Good, "✓"),
        Validity::Invalid => (Tone::Bad, "✗"),
        Validity::Unjudged => (Tone::Warn, "?"),
        Validity::NoVerdict | Validity::Unmeasured => (Tone::Plain, "–"),
    };
    (tone, format!("{sign} {}", validity.word()))
}

/// A row; its first cell is its heading.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The cells.
    pub cells: Vec<Cell>,
    /// All of its numbers are INVALID.
    pub invalid: bool,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its file name without extension.
    pub name: String,
    /// What it shows.
    pub caption: String,
    /// Headings with whether their column has numbers, and a secondary line such as a limit.
    pub heads: Vec<(String, bool, String)>,
    /// The rows.
    pub rows: Vec<Row>,
    /// A click on a heading sorts it.
    pub sortable: bool,
}

impl Table {
    /// A sortable table whose columns from `numbers_from` on have numbers.
    pub fn new(name: &str, caption: &str, heads: &[&str], numbers_from: usize) -> Self {
        let heads = heads.iter().enumerate();
        Self {
            name: name.to_owned(),
            caption: caption.to_owned(),
            heads: heads
                .map(|(at, head)| ((*head).to_owned(), at >= numbers_from, String::new()))
                .collect(),
            rows: Vec::new(),
            sortable: true,
        }
    }

    /// Adds a row.
    pub fn push(&mut self, cells: Vec<Cell>, invalid: bool) {
        self.rows.push(Row { cells, invalid });
    }

    /// Removes columns that are [`Cell::none`] or empty in every row, from column `from` on.
    /// Returns their headings.
    pub fn drop_empty(&mut self, from: usize) -> Vec<String> {
        let empty = |at: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.cells.get(at));
            cells.all(|cell| cell.none || cell.plain().is_empty())
        };
        let dropped: Vec<bool> = (0..self.heads.len()).map(|at| at >= from && empty(at)).collect();
        let keep = |at: &mut usize| {
            *at += 1;
            !dropped[*at - 1]
        };
        let names = self.heads.iter().zip(&dropped).filter(|(_, dropped)| **dropped);
        let names = names.map(|(head, _)| head.0.clone()).collect();
        let mut at = 0;
        self.heads.retain(|_| keep(&mut at));
        for row in &mut self.rows {
            let mut at = 0;
            row.cells.retain(|_| keep(&mut at));
        }
        names
    }
}

/// A number with the given decimals, or with more if it would otherwise read as zero.
pub fn shown(value: f64, digits: usize) -> String {
    const MOST: usize = 6;
    let vanishes = |digits: usize| value != 0.0 && value.abs() < 0.5 * 10f64.powi(-(digits as i32));
    let digits = (digits..MOST).find(|digits| !vanishes(*digits)).unwrap_or(digits);
    thousands(value, digits)
}

/// A number for running text.
pub fn in_text(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or_else(
        || NOT_MEASURED.to_owned(),
        |value| format!("{} {unit}", shown(value, digits)).trim_end().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_do_not_read_as_zero() {
        assert_eq!(
            (shown(0.28, 0), shown(0.007, 2), shown(0.004, 2)),
            ("0.3".into(), "0.01".into(), "0.004".into())
        );
        assert_eq!(
            (shown(0.0, 2), shown(1234.5, 0), shown(1e-9, 2)),
            ("0.00".into(), "1234".into(), "0.00".into())
        );
    }

    #[test]
    fn columns_without_a_value_are_dropped_and_named() {
        let mut table = Table::new("t", "T", &["Model", "FPS", "Watt"], 1);
        for fps in [1.0, 2.0] {
            let cells = vec![
                Cell::text("m"),
                Cell::number(Some(fps), 1, false),
                Cell::number(None, 1, false),
            ];
            table.push(cells, false);
        }
        assert_eq!(table.drop_empty(1), ["Watt"]);
        assert!(table.rows.iter().all(|row| row.cells.len() == 2) && table.heads.len() == 2);
    }
}
