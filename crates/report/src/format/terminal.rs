//! The terminal: tables that fit the window, colour only where it is allowed. In a pipe or a file
//! nothing is cut.

use super::{cell, clean, shorten, shorten_id};
use crate::{Block, Cell, Chart, Document, Fact, HeatMap, SeriesKind, Table, Weight};
use std::{
    collections::HashSet,
    fmt::{self, Write as _},
};

/// Narrower than this nothing fits.
const WIDTH_MIN: usize = 40;
/// Without a window sentences are wrapped as for one of this width; tables have all columns.
const WIDTH_OF_PIPES: usize = 100;
/// A prose line is no longer than this.
const PROSE_MAX: usize = 100;
/// Characters of a paragraph in a window.
const CHARACTERS_MAX: usize = 2000;
/// A name is not cut below this.
const NAME_MIN: usize = 16;
/// Longer names, which no case of ours has, are not compared.
const NAME_MAX: usize = 160;
/// From the start of a line to the notes of a fact, where there is no room for them beside it.
const INDENT: usize = 4;

/// Where the text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Columns of the window; none where the text goes into a pipe or a file.
    pub width: Option<usize>,
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
    let width = terminal.width.unwrap_or(WIDTH_OF_PIPES).max(WIDTH_MIN);
    let cuts = terminal.width.is_some();
    let mut page = Page { out: String::new(), width, cuts, colour: terminal.colour };
    page.document(document).expect("a string takes all that is written");
    page.out
}

struct Page {
    out: String,
    width: usize,
    /// Whether what is wider than the window is cut.
    cuts: bool,
    colour: Colour,
}

const BOLD: &str = "1";
/// Columns of a heat map that all stay in a narrow window.
const FEW: usize = 3;

const DIM: &str = "2";
const YELLOW: &str = "33";
const GREEN: &str = "32";
const RED: &str = "31";

impl Page {
    fn document(&mut self, document: &Document) -> fmt::Result {
        let title = self.paint(BOLD, &self.cut(&clean(&document.title), self.width));
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
                Block::Note(note) => self.prose(note, "- ", "")?,
                Block::Failure(failure) => self.prose(failure, "!! ", RED)?,
                Block::Facts(facts) => self.facts(facts)?,
                Block::Table(table) => self.table(table)?,
                Block::HeatMap(map) => self.heat_map(map)?,
                Block::Chart(chart) => self.chart(chart)?,
                Block::Listing(listing) => {
                    writeln!(self.out, "\n{}", self.paint(BOLD, &clean(&listing.title)))?;
                    for line in listing.text.lines() {
                        writeln!(self.out, "    {}", clean(line))?;
                    }
                }
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

    /// A line of clean text, cut where the window is too narrow for it.
    fn cut(&self, text: &str, limit: usize) -> String {
        if self.cuts { shorten(text, limit) } else { text.to_owned() }
    }

    /// A paragraph, wrapped.
    fn prose(&mut self, text: &str, lead: &str, code: &str) -> fmt::Result {
        let mut lead = lead.to_owned();
        let text = self.cut(text, CHARACTERS_MAX);
        for line in self.wrapped(&text, self.width.min(PROSE_MAX) - lead.len()) {
            let painted = self.paint(code, &format!("{lead}{line}"));
            writeln!(self.out, "{painted}")?;
            lead = " ".repeat(lead.len());
        }
        Ok(())
    }

    /// The lines of a text, at least one; a word that is longer than a line is broken in a window.
    fn wrapped(&self, text: &str, limit: usize) -> Vec<String> {
        let cleaned = clean(text);
        let pieces = |word: &str| match self.cuts {
            true => chunks(word, limit),
            false => vec![word.to_owned()],
        };
        let mut lines = vec![String::new()];
        for word in cleaned.split_whitespace().flat_map(pieces) {
            let line = lines.last_mut().expect("there is one from the start");
            if line.is_empty() {
                *line = word;
            } else if columns(line) + 1 + columns(&word) <= limit {
                line.push(' ');
                line.push_str(&word);
            } else {
                lines.push(word);
            }
        }
        lines
    }

    fn facts(&mut self, facts: &[Fact]) -> fmt::Result {
        writeln!(self.out)?;
        let labels = facts.iter().map(|fact| columns(&fact.label)).max();
        let labels = match self.cuts {
            true => labels.unwrap_or(0).min(28).min(self.width - 26),
            false => labels.unwrap_or(0),
        };
        let values = facts.iter().map(|fact| columns(&cell::text(&fact.value))).max();
        let values = values.unwrap_or(0).clamp(13, 28);
        let beside = labels + 1 + values + 1 + 8 + 2;
        // Where there is no room beside the number, its notes stand below it.
        let (indent, is_below) = match self.width.checked_sub(beside) {
            Some(room) if room >= NAME_MIN => (beside, false),
            _ => (INDENT, true),
        };
        for fact in facts {
            let label = pad(&self.cut(&clean(&fact.label), labels), labels, Align::Left);
            let value = clean(&cell::text(&fact.value));
            let value = self.paint(BOLD, &pad(&value, values, Align::Right));
            let share = fact.share.map(cell::percent).unwrap_or_default();
            let share = self.paint(shade(fact.share), &pad(&share, 8, Align::Right));
            let line = format!("{label} {value} {share}");
            let room = self.width.saturating_sub(indent);
            let mut notes = self.notes(fact, room).into_iter();
            let first = if is_below { None } else { notes.next() };
            let first = first.map(|note| format!("  {}", self.paint(DIM, &note)));
            writeln!(self.out, "{}", format!("{line}{}", first.unwrap_or_default()).trim_end())?;
            for note in notes {
                let note = self.paint(DIM, &note);
                writeln!(self.out, "{}{note}", " ".repeat(indent))?;
            }
        }
        Ok(())
    }

    /// What stands beside a fact: what its share is of, and the case that gave it; one line where
    /// both fit.
    fn notes(&self, fact: &Fact, room: usize) -> Vec<String> {
        let of = clean(fact.of.trim());
        let case = clean(fact.case.trim());
        let both = format!("{of} {case}");
        if !self.cuts || columns(both.trim()) <= room {
            return vec![both.trim().to_owned()];
        }
        let mut lines = if of.is_empty() { Vec::new() } else { self.wrapped(&of, room) };
        if !case.is_empty() {
            lines.push(shorten_id(&case, room));
        }
        lines
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
        // Of few columns none is left out: labels are cut first.
        let weight = if map.columns.len() <= FEW { Weight::Essential } else { Weight::Useful };
        let mut weights = vec![weight; titles.len()];
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
        let is_cloud =
            |kind| matches!(kind, SeriesKind::Points | SeriesKind::Faint | SeriesKind::Region);
        if chart.series.iter().any(|series| is_cloud(series.kind)) {
            return Ok(());
        }
        let number = |value: f64| super::plot::label(chart.y.quantity, value);
        let place = |value: f64| super::plot::label(chart.x.quantity, value);
        let title = self.paint(BOLD, &self.cut(&clean(&chart.title), self.width));
        writeln!(self.out, "\n{title}")?;
        for series in &chart.series {
            let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
                continue;
            };
            let name = self.cut(&clean(&series.name), 32);
            let spark = sparkline(chart, &series.points);
            let line = format!(
                "{} {spark} {} at {} to {} at {}",
                pad(&name, 32.min(self.width / 3), Align::Left),
                number(first.1),
                place(first.0),
                number(last.1),
                place(last.0)
            );
            writeln!(self.out, "  {}", self.cut(&line, self.width - 2))?;
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
        let title = self.paint(BOLD, &self.cut(&clean(title), self.width));
        writeln!(self.out, "\n{title}")?;
        let whole: Vec<usize> = (0..titles.len())
            .map(|at| {
                let cells = rows.iter().map(|row| columns(&row[at].text));
                cells.chain([columns(&titles[at])]).max().unwrap_or(0)
            })
            .collect();
        let mut widths = whole;
        let kept = match self.cuts {
            true => {
                let least: Vec<usize> = (0..titles.len()).map(|at| width_min(rows, at)).collect();
                fit(&mut widths, &least, weights, self.width)
            }
            false => (0..widths.len()).collect(),
        };
        let left_out = titles.len() - kept.len();
        // Once for each column: each looks at all rows.
        let aligned: Vec<Align> = (0..titles.len()).map(|at| align_of(rows, at)).collect();
        let head: Vec<_> = kept
            .iter()
            .map(|&at| pad(&self.cut(&titles[at], widths[at]), widths[at], aligned[at]))
            .collect();
        let head = self.paint(DIM, head.join("  ").trim_end());
        writeln!(self.out, "{head}")?;
        let cuts = |at: usize| told_apart(rows, at, widths[at]);
        let apart: Vec<Option<Vec<String>>> = (0..titles.len()).map(cuts).collect();
        for (place, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for &at in &kept {
                let cut = match &apart[at] {
                    Some(cuts) => cuts[place].clone(),
                    None => row[at].cut(widths[at]),
                };
                let padded = pad(&cut, widths[at], aligned[at]);
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
            let note = self.paint(DIM, &self.cut(&note, self.width));
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
    /// Whether it is a name that is copied, such as a case's id.
    name: bool,
}

impl Entry {
    fn of(cell: &Cell, code: &'static str) -> Entry {
        let text = clean(&cell::text(cell));
        let number = cell::is_number(cell) && *cell != Cell::Absent;
        Entry { text, code, number, name: matches!(cell, Cell::Code(_)) }
    }

    /// The text in at most `limit` columns: names lose their middle, sentences their end.
    fn cut(&self, limit: usize) -> String {
        if self.name { shorten_id(&self.text, limit) } else { shorten(&self.text, limit) }
    }
}

/// The names of a column cut so that more of them differ, where what all of them end in would push
/// out what they differ by: without that end. None where it would not help.
fn told_apart(rows: &[Vec<Entry>], column: usize, limit: usize) -> Option<Vec<String>> {
    let names: Vec<&str> =
        rows.iter().map(|row| &row[column]).filter(|one| one.name).map(|one| &*one.text).collect();
    let is_cut = names.iter().any(|name| columns(name) > limit);
    if names.len() < rows.len() || !is_cut {
        return None;
    }
    let different = |cut: &[String]| cut.iter().collect::<HashSet<_>>().len();
    let usual: Vec<String> = names.iter().map(|name| shorten_id(name, limit)).collect();
    let first: Vec<&str> = names.first()?.rsplit('/').collect();
    let shared =
        |name: &&str| name.rsplit('/').zip(&first).take_while(|(one, other)| one == *other).count();
    let parts = names.iter().map(shared).min()?;
    let end: usize = first.iter().take(parts).map(|part| part.len() + 1).sum();
    let without = |name: &&str| match name.len().checked_sub(end) {
        Some(rest) if rest > 0 => shorten_id(&format!("{}/\u{2026}", &name[..rest]), limit),
        _ => shorten_id(name, limit),
    };
    let apart: Vec<String> = names.iter().map(without).collect();
    (different(&apart) > different(&usual)).then_some(apart)
}

/// The least width of a column in a window: names that differ must differ when they are cut.
fn width_min(rows: &[Vec<Entry>], column: usize) -> usize {
    let names: HashSet<&str> =
        rows.iter().map(|row| &row[column]).filter(|one| one.name).map(|one| &*one.text).collect();
    let longest = names.iter().map(|name| columns(name)).max().unwrap_or(0).min(NAME_MAX);
    let differ = |width: usize| {
        let mut seen = HashSet::new();
        names.iter().all(|name| seen.insert(shorten_id(name, width)))
    };
    let shorter = (NAME_MIN..longest).rev().take_while(|&width| differ(width)).last();
    shorter.unwrap_or(longest).max(NAME_MIN)
}

/// Which columns stay, their widths made to fit; `least` is where names can still be told apart.
fn fit(widths: &mut [usize], least: &[usize], weights: &[Weight], room: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..widths.len()).collect();
    let total = |kept: &[usize], widths: &[usize]| -> usize {
        kept.iter().map(|&at| widths[at] + 2).sum::<usize>().saturating_sub(2)
    };
    // Names may be cut to this before a useful column goes, so that few long ids do not hide all.
    let cut = |widths: &[usize], limit: usize| -> Vec<usize> {
        widths.iter().zip(least).map(|(width, least)| (*width).min(limit.max(*least))).collect()
    };
    for weight in [Weight::Detail, Weight::Useful] {
        let generous = if weight == Weight::Detail { 60 } else { 36 };
        while total(&kept, &cut(widths, generous)) > room {
            let Some(place) = kept.iter().rposition(|&at| weights[at] == weight) else { break };
            kept.remove(place);
        }
    }
    // Essential columns stay, even where names can then not all be told apart.
    let lowest = vec![NAME_MIN.min(room); widths.len()];
    for floor in [least, &lowest] {
        while total(&kept, widths) > room {
            let can_shrink = |&at: &usize| widths[at] > floor[at];
            let widest = kept.iter().copied().filter(can_shrink).max_by_key(|&at| widths[at]);
            let Some(at) = widest else { break };
            widths[at] -= 1;
        }
    }
    while total(&kept, widths) > room && kept.len() > 1 {
        kept.pop();
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
enum Align {
    Left,
    Right,
}

fn align_of(rows: &[Vec<Entry>], column: usize) -> Align {
    if rows.iter().any(|row| row[column].number) { Align::Right } else { Align::Left }
}

fn pad(text: &str, width: usize, align: Align) -> String {
    let space = " ".repeat(width.saturating_sub(columns(text)));
    match align {
        Align::Left => format!("{text}{space}"),
        Align::Right => format!("{space}{text}"),
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
        crate::Scale::Linear => y,
        crate::Scale::Logarithmic => y.ln(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_end_alike_lose_their_end_before_what_they_differ_by() {
        let row = |size: &str| {
            let id = format!("collective/all_reduce/f32/{size}/4r/out_of_place/threads");
            vec![Entry::of(&Cell::Code(id), "")]
        };
        let rows: Vec<Vec<Entry>> = ["4KiB", "256KiB", "16MiB"].map(row).into();
        assert_eq!(told_apart(&rows, 0, 80), None);
        let cut = told_apart(&rows, 0, 36).expect("it helps");
        assert_eq!(cut.iter().collect::<HashSet<_>>().len(), 3, "{cut:?}");
        assert!(cut.iter().all(|name| columns(name) <= 36), "{cut:?}");
    }
}
