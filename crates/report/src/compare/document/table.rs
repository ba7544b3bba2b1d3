/*!
The comparison's table on the screen.
*/

use comfy_table::{CellAlignment, Table, presets};

use super::cells;
use crate::compare::judge::Comparison;

/// Renders the table.
pub fn render(comparison: &Comparison) -> String {
    let (header, rows) = cells::cells(comparison);
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in rows {
        table.add_row(row);
    }
    table.to_string()
}
