//! CSV: one line for each case, measured or not, in SI units with all digits.
//!
//! Tables that have a `case` column are joined: its line has the columns of all of them. A column
//! of mixed quantities (`rate`) is followed by one with the unit. A stub's relative number is
//! followed by `(stub)`. Spreadsheets run a field that
//! starts with `=`, `+`, `-` or `@` as a formula: such text is led by an apostrophe.

use super::{cell, clean};
use crate::{
    report::{Cell, Column, Document, Table},
    spec::STUB,
};

/// Renders the cases of a document.
///
/// # Errors
/// None on a writer into memory; the signature is that of the `csv` crate.
pub fn render(document: &Document) -> Result<String, csv::Error> {
    let tables: Vec<&Table> = document
        .tables()
        .filter(|table| table.columns.first().is_some_and(|column| column.key == "case"))
        .collect();
    let mut columns: Vec<(&Column, bool)> = Vec::new();
    for table in &tables {
        for (at, column) in table.columns.iter().enumerate() {
            let mixed = is_mixed(table, at);
            match columns.iter_mut().find(|(known, _)| known.key == column.key) {
                Some(known) => known.1 |= mixed,
                None => columns.push((column, mixed)),
            }
        }
    }
    if columns.is_empty() {
        return Ok(String::new());
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = columns.iter().flat_map(|(column, mixed)| {
        let unit = mixed.then(|| format!("{}_unit", column.key));
        [Some(column.key.to_owned()), unit].into_iter().flatten()
    });
    writer.write_record(header)?;
    for table in &tables {
        for row in &table.rows {
            let line = columns.iter().flat_map(|(column, mixed)| {
                let at = table.columns.iter().position(|of| of.key == column.key);
                let cell = at.map_or(&Cell::Absent, |at| &row[at]);
                let unit = mixed.then(|| cell::unit(cell).unwrap_or_default().to_owned());
                [Some(field(cell)), unit].into_iter().flatten()
            });
            writer.write_record(line)?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a column's values have units of their own.
pub fn is_mixed(table: &Table, column: usize) -> bool {
    let mut units = table.rows.iter().filter_map(|row| cell::unit(&row[column]));
    let suffixes = ["seconds", "bytes", "per_second"];
    units.next().is_some()
        && !suffixes.iter().any(|suffix| table.columns[column].key.ends_with(suffix))
}

fn field(cell: &Cell) -> String {
    match cell {
        Cell::Absent => String::new(),
        Cell::Text(text) | Cell::Code(text) => harmless(text),
        // With its mark no program takes it for a number.
        _ if cell::is_stub(cell) => format!("{} ({STUB})", cell::value(cell)),
        _ => cell::value(cell).to_string(),
    }
}

/// Text that a spreadsheet shows and does not run.
fn harmless(text: &str) -> String {
    // Tab and carriage return start formulas too: they are spaces once cleaned, so look before.
    let runs = text.trim_start_matches([' ', '\n']).starts_with(['=', '+', '-', '@', '\t', '\r'])
        || clean(text).trim_start().starts_with(['=', '+', '-', '@']);
    if runs { format!("'{}", clean(text)) } else { clean(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_text() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n\t@x"] {
            assert!(harmless(formula).starts_with('\''), "{formula:?}");
        }
        assert_eq!(harmless("gemm/f32"), "gemm/f32");
    }
}
