/*!
The layout of all tables on the terminal.

A table fits the width of its terminal, or `COLUMNS` where that is set. In a pipe it has its full
width. Too wide a table first breaks its headings, then leaves out the columns that its command
calls optional, then breaks cells at spaces and, in columns of text, after separators such as `/`
and `_`, and at last becomes a list. No word is cut.
*/

use std::fmt::{Display, Formatter};

use comfy_table::{CellAlignment, LineStyle, Table, presets};

/// Blanks of a cell, left and right together.
const PADDING: usize = 2;
/// Where numbers and sentences may break.
const SPACES: &[char] = &[' '];
/// After which characters paths, tags and names of kernels may break, too.
pub const SEPARATORS: &[char] = &[' ', '/', '_', ',', ':', '<'];

/// Rows of cells under a header.
#[derive(Clone, Debug)]
pub struct ScreenTable {
    header: Vec<String>,
    /// Columns that are set to the right.
    numbers: Vec<usize>,
    /// Columns that a narrow terminal leaves out, the first of them first.
    optional: Vec<usize>,
    /// Without a line between any two rows.
    dense: bool,
    rows: Vec<Vec<String>>,
}

/// A table with these columns, a line between any two rows; the columns `numbers` are set to the
/// right.
pub fn table(
    header: impl IntoIterator<Item = impl Into<String>>,
    numbers: impl IntoIterator<Item = usize>,
) -> ScreenTable {
    ScreenTable {
        header: header.into_iter().map(Into::into).collect(),
        numbers: numbers.into_iter().collect(),
        optional: Vec::new(),
        dense: false,
        rows: Vec::new(),
    }
}

/// The same without lines between rows, for tables of hundreds of rows.
pub fn dense(
    header: impl IntoIterator<Item = impl Into<String>>,
    numbers: impl IntoIterator<Item = usize>,
) -> ScreenTable {
    ScreenTable { dense: true, ..table(header, numbers) }
}

/// A number with so many decimals; a dash for none.
pub fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// Columns of the terminal; none in a pipe. `COLUMNS` decides for both.
pub fn screen_width() -> Option<usize> {
    let wanted = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    wanted.filter(|columns| *columns > 0).or_else(|| Table::new().width().map(usize::from))
}

impl ScreenTable {
    /// The columns that a narrow terminal leaves out, the least important first.
    #[must_use]
    pub fn optional(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.optional = columns.into_iter().collect();
        self
    }

    /// Adds a row with a cell for each column.
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table in at most `width` columns; as wide as its cells for none.
    pub fn render(&self, width: Option<usize>) -> String {
        let mut shown: Vec<usize> = (0..self.header.len()).collect();
        let Some(width) = width else { return self.draw(&shown, &[]) };
        let whole = self.widths(&shown, |_, _, text| longest_line(text));
        if total(&whole) <= width {
            return self.draw(&shown, &[]);
        }
        // Cells keep their lines here; a heading may break.
        let in_rows = |shown: &[usize]| {
            self.widths(shown, |is_header, _, text| match is_header {
                true => longest_piece(text, SPACES),
                false => longest_line(text),
            })
        };
        let mut dropped = Vec::new();
        for column in &self.optional {
            if total(&in_rows(&shown)) <= width {
                break;
            }
            shown.retain(|kept| kept != column);
            dropped.push(*column);
        }
        let most = in_rows(&shown);
        let least = self.widths(&shown, |_, breaks, text| longest_piece(text, breaks));
        let drawn = match (total(&most) <= width, total(&least) <= width) {
            // The headings take the room that is left.
            (true, _) => {
                let whole = self.widths(&shown, |_, _, text| longest_line(text));
                self.draw(&shown, &shared(&most, &whole, width))
            }
            (false, true) => {
                let widths = self.filled(&shown, shared(&least, &most, width), &most, width);
                self.draw(&shown, &widths)
            }
            (false, false) => return self.list(),
        };
        dropped.sort_unstable();
        let names: Vec<&str> = dropped.iter().map(|at| self.header[*at].as_str()).collect();
        match names.is_empty() {
            true => drawn,
            false => {
                let note = format!(
                    "Not shown in {width} columns: {}. A wider terminal or --json shows them.",
                    names.join(", ")
                );
                format!("{drawn}\n{}", wrapped(&note, width))
            }
        }
    }

    /// The largest `measure` of each column's header (true) and cells. It also gets the
    /// characters after which the text may break.
    fn widths(
        &self,
        shown: &[usize],
        measure: impl Fn(bool, &[char], &str) -> usize,
    ) -> Vec<usize> {
        let of = |column: &usize| {
            let breaks = self.breaks(*column);
            let cells = self.rows.iter().filter_map(|cells| cells.get(*column));
            let cells = cells.map(|cell| measure(false, breaks, cell)).max().unwrap_or(0);
            cells.max(measure(true, SPACES, &self.header[*column]))
        };
        shown.iter().map(of).collect()
    }

    /// `widths` with the room that broken lines leave, up to `most`. The first columns get it first:
    /// they have the names.
    fn filled(
        &self,
        shown: &[usize],
        mut widths: Vec<usize>,
        most: &[usize],
        width: usize,
    ) -> Vec<usize> {
        for at in 0..shown.len() {
            let lines = self.line_widths(shown, &widths);
            let left = width.saturating_sub(total(&lines));
            widths[at] = most[at].min(lines[at] + left);
        }
        widths
    }

    /// The longest line of each column once its text is broken to `widths`.
    fn line_widths(&self, shown: &[usize], widths: &[usize]) -> Vec<usize> {
        let of = |(column, width): (&usize, &usize)| {
            let longest =
                |_: bool, breaks: &[char], text: &str| longest_line(&broken(text, *width, breaks));
            self.widths(std::slice::from_ref(column), longest).into_iter().sum::<usize>()
        };
        shown.iter().zip(widths).map(of).collect()
    }

    fn breaks(&self, column: usize) -> &'static [char] {
        if self.numbers.contains(&column) { SPACES } else { SEPARATORS }
    }

    /// The columns `shown`, their text broken to `widths` where these are given.
    fn draw(&self, shown: &[usize], widths: &[usize]) -> String {
        let cells = |is_header: bool, cells: &[String]| -> Vec<String> {
            let cell = |(at, column): (usize, &usize)| {
                let text = cells.get(*column).map_or("", String::as_str);
                let breaks = if is_header { SPACES } else { self.breaks(*column) };
                widths.get(at).map_or_else(|| text.to_owned(), |width| broken(text, *width, breaks))
            };
            shown.iter().enumerate().map(cell).collect()
        };
        let mut table = Table::new();
        table.load_style(match self.dense {
            true => presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()),
            false => presets::UTF8_HORIZONTAL_ONLY,
        });
        table.set_header(cells(true, &self.header));
        for (at, column) in shown.iter().enumerate() {
            if self.numbers.contains(column)
                && let Some(column) = table.column_mut(at)
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for row in &self.rows {
            table.add_row(cells(false, row));
        }
        table.to_string()
    }

    /// A line for each cell, for terminals that are too narrow for any table.
    fn list(&self) -> String {
        let lines = |row: &Vec<String>| {
            let pairs = self.header.iter().zip(row).filter(|(_, cell)| *cell != "-");
            let lines = pairs.enumerate().map(|(at, (name, cell))| {
                let cell = cell.replace('\n', ", ");
                match (at, name.is_empty()) {
                    (0, true) => cell,
                    (0, false) => format!("{name}: {cell}"),
                    (_, true) => format!("  {cell}"),
                    (_, false) => format!("  {name}: {cell}"),
                }
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        self.rows.iter().map(lines).collect::<Vec<_>>().join("\n")
    }
}

impl Display for ScreenTable {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.render(screen_width()))
    }
}

/// The width of a table: its cells with their padding, and a blank between any two columns.
fn total(widths: &[usize]) -> usize {
    let cells: usize = widths.iter().map(|width| width + PADDING).sum();
    cells + widths.len().saturating_sub(1)
}

/// Widths between `least` and `most` that fill `width`: narrow columns get their whole text first.
fn shared(least: &[usize], most: &[usize], width: usize) -> Vec<usize> {
    let capped = |cap: usize| -> Vec<usize> {
        least.iter().zip(most).map(|(least, most)| *(least.max(&cap.min(*most)))).collect()
    };
    (0..=width).rev().map(capped).find(|widths| total(widths) <= width).unwrap_or_default()
}

fn longest_line(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn longest_piece(text: &str, breaks: &[char]) -> usize {
    let pieces = text.lines().flat_map(|line| line.split_inclusive(breaks));
    pieces.map(|piece| piece.trim_end().chars().count()).max().unwrap_or(0)
}

/// The text in lines of at most `width` characters, broken at spaces; a longer word stays whole.
pub fn wrapped(text: &str, width: usize) -> String {
    broken(text, width, SPACES)
}

/// The same, but a word that is longer than a line breaks after any of the characters `breaks`.
pub fn broken(text: &str, width: usize, breaks: &[char]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut current = String::new();
        // A word that fits into a line is never broken.
        let fits = |word: &str| word.trim_end().chars().count() <= width;
        let words = line.split_inclusive(SPACES).flat_map(|word| match fits(word) {
            true => vec![word],
            false => word.split_inclusive(breaks).collect(),
        });
        for piece in words {
            let (have, more) = (current.chars().count(), piece.trim_end().chars().count());
            if have > 0 && have + more > width {
                lines.push(std::mem::take(&mut current).trim_end().to_owned());
            }
            current.push_str(piece);
        }
        lines.push(current.trim_end().to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ScreenTable {
        let header = ["model", "fps", "p50 ms", "peak RSS MiB", "why"];
        let mut table = table(header, 1..4).optional([3, 2]);
        table.add_row(["edgetam_mini_points", "12.5", "80.0", "512", "-"]);
        table.add_row(["sam2.1_tiny_points", "1.5", "640.0", "2048", "the clip has no mask"]);
        table
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn a_table_fits_its_terminal_and_cuts_no_word() {
        let table = example();
        let whole = table.render(None);
        assert_eq!(table.render(Some(200)), whole);
        assert!(whole.contains("peak RSS MiB") && !whole.contains("Not shown"));
        for width in 20..widest(&whole) {
            let narrow = table.render(Some(width));
            // A list's lines are as long as its cells.
            let list = narrow.starts_with("model: ");
            assert!(list || widest(&narrow) <= width, "{width}:\n{narrow}");
            for word in ["points", "12.5", "640.0", "clip"] {
                let lost = word == "640.0" && narrow.contains("Not shown");
                assert!(lost || narrow.contains(word), "{width}: {word} is cut:\n{narrow}");
            }
        }
    }

    #[test]
    fn headings_break_first_and_optional_columns_go_next() {
        let table = example();
        let headings = table.render(Some(70));
        assert!(headings.contains("2048") && headings.contains("no mask"), "{headings}");
        let without = table.render(Some(60));
        assert!(!without.contains("2048") && without.contains("640.0"), "{without}");
        assert!(without.contains("Not shown in 60 columns: peak RSS MiB."), "{without}");
        let list = table.render(Some(10));
        assert!(list.starts_with("model: edgetam_mini_points\n  fps: 12.5"), "{list}");
    }

    #[test]
    fn names_get_the_room_that_broken_numbers_leave() {
        let mut table = table(["model", "objects", "fps", "p50 ms", "p95 ms", "J&F, %"], 1..6);
        let [fps, p50, p95] = ["57.8 (54.1 to 61.5)", "17.1 (14.8 to 19.5)", "25.5 (20.9 to 30.1)"];
        table.add_row(["edgetam_mini_points", "1/1", fps, p50, p95, "98.62 (98.62 to 98.62)"]);
        let narrow = table.render(Some(80));
        assert!(widest(&narrow) <= 80 && narrow.contains(" edgetam_mini_ "), "{narrow}");
    }

    #[test]
    fn text_breaks_at_spaces_and_after_separators() {
        assert_eq!(broken("onnx/bundles/mini_256", 13, SEPARATORS), "onnx/bundles/\nmini_256");
        assert_eq!(wrapped("a b\nc", 80), "a b\nc");
        assert_eq!(wrapped("inseparable word", 4), "inseparable\nword");
    }
}
