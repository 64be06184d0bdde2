//! Reports of very many cases: what they take grows with the rows, and not with their square.

use fizeau::cmd::document::{FILE, ReportFormat, render};
use fizeau_report::{
    Block, Cell, Column, Document, Table, Weight,
    format::terminal::{Colour, Terminal},
};
use std::time::{Duration, Instant};

const ROWS: usize = 100_000;

/// A table of names and words: where numbers stand, one is found in the first row.
fn document() -> Document {
    let column = |key| Column { key, title: key, weight: Weight::Essential };
    let columns = ["case", "a", "b", "c", "d", "e"].map(column);
    let row = |at: usize| {
        let words = std::iter::repeat_n(Cell::Text("words".into()), columns.len() - 1);
        let name = Cell::Code(format!("stream/read/{at}KiB/2u/avx512"));
        [name].into_iter().chain(words).collect()
    };
    let rows = (0..ROWS).map(row).collect();
    let (name, title) = ("cases".into(), "Cases".into());
    let table = Table { name, title, columns: columns.to_vec(), rows };
    Document { title: String::new(), subtitle: String::new(), blocks: vec![Block::Table(table)] }
}

#[test]
fn a_report_of_very_many_rows_ends() {
    let document = document();
    let window = Terminal { width: Some(120), colour: Colour::Never };
    for (format, terminal) in [
        (ReportFormat::Terminal, FILE),
        (ReportFormat::Terminal, window),
        (ReportFormat::Markdown, FILE),
    ] {
        let start = Instant::now();
        let text = render(&document, format, terminal).expect("it renders");
        // Seconds, where a column is looked at once; minutes, where it is for each of its cells.
        assert!(start.elapsed() < Duration::from_secs(30), "{format:?}: {:?}", start.elapsed());
        assert!(text.lines().count() > ROWS, "{format:?}");
    }
}
