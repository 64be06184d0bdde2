//! CSV: one line for each case, measured or not, in SI units with all digits.
//!
//! Tables whose first column is `case` are joined: a case's line has the columns of all of them,
//! those of the table with the most columns first. A column that several tables have (`outcome`,
//! `median_seconds`) is there once. Where a table has several rows for a case, as that of each
//! rank's time has, its values stand in one field, in the order of the rows, with semicolons
//! between them.
//!
//! A column of mixed quantities (`rate`) is followed by one with the unit. A stub's relative number
//! is followed by `(stub)`. Text that a spreadsheet would run as a formula is led by an apostrophe
//! ([`for_spreadsheets`]).

use super::cell;
use crate::{Cell, Column, Document, Table};
use fizeau_domain::{spec::STUB, text::for_spreadsheets};
use std::collections::HashMap;

/// Renders the cases of a document.
///
/// # Errors
/// None on a writer into memory; the signature is that of the `csv` crate.
pub fn render(document: &Document) -> Result<String, csv::Error> {
    let mut tables: Vec<&Table> = document
        .tables()
        .filter(|table| table.columns.first().is_some_and(|column| column.key == CASE))
        .collect();
    tables.sort_by_key(|table| std::cmp::Reverse(table.columns.len()));
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
    for line in lines(&tables, &columns) {
        let fields = line.iter().zip(&columns).flat_map(|(field, (_, mixed))| {
            let unit = || field.cells.iter().find_map(|cell| cell::unit(cell)).unwrap_or_default();
            [Some(field.text()), mixed.then(|| unit().to_owned())].into_iter().flatten()
        });
        writer.write_record(fields)?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Renders one table, a line for each row.
///
/// # Errors
/// None on a writer into memory; the signature is that of the `csv` crate.
pub fn of_table(table: &Table) -> Result<String, csv::Error> {
    of(&[table])
}

/// Renders tables with the same columns as one, a line for each row.
///
/// # Errors
/// None on a writer into memory; the signature is that of the `csv` crate.
pub fn of_tables(document: &Document, names: &[&str]) -> Result<String, csv::Error> {
    let tables: Vec<&Table> =
        document.tables().filter(|table| names.contains(&table.name.as_str())).collect();
    of(&tables)
}

fn of(tables: &[&Table]) -> Result<String, csv::Error> {
    let Some(first) = tables.first() else { return Ok(String::new()) };
    let count = first.columns.len();
    let mixed: Vec<bool> =
        (0..count).map(|at| tables.iter().any(|table| is_mixed(table, at))).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = first.columns.iter().zip(&mixed).flat_map(|(column, mixed)| {
        let unit = mixed.then(|| format!("{}_unit", column.key));
        [Some(column.key.to_owned()), unit].into_iter().flatten()
    });
    writer.write_record(header)?;
    for row in tables.iter().flat_map(|table| &table.rows) {
        let fields = row.iter().zip(&mixed).flat_map(|(cell, mixed)| {
            let unit = mixed.then(|| cell::unit(cell).unwrap_or_default().to_owned());
            [Some(field(cell)), unit].into_iter().flatten()
        });
        writer.write_record(fields)?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The column that lines are joined by.
const CASE: &str = "case";

/// The case that a row is of.
fn name(row: &[Cell]) -> &str {
    match row.first() {
        Some(Cell::Code(name) | Cell::Text(name)) => name,
        _ => "",
    }
}

/// What a case has in a column, and the table that it is from.
#[derive(Clone, Default)]
struct Field<'d> {
    table: usize,
    cells: Vec<&'d Cell>,
}

impl<'d> Field<'d> {
    fn take(&mut self, cell: &'d Cell, table: usize) {
        let is_empty = self.cells.iter().all(|cell| **cell == Cell::Absent);
        if is_empty && self.table != table {
            *self = Field { table, cells: vec![cell] };
        } else if self.table == table {
            self.cells.push(cell);
        }
    }

    fn text(&self) -> String {
        match self.cells[..] {
            [] => String::new(),
            [one] => field(one),
            _ => self.cells.iter().map(|cell| field(cell)).collect::<Vec<_>>().join(";"),
        }
    }
}

/// One line for each case, in the order in which they come up, with a field for each column.
fn lines<'d>(tables: &[&'d Table], columns: &[(&Column, bool)]) -> Vec<Vec<Field<'d>>> {
    let mut lines: Vec<Vec<Field>> = Vec::new();
    let mut of_case: HashMap<&str, usize> = HashMap::new();
    for (number, table) in (1..).zip(tables) {
        let place = |column: &Column| columns.iter().position(|(of, _)| of.key == column.key);
        let places: Vec<usize> = table.columns.iter().filter_map(place).collect();
        for row in &table.rows {
            let at = *of_case.entry(name(row)).or_insert_with(|| {
                lines.push(vec![Field::default(); columns.len()]);
                lines.len() - 1
            });
            for (cell, &place) in row.iter().zip(&places) {
                let field = &mut lines[at][place];
                if columns[place].0.key != CASE || field.cells.is_empty() {
                    field.take(cell, number);
                }
            }
        }
    }
    lines
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
        Cell::Text(text) | Cell::Code(text) => for_spreadsheets(text),
        // With its mark no program takes it for a number.
        _ if cell::is_stub(cell) => format!("{} ({STUB})", cell::value(cell)),
        _ => cell::value(cell).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Weight};
    use fizeau_domain::units::Seconds;

    fn table(name: &str, keys: &[&'static str], rows: Vec<Vec<Cell>>) -> Block {
        let column = |&key| Column { key, title: key, weight: Weight::Useful };
        let columns: Vec<Column> = keys.iter().map(column).collect();
        Block::Table(Table::new(name, String::new(), columns, rows))
    }

    #[test]
    fn a_case_has_one_line_whatever_tables_it_is_in() {
        let code = |name: &str| Cell::Code(name.into());
        let time = |seconds| Cell::Time(Seconds(seconds));
        let blocks = vec![
            table(
                "attention",
                &["case", "seconds", "binds"],
                vec![vec![code("b"), time(2.0), code("memory")]],
            ),
            table(
                "cases",
                &["case", "seconds", "tier", "noise"],
                vec![
                    vec![code("a"), time(1.0), code("x"), Cell::Share(0.5)],
                    vec![code("b"), time(2.0), Cell::Absent, Cell::Absent],
                ],
            ),
            table(
                "rank_times",
                &["case", "rank", "rank_seconds"],
                vec![
                    vec![code("a"), code("rank 0"), time(1.5)],
                    vec![code("a"), code("rank 1"), Cell::Absent],
                    vec![code("a"), code("rank 2"), time(0.5)],
                ],
            ),
            table("not_measured", &["case", "tier"], vec![vec![code("c"), code("=1")]]),
        ];
        let document = Document { title: String::new(), subtitle: String::new(), blocks };
        let wanted = "case,seconds,tier,noise,binds,rank,rank_seconds\n\
                      a,1.0,x,0.5,,rank 0;rank 1;rank 2,1.5;;0.5\n\
                      b,2.0,,,memory,,\n\
                      c,,'=1,,,,\n";
        assert_eq!(render(&document).expect("CSV"), wanted);
    }
}
