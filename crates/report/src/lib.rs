//! Analysis of records into a [`Document`]: pure, records in, plain data out.
//!
//! A document says *what* there is to read, in reading order, with every value still a quantity;
//! a [`format`](mod@format) decides how it looks: digits, columns, colours, axes.
//!
//! What is above this crate, or beside it, cannot be used here:
//!
//! ```compile_fail
//! use fizeau_device::Device;
//! ```
//!
//! ```compile_fail
//! use fizeau::session;
//! ```

pub mod about;
mod acceptance;
mod access;
mod attention;
pub mod bars;
mod brief;
mod case_table;
mod ceiling;
mod chart;
mod comparison;
pub mod consistency;
mod discovery;
pub mod explain;
pub mod format;
mod frontier;
mod fused;
pub mod generations;
mod headline;
mod headline_sensors;
mod heat;
mod integrity;
mod level;
mod line;
mod load;
pub mod nccl_tests;
pub mod nvbandwidth;
mod own_kernels;
mod projection;
mod rank;
mod reasons;
mod regime;
mod reproduce;
mod reproduction;
mod run;
mod search;
mod sensors;
mod severity;
mod side_by_side;
mod standing;
mod startup_fit;
mod stub;
mod summary;
pub mod superbench;
mod transfer;
mod trial;
pub mod unknown;
mod validation;
mod verdicts;
mod wire_bandwidth;

pub use about::About;
pub use acceptance::document as acceptance;
pub use bars::bars;
pub use brief::document as brief;
pub use ceiling::Ceilings;
pub use comparison::{comparisons, document as comparison};
pub use discovery::document as discovery;
pub use frontier::{Rung, document as frontier};
pub use line::{Finished, finished};
pub use load::{
    Join as LoadJoin, Results as LoadResults, ab::document as load_ab, document as load,
    summary as load_summary,
};
pub use nccl_tests::nccl_tests;
pub use nvbandwidth::nvbandwidth;
pub use projection::{document as projection, of_what_fits as projection_of_what_fits};
pub use reproduction::{Bundled, document as reproduction, listed as claims_listed};
pub use run::document as run;
pub use search::document as search;
pub use side_by_side::{GpuRun, document as side_by_side};
pub use startup_fit::{StartupFit, fit_startup};
pub use stub::without_numbers;
pub use superbench::superbench;
pub use trial::document as trial;
pub use validation::document as validation;
pub use verdicts::document as verdicts;

use fizeau_domain::units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds};

/// Something to read: what a format turns into text.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// At the top.
    pub title: String,
    /// Under it: when, which suite, which version.
    pub subtitle: String,
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
    /// Something the reader must know before believing a number.
    Warning(String),
    /// Something that explains numbers, or what is not known of them, and spoils none.
    Note(String),
    /// Something that failed.
    Failure(String),
    /// The few numbers to remember.
    Facts(Vec<Fact>),
    /// Curves.
    Chart(Chart),
    /// A grid of values shaded by how good they are.
    HeatMap(HeatMap),
    /// A table.
    Table(Table),
    /// A text to be copied as it stands: a file, a command.
    Listing(Listing),
}

/// A text to be copied as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// Stable, for machines: `claim`.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// The text, line by line.
    pub text: String,
}

/// One number to remember.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What it is, stable, for machines: `memory_bandwidth`.
    pub key: String,
    /// What it is, for people.
    pub label: String,
    /// The number.
    pub value: Cell,
    /// How good it is, where a peak is known, 0..1.
    pub share: Option<f64>,
    /// Of what the share is, such as `of 51.20 GB/s (datasheet)`; or why there is none.
    pub of: String,
    /// The same for programs.
    pub limit: FactLimit,
    /// Id of the case that gave the number, if it is one case's.
    pub case: String,
}

/// What the share of a fact is of, and why it is low.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactLimit {
    /// The limit, in the unit of the fact's value; none where it is unknown, or there is no share.
    pub value: Option<Cell>,
    /// Whose limit it is: `datasheet`, `observed clock`, `algorithm` or `own best`.
    pub tier: Option<&'static str>,
    /// Where the share is low: the reasons that the record has for it.
    pub reasons: Vec<String>,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Stable, for machines: `cases`.
    pub name: String,
    /// What it shows, for people.
    pub title: String,
    /// From left to right.
    pub columns: Vec<Column>,
    /// As wide as `columns` each.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Stable, for machines, its unit last: `median_seconds`. A column of mixed quantities has
    /// none, and its values carry their own.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    /// What goes first where the window is narrow.
    pub weight: Weight,
}

/// How much a column is missed when it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Only for machines: in CSV and JSON.
    Machine,
    /// Only where there is room for everything.
    Detail,
    /// Left out before an essential one.
    Useful,
    /// Never left out.
    Essential,
}

/// A value with its meaning; the format picks the digits.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A name to be copied exactly, such as a case's id.
    Code(String),
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
    /// A share of one that a stub driver's made-up time has, and is marked so.
    StubShare(f64),
    /// How many times as much.
    Ratio(f64),
    /// A rate or a time beside another of its kind: another rank's, an earlier run's.
    Relative {
        /// This one / the other one.
        value: f64,
        /// Whether it is a stub's, and is marked so.
        is_stub: bool,
    },
    /// A count.
    Count(u64),
    /// A number of a unit that nothing above has: `154.2 tok/s`.
    Number(f64, &'static str),
    /// A bar between two shares of the width of its column: a step of a waterfall.
    Span(f64, f64),
    /// Nothing to say.
    Absent,
}

/// Curves or points over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Stable, for machines and file names: `bandwidth`.
    pub name: String,
    /// For people.
    pub title: String,
    /// What to see in it, in one or two sentences.
    pub caption: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn, first on top in the key.
    pub series: Vec<Series>,
    /// Lines across the plot at a place of the x axis, such as the size of a cache.
    pub marks: Vec<Mark>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its quantity in words.
    pub title: String,
    /// What its numbers mean.
    pub quantity: Quantity,
    /// How they are spread.
    pub scale: Scale,
}

/// What the numbers of an axis mean; their unit is the SI one where none is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes, with binary steps.
    Size,
    /// Seconds.
    Time,
    /// Bytes each second.
    Bandwidth,
    /// Operations each second.
    Throughput,
    /// Operations for each byte.
    Intensity,
    /// A number of things.
    Count,
    /// Any number, with the digits that it needs; the axis says its unit.
    Number,
    /// How many times as much.
    Ratio,
    /// A clock in MHz.
    Clock,
    /// Watts.
    Power,
    /// Degrees Celsius.
    Temperature,
}

/// How the numbers of an axis are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By ratio.
    Logarithmic,
}

/// One curve, or one kind of point.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// For the reader.
    pub name: String,
    /// How it is drawn.
    pub kind: SeriesKind,
    /// In ascending order of x; all positive and finite.
    pub points: Vec<(f64, f64)>,
    /// The case that each point is of, in the order of the points; empty where a point is no single
    /// case's.
    pub cases: Vec<PlottedCase>,
}

/// The case that a point of a chart is of: what a reader sees who points at it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlottedCase {
    /// Its id.
    pub id: String,
    /// How much of its own ceiling it reaches, 0..1, where that is known.
    pub share: Option<f64>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// Points joined by a line.
    Curve,
    /// Points alone.
    Points,
    /// A limit: a line without points.
    Limit,
    /// Points alone, in grey: what is beaten by others.
    Faint,
    /// A shaded rectangle between its first and its last point: where limits are kept.
    Region,
}

/// A line across the plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Where on the x axis.
    pub at: f64,
    /// Its label.
    pub label: String,
}

/// A grid of values shaded by how good they are.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Stable, for machines: `gemm`.
    pub name: String,
    /// For people.
    pub title: String,
    /// What the shade means.
    pub caption: String,
    /// What a row is, such as `m x n x k`.
    pub corner: String,
    /// Over the columns.
    pub columns: Vec<String>,
    /// Under each other.
    pub rows: Vec<HeatRow>,
}

/// One row of a heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatRow {
    /// At its left.
    pub label: String,
    /// As many as there are columns.
    pub values: Vec<Heat>,
}

/// One value of a heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// The value.
    pub value: Cell,
    /// How good it is, 0..1, where it can be told.
    pub share: Option<f64>,
}

impl Heat {
    /// The share, where it says more than the value: that of a share or of a relative value is the
    /// value itself.
    pub fn said_share(&self) -> Option<f64> {
        self.share.filter(|_| !matches!(self.value, Cell::Relative { .. } | Cell::Share(_)))
    }
}

impl Fact {
    /// A fact of no share and of no case.
    pub fn new(key: impl Into<String>, label: impl Into<String>, value: Cell) -> Fact {
        let (share, of, limit, case) = (None, String::new(), FactLimit::default(), String::new());
        Fact { key: key.into(), label: label.into(), value, share, of, limit, case }
    }
}

impl Column {
    /// A column.
    const fn new(key: &'static str, title: &'static str, weight: Weight) -> Column {
        Column { key, title, weight }
    }
}

impl Axis {
    /// An axis whose numbers are spread evenly, from zero.
    pub fn linear(title: impl Into<String>, quantity: Quantity) -> Axis {
        Axis { title: title.into(), quantity, scale: Scale::Linear }
    }

    /// An axis whose numbers are spread by ratio.
    pub fn logarithmic(title: impl Into<String>, quantity: Quantity) -> Axis {
        Axis { title: title.into(), quantity, scale: Scale::Logarithmic }
    }
}

impl Series {
    /// A series whose points are no single cases'.
    pub fn new(name: impl Into<String>, kind: SeriesKind, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), kind, points, cases: Vec::new() }
    }
}

impl Table {
    /// A table of rows as wide as `columns` each.
    pub fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        columns: impl Into<Vec<Column>>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Table {
        let (columns, rows) = (columns.into(), rows.into_iter().collect());
        Table { name: name.into(), title: title.into(), columns, rows }
    }

    /// The same; none without rows.
    pub fn unless_empty(
        name: impl Into<String>,
        title: impl Into<String>,
        columns: impl Into<Vec<Column>>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Option<Table> {
        Some(Table::new(name, title, columns, rows)).filter(|table| !table.rows.is_empty())
    }

    /// The columns that people see.
    pub fn shown(&self) -> Vec<usize> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(_, column)| column.weight != Weight::Machine).map(|(at, _)| at).collect()
    }

    /// Whether a column holds numbers.
    pub fn is_numeric(&self, column: usize) -> bool {
        let words = |cell: &Cell| {
            matches!(cell, Cell::Text(_) | Cell::Code(_) | Cell::Span(..) | Cell::Absent)
        };
        self.rows.iter().any(|row| !words(&row[column]))
    }
}

impl Document {
    /// What stands on top, before the first heading.
    pub fn summary(mut self) -> Document {
        let heading = self.blocks.iter().position(|block| matches!(block, Block::Heading(_)));
        self.blocks.truncate(heading.unwrap_or(self.blocks.len()));
        self
    }

    /// Its charts.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Chart(chart) => Some(chart),
            _ => None,
        })
    }

    /// Its tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    }
}
