//! A plain table.

use comfy_table::{CellAlignment, Table, presets};

/// A table with these headings: the first column to the left, the others to the right.
#[must_use]
pub fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(headings);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
