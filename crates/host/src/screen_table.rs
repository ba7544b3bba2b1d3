/*!
The layout of all tables on the terminal.
*/

use comfy_table::{CellAlignment, LineStyle, Table, presets};

/// A table with these columns, a line between any two rows; the columns `numbers` are set to the
/// right.
pub fn table<const N: usize>(header: [&str; N], numbers: impl IntoIterator<Item = usize>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The same without lines between rows, for tables of hundreds of rows.
pub fn dense<const N: usize>(header: [&str; N], numbers: impl IntoIterator<Item = usize>) -> Table {
    let mut table = table(header, numbers);
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table
}

/// A number with so many decimals; a dash for none.
pub fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}
