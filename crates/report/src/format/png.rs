//! Charts to PNG, with one font of its own: the same picture on every machine.

use super::{
    bars, clean,
    plot::{self, Dress, PlotError},
};
use crate::{Block, Chart, Document, bars::BarChart, brief::NOT_TO_BE_QUOTED};
use resvg::{tiny_skia, usvg};
use std::sync::Arc;

/// DejaVu Sans, cut down to the letters of reports; its licence lies beside it.
static FONT: &[u8] = include_bytes!("fonts/DejaVuSans.ttf");
const FAMILY: &str = "DejaVu Sans";

/// A picture that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The chart cannot be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The drawing cannot be read, which is our mistake.
    #[error("the drawing of {chart} cannot be read: {source}")]
    Drawing {
        /// The chart's name.
        chart: String,
        /// What is wrong with it.
        source: usvg::Error,
    },
    /// It cannot be put into pixels.
    #[error("the chart {chart} cannot be put into pixels: {why}")]
    Pixels {
        /// The chart's name.
        chart: String,
        /// Why.
        why: String,
    },
}

/// Draws a chart as a PNG file's bytes, with the document that it is of named below it.
///
/// # Errors
/// [`PngError`] where it cannot be drawn or has no room in memory.
pub fn render(chart: &Chart, document: &Document) -> Result<Vec<u8>, PngError> {
    let svg = plot::svg(chart, Dress::Alone(&source(document)))?;
    pixels(&chart.name, &svg)
}

/// Draws a bar chart, as [`render`] draws a chart.
///
/// # Errors
/// As [`render`].
pub fn render_bars(chart: &BarChart, document: &Document) -> Result<Vec<u8>, PngError> {
    pixels(&chart.name, &bars::svg(chart, &source(document))?)
}

/// A drawing in pixels, as a PNG file's bytes.
fn pixels(name: &str, svg: &str) -> Result<Vec<u8>, PngError> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_source(usvg::fontdb::Source::Binary(Arc::new(FONT)));
    fonts.set_sans_serif_family(FAMILY);
    let options = usvg::Options {
        fontdb: Arc::new(fonts),
        font_family: FAMILY.into(),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options)
        .map_err(|source| PngError::Drawing { chart: name.to_owned(), source })?;
    let refused = |why: String| PngError::Pixels { chart: name.to_owned(), why };
    let size = tree.size().to_int_size();
    let mut canvas = tiny_skia::Pixmap::new(size.width(), size.height())
        .ok_or_else(|| refused("no memory for it".into()))?;
    resvg::render(&tree, tiny_skia::Transform::identity(), &mut canvas.as_mut());
    canvas.encode_png().map_err(|error| refused(error.to_string()))
}

/// Machine, then run, date and suite, and whether the figures may be quoted: a picture travels
/// without its report.
fn source(document: &Document) -> Vec<String> {
    let warning = document.blocks.iter().find_map(|block| match block {
        Block::Text(text) if text.starts_with(NOT_TO_BE_QUOTED) => Some(text),
        _ => None,
    });
    let lines = [&document.title, &document.subtitle].into_iter().chain(warning);
    lines.filter(|line| !line.is_empty()).flat_map(|line| wrapped(line)).collect()
}

/// Columns of a line below a picture.
const WIDTH: usize = 72;

/// A text in lines that are broken at its spaces.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in clean(text).split_whitespace() {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.truncate(LINES_MAX);
    lines
}

/// Lines of a text below a picture.
const LINES_MAX: usize = 3;
