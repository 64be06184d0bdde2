//! `fizeau report`: makes the report of a run again, from its record alone.

use super::Global;
use crate::{
    format::{
        csv, html, json, markdown,
        terminal::{self, Colour, Terminal},
    },
    record::Record,
    report::{self, Document},
};
use anyhow::Context as _;
use clap::ValueEnum;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text that fits the window.
    Terminal,
    /// For issues, wikis and READMEs.
    Markdown,
    /// Every case on a line, in SI units.
    Csv,
    /// All derived numbers, in SI units.
    Json,
    /// One page that needs nothing else, with charts.
    Html,
}

/// Renders a document.
///
/// # Errors
/// Where a chart cannot be drawn.
pub fn render(
    document: &Document,
    format: ReportFormat,
    terminal: Terminal,
) -> anyhow::Result<String> {
    Ok(match format {
        ReportFormat::Terminal => terminal::render(document, terminal),
        ReportFormat::Markdown => markdown::render(document),
        ReportFormat::Csv => csv::render(document)?,
        ReportFormat::Json => json::render(document),
        ReportFormat::Html => html::render(document)?,
    })
}

/// The window that standard output is shown in: 100 columns without one.
pub fn window(global: &Global) -> Terminal {
    let width = terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
    Terminal { width, colour: if global.colours() { Colour::Ansi } else { Colour::Never } }
}

/// Writes `report.html` and `report.md` of a record into a directory, and says where.
///
/// # Errors
/// Where a chart cannot be drawn or a file cannot be written.
pub fn write_all(dir: &Path, record: &Record) -> anyhow::Result<Vec<PathBuf>> {
    let document = report::run(record);
    let files =
        [("report.html", html::render(&document)?), ("report.md", markdown::render(&document))];
    let mut written = Vec::new();
    for (name, text) in files {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path);
    }
    Ok(written)
}
