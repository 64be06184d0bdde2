//! The terminal: tables that fit the window, colour only where it is allowed.

use super::{cell, clean, shorten};
use crate::report::{Block, Cell, Chart, Document, Fact, HeatMap, SeriesKind, Table, Weight};
use std::fmt::{self, Write as _};

/// Narrower than this nothing fits; wider than a line that the eye can follow helps no one.
const WIDTH: std::ops::RangeInclusive<usize> = 40..=160;
/// A prose line is no longer than this.
const PROSE_MAX: usize = 100;
/// A name is not cut below this.
const NAME_MIN: usize = 16;

/// Where the text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Columns of the window.
    pub width: usize,
    /// Whether it may be coloured.
    pub colour: Colour,
}

/// Whether text may be coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// With ANSI sequences.
    Ansi,
    /// Plain text.
    Never,
}

/// Renders a document.
pub fn render(document: &Document, terminal: Terminal) -> String {
    let width = terminal.width.clamp(*WIDTH.start(), *WIDTH.end());
    let mut page = Page { out: String::new(), width, colour: terminal.colour };
    page.document(document).expect("a string takes all that is written");
    page.out
}

struct Page {
    out: String,
    width: usize,
    colour: Colour,
}

const BOLD: &str = "1";
const DIM: &str = "2";
const YELLOW: &str = "33";
const GREEN: &str = "32";
const RED: &str = "31";

impl Page {
    fn document(&mut self, document: &Document) -> fmt::Result {
        let title = self.paint(BOLD, &shorten(&clean(&document.title), self.width));
        writeln!(self.out, "{title}")?;
        if !document.subtitle.is_empty() {
            self.prose(&document.subtitle, "", DIM)?;
        }
        for block in &document.blocks {
            match block {
                Block::Heading(heading) => {
                    let heading = self.paint(BOLD, &clean(heading));
                    writeln!(self.out, "\n{heading}")?;
                }
                Block::Text(text) => {
                    writeln!(self.out)?;
                    self.prose(text, "", "")?;
                }
                Block::Warning(warning) => self.prose(warning, "! ", YELLOW)?,
                Block::Facts(facts) => self.facts(facts)?,
                Block::Table(table) => self.table(table)?,
                Block::HeatMap(map) => self.heat_map(map)?,
                Block::Chart(chart) => self.chart(chart)?,
            }
        }
        Ok(())
    }

    /// Text in a colour, if there are colours. `text` must be clean.
    fn paint(&self, code: &str, text: &str) -> String {
        match self.colour {
            Colour::Ansi if !code.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    /// A paragraph, wrapped.
    fn prose(&mut self, text: &str, lead: &str, code: &str) -> fmt::Result {
        let limit = self.width.min(PROSE_MAX) - lead.len();
        let mut line = String::new();
        let mut lead = lead.to_owned();
        let cleaned = clean(&shorten(text, 2000));
        for word in cleaned.split_whitespace().flat_map(|word| chunks(word, limit)) {
            if !line.is_empty() && columns(&line) + 1 + columns(&word) > limit {
                let painted = self.paint(code, &format!("{lead}{line}"));
                writeln!(self.out, "{painted}")?;
                lead = " ".repeat(lead.len());
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        let painted = self.paint(code, &format!("{lead}{line}"));
        writeln!(self.out, "{painted}")
    }

    fn facts(&mut self, facts: &[Fact]) -> fmt::Result {
        writeln!(self.out)?;
        let labels = facts.iter().map(|fact| columns(&fact.label)).max();
        let labels = labels.unwrap_or(0).min(28).min(self.width - 26);
        for fact in facts {
            let label = pad(&shorten(&clean(&fact.label), labels), labels, Side::Left);
            let value = pad(&cell::text(&fact.value), 14, Side::Right);
            let share = fact.share.map(cell::percent).unwrap_or_default();
            let share_text = pad(&share, 8, Side::Right);
            let room = self.width.saturating_sub(labels + 14 + 8 + 4);
            let words = [fact.of.as_str(), fact.case.as_str()].join(" ");
            let note = shorten(clean(&words).trim(), room.max(1));
            let value = self.paint(BOLD, &value);
            let share_text = self.paint(shade(fact.share), &share_text);
            let note = if room >= NAME_MIN { self.paint(DIM, &note) } else { String::new() };
            writeln!(self.out, "{}", format!("{label} {value} {share_text}  {note}").trim_end())?;
        }
        Ok(())
    }

    fn table(&mut self, table: &Table) -> fmt::Result {
        let shown = table.shown();
        if shown.is_empty() {
            return Ok(());
        }
        let titles: Vec<_> = shown.iter().map(|&at| table.columns[at].title.to_owned()).collect();
        let weights: Vec<_> = shown.iter().map(|&at| table.columns[at].weight).collect();
        let rows: Vec<Vec<Entry>> = table
            .rows
            .iter()
            .map(|row| shown.iter().map(|&at| Entry::of(&row[at], "")).collect())
            .collect();
        self.grid(&table.title, &titles, &weights, &rows)
    }

    fn heat_map(&mut self, map: &HeatMap) -> fmt::Result {
        let titles: Vec<_> =
            [&map.corner].into_iter().chain(&map.columns).map(|title| clean(title)).collect();
        let mut weights = vec![Weight::Useful; titles.len()];
        weights[0] = Weight::Essential;
        let rows: Vec<Vec<Entry>> = map
            .rows
            .iter()
            .map(|row| {
                let label = Entry::of(&Cell::Text(row.label.clone()), "");
                let values =
                    row.values.iter().map(|heat| Entry::of(&heat.value, shade(heat.share)));
                [label].into_iter().chain(values).collect()
            })
            .collect();
        self.grid(&map.title, &titles, &weights, &rows)
    }

    /// A chart in words: each curve's run and ends. A cloud of points has none: its cases are in
    /// the tables.
    fn chart(&mut self, chart: &Chart) -> fmt::Result {
        if chart.series.iter().any(|series| series.kind == SeriesKind::Points) {
            return Ok(());
        }
        let number = |value: f64| super::plot::label(chart.y.quantity, value);
        let place = |value: f64| super::plot::label(chart.x.quantity, value);
        let title = self.paint(BOLD, &shorten(&clean(&chart.title), self.width));
        writeln!(self.out, "\n{title}")?;
        for series in &chart.series {
            let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
                continue;
            };
            let name = shorten(&clean(&series.name), 32);
            let spark = sparkline(chart, &series.points);
            let line = format!(
                "{} {spark} {} at {} to {} at {}",
                pad(&name, 32.min(self.width / 3), Side::Left),
                number(first.1),
                place(first.0),
                number(last.1),
                place(last.0)
            );
            writeln!(self.out, "  {}", shorten(&line, self.width - 2))?;
        }
        Ok(())
    }

    /// A table of clean text: columns are left out by weight, then the first is cut, until it
    /// fits; what was left out is said.
    fn grid(
        &mut self,
        title: &str,
        titles: &[String],
        weights: &[Weight],
        rows: &[Vec<Entry>],
    ) -> fmt::Result {
        let title = self.paint(BOLD, &shorten(&clean(title), self.width));
        writeln!(self.out, "\n{title}")?;
        let mut widths: Vec<usize> = (0..titles.len())
            .map(|at| {
                let cells = rows.iter().map(|row| columns(&row[at].text));
                cells.chain([columns(&titles[at])]).max().unwrap_or(0)
            })
            .collect();
        let kept = fit(&mut widths, weights, self.width);
        let left_out = titles.len() - kept.len();
        let head: Vec<_> = kept
            .iter()
            .map(|&at| {
                let side = side_of(rows, at);
                pad(&shorten(&titles[at], widths[at]), widths[at], side)
            })
            .collect();
        let head = self.paint(DIM, head.join("  ").trim_end());
        writeln!(self.out, "{head}")?;
        for row in rows {
            let mut line = String::new();
            for &at in &kept {
                let text = shorten(&row[at].text, widths[at]);
                let padded = pad(&text, widths[at], side_of(rows, at));
                if !line.is_empty() {
                    line.push_str("  ");
                }
                line.push_str(&self.paint(row[at].code, &padded));
            }
            writeln!(self.out, "{}", line.trim_end())?;
        }
        if left_out > 0 {
            let columns = if left_out == 1 { "column" } else { "columns" };
            let note = format!("{left_out} more {columns} in a wider window and in other formats");
            let note = self.paint(DIM, &shorten(&note, self.width));
            writeln!(self.out, "{note}")?;
        }
        Ok(())
    }
}

/// Clean text with its colour.
struct Entry {
    text: String,
    code: &'static str,
    number: bool,
}

impl Entry {
    fn of(cell: &Cell, code: &'static str) -> Entry {
        let text = clean(&cell::text(cell));
        Entry { text, code, number: cell::is_number(cell) && *cell != Cell::Absent }
    }
}

/// Which columns stay, their widths made to fit.
fn fit(widths: &mut [usize], weights: &[Weight], room: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..widths.len()).collect();
    let total = |kept: &[usize], widths: &[usize]| -> usize {
        kept.iter().map(|&at| widths[at] + 2).sum::<usize>().saturating_sub(2)
    };
    // Names may be cut to this before a useful column goes, so that few long ids do not hide all.
    let cut = |widths: &[usize], limit: usize| -> Vec<usize> {
        widths.iter().map(|width| (*width).min(limit)).collect()
    };
    for weight in [Weight::Detail, Weight::Useful] {
        let generous = if weight == Weight::Detail { 60 } else { 36 };
        while total(&kept, &cut(widths, generous)) > room {
            let Some(place) = kept.iter().rposition(|&at| weights[at] == weight) else { break };
            kept.remove(place);
        }
    }
    while total(&kept, widths) > room {
        let widest = kept.iter().copied().max_by_key(|&at| widths[at]);
        match widest {
            Some(at) if widths[at] > NAME_MIN.min(room) => widths[at] -= 1,
            _ if kept.len() > 1 => {
                kept.pop();
            }
            _ => break,
        }
    }
    kept
}

/// Green near the limit, red far from it: shares are said in digits too.
fn shade(share: Option<f64>) -> &'static str {
    match share {
        Some(share) if share >= 0.8 => GREEN,
        Some(share) if share >= 0.5 => YELLOW,
        Some(_) => RED,
        None => "",
    }
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

fn side_of(rows: &[Vec<Entry>], column: usize) -> Side {
    if rows.iter().any(|row| row[column].number) { Side::Right } else { Side::Left }
}

fn pad(text: &str, width: usize, side: Side) -> String {
    let space = " ".repeat(width.saturating_sub(columns(text)));
    match side {
        Side::Left => format!("{text}{space}"),
        Side::Right => format!("{space}{text}"),
    }
}

/// Columns a text takes: East Asian wide characters and emoji take two, combining marks none.
fn columns(text: &str) -> usize {
    text.chars()
        .map(|c| match u32::from(c) {
            0x300..=0x36F => 0,
            0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF => 2,
            0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD => 2,
            _ => 1,
        })
        .sum()
}

/// A word in pieces that fit a line.
fn chunks(word: &str, limit: usize) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    characters.chunks((limit / 2).max(1) * 2).map(|chunk| chunk.iter().collect()).collect()
}

/// The run of a curve in eight heights, on the chart's own scale.
fn sparkline(chart: &Chart, points: &[(f64, f64)]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const PLACES: usize = 16;
    let height = |y: f64| match chart.y.scale {
        crate::report::Scale::Linear => y,
        crate::report::Scale::Logarithmic => y.ln(),
    };
    let all = || chart.series.iter().flat_map(|series| &series.points).map(|(_, y)| height(*y));
    let (low, high) =
        all().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
    let places = points.len().min(PLACES);
    (0..places)
        .map(|place| {
            let (_, y) = points[place * (points.len() - 1) / (places - 1).max(1)];
            let share = if high > low { (height(y) - low) / (high - low) } else { 1.0 };
            BARS[((share * 7.0).round() as usize).min(7)]
        })
        .collect()
}
