//! Analysis of records into a [`Document`]: pure, records in, plain data out.

use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds};

/// Something to read: what a format turns into text.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// At the top.
    pub title: String,
    /// In reading order.
    pub blocks: Vec<Block>,
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A heading of the second level.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Column titles.
    pub columns: Vec<String>,
    /// As wide as `columns` each.
    pub rows: Vec<Vec<Cell>>,
}

/// A value with its meaning; the format picks the digits.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A rate of bytes.
    Bandwidth(BytesPerSecond),
    /// A rate of arithmetic.
    Throughput(FlopsPerSecond),
    /// A duration.
    Time(Seconds),
    /// A size.
    Size(Bytes),
    /// A share of one.
    Share(f64),
    /// A count.
    Count(u64),
    /// Nothing to say.
    Absent,
}
