//! Bar charts to SVG: a row for each bar, with its value behind it and its limit as a line.

use super::{
    cell, clean,
    plot::{self, GRID, INK, MUTED, PALETTE, PlotError},
    shorten,
};
use crate::bars::{Bar, BarChart};
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, VPos},
};

/// Pixels, twice as wide as it is shown.
const WIDTH: i32 = 1240;
const EDGE: i32 = 24;
const ROW: i32 = 44;
/// Height of a bar in its row.
const THICK: i32 = 26;
/// Pixels of a character at most.
const CHARACTER: i32 = 16;
const NAME_MAX: usize = 26;
const HEADING_MAX: usize = 72;
/// Characters of a value and its share: `812.7 TFLOP/s, 100.0 %`.
const VALUE: i32 = 22;

/// Draws a bar chart as a file of its own, with `lines` below that tell where its numbers are from.
///
/// # Errors
/// [`PlotError`] where the drawing library refuses.
pub fn svg(chart: &BarChart, lines: &[String]) -> Result<String, PlotError> {
    let mut text = String::new();
    let rows: usize = chart.groups.iter().map(|group| group.bars.len() + 1).sum();
    let height = 120 + (rows + 1) as i32 * ROW + lines.len() as i32 * plot::LINE;
    {
        let size = (WIDTH as u32, height as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(chart, lines, &root)
            .and_then(|()| root.present())
            .map_err(|error| PlotError { chart: chart.name.clone(), why: error.to_string() })?;
    }
    Ok(text)
}

fn draw(chart: &BarChart, lines: &[String], root: &plot::Area<'_>) -> plot::Drawn {
    root.fill(&WHITE)?;
    let write = |words: &str, max: usize, colour, at: (i32, i32)| {
        let style = plot::text_style(colour, HPos::Left, VPos::Center);
        root.draw_text(&shorten(&clean(words), max), &style, at)
    };
    write(&chart.title, HEADING_MAX, INK, (EDGE, 40))?;
    write(&chart.caption, HEADING_MAX, MUTED, (EDGE, 40 + plot::LINE))?;
    let bars = || chart.groups.iter().flat_map(|group| &group.bars);
    let names = bars().map(|bar| bar.kernel.chars().count().min(NAME_MAX)).max().unwrap_or(0);
    let left = EDGE + names as i32 * CHARACTER + 16;
    let wide = WIDTH - EDGE - VALUE * CHARACTER - left;
    let end = |bar: &Bar| bar.limit.unwrap_or(0.0).max(bar.length());
    let most = bars().map(end).fold(f64::MIN_POSITIVE, f64::max);
    let pixels = |value: f64| (value / most * f64::from(wide)).round() as i32;
    let mut at = 80 + plot::LINE;
    for group in &chart.groups {
        write(&group.size, HEADING_MAX, MUTED, (EDGE, at + ROW / 2))?;
        at += ROW;
        let top = at;
        for bar in &group.bars {
            let middle = at + ROW / 2;
            write(&bar.kernel, NAME_MAX, INK, (EDGE, middle))?;
            let right = left + pixels(bar.length()).max(2);
            let corners = [(left, middle - THICK / 2), (right, middle + THICK / 2)];
            root.draw(&Rectangle::new(corners, PALETTE[0].filled()))?;
            let mut beyond = right;
            if let Some(limit) = bar.limit {
                let x = left + pixels(limit);
                let line = vec![(x, at), (x, at + ROW)];
                root.draw(&PathElement::new(line, INK.stroke_width(4)))?;
                beyond = beyond.max(x);
            }
            let share = bar.share.map(|share| format!(", {}", cell::percent(share)));
            let words = cell::text(&bar.value) + &share.unwrap_or_default();
            write(&words, VALUE as usize + 8, INK, (beyond + 14, middle))?;
            at += ROW;
        }
        root.draw(&PathElement::new(vec![(left, top), (left, at)], GRID.stroke_width(2)))?;
    }
    at += ROW / 2;
    for line in lines {
        write(line, plot::CAPTION_MAX, MUTED, (EDGE, at + plot::LINE / 2))?;
        at += plot::LINE;
    }
    Ok(())
}
