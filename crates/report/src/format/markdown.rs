//! Markdown, for issues, wikis and READMEs. Charts are named, not drawn: see the HTML page or the
//! PNG files for them.

use super::{cell, clean, shorten};
use crate::{Block, Cell, Document, Fact, HeatMap, Table};
use std::fmt::{self, Write as _};

/// No string of a record is longer than this in a table.
const CHARACTERS_MAX: usize = 300;

/// Renders a document.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    write(document, &mut out).expect("a string takes all that is written");
    out
}

fn write(document: &Document, out: &mut String) -> fmt::Result {
    writeln!(out, "# {}\n", escape(&document.title))?;
    if !document.subtitle.is_empty() {
        writeln!(out, "{}\n", escape(&document.subtitle))?;
    }
    for block in &document.blocks {
        match block {
            Block::Heading(heading) => writeln!(out, "## {}\n", escape(heading))?,
            Block::Text(text) => writeln!(out, "{}\n", escape(text))?,
            Block::Warning(warning) => writeln!(out, "> **Warning:** {}\n", escape(warning))?,
            Block::Note(note) => writeln!(out, "> {}\n", escape(note))?,
            Block::Failure(failure) => writeln!(out, "> **Failed:** {}\n", escape(failure))?,
            Block::Facts(facts) => write_facts(facts, out)?,
            Block::Table(table) => write_table(table, out)?,
            Block::HeatMap(map) => write_heat_map(map, out)?,
            Block::Chart(chart) => {
                writeln!(out, "*{}.* {}\n", escape(&chart.title), escape(&chart.caption))?;
            }
            Block::Listing(listing) => {
                writeln!(out, "*{}*\n", escape(&listing.title))?;
                for line in listing.text.lines() {
                    writeln!(out, "    {}", clean(line))?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

fn write_facts(facts: &[Fact], out: &mut String) -> fmt::Result {
    if facts.is_empty() {
        return Ok(());
    }
    writeln!(out, "| | | | | case |\n|---|--:|--:|---|---|")?;
    for fact in facts {
        let share = fact.share.map_or(Cell::Absent, Cell::Share);
        writeln!(
            out,
            "| {} | **{}** | {} | {} | {} |",
            escape(&fact.label),
            field(&fact.value),
            field(&share),
            escape(&fact.of),
            escape(&fact.case)
        )?;
    }
    writeln!(out)
}

fn write_table(table: &Table, out: &mut String) -> fmt::Result {
    let shown = table.shown();
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out, "### {}\n", escape(&table.title))?;
    let titles: Vec<_> = shown.iter().map(|&at| escape(table.columns[at].title)).collect();
    writeln!(out, "| {} |", titles.join(" | "))?;
    let rules = shown.iter().map(|&at| if table.is_numeric(at) { "--:" } else { "---" });
    writeln!(out, "|{}|", rules.collect::<Vec<_>>().join("|"))?;
    for row in &table.rows {
        let fields: Vec<_> = shown.iter().map(|&at| field(&row[at])).collect();
        writeln!(out, "| {} |", fields.join(" | "))?;
    }
    writeln!(out)
}

fn write_heat_map(map: &HeatMap, out: &mut String) -> fmt::Result {
    writeln!(out, "### {}\n", escape(&map.title))?;
    if !map.caption.is_empty() {
        writeln!(out, "{}\n", escape(&map.caption))?;
    }
    let columns: Vec<_> = map.columns.iter().map(|column| escape(column)).collect();
    writeln!(out, "| {} | {} |", escape(&map.corner), columns.join(" | "))?;
    writeln!(out, "|---|{}", "--:|".repeat(map.columns.len()))?;
    for row in &map.rows {
        let fields: Vec<_> = row
            .values
            .iter()
            .map(|heat| match heat.said_share() {
                Some(share) => format!("{} ({})", field(&heat.value), cell::percent(share)),
                None => field(&heat.value),
            })
            .collect();
        writeln!(out, "| {} | {} |", escape(&row.label), fields.join(" | "))?;
    }
    writeln!(out)
}

fn field(cell: &Cell) -> String {
    escape(&cell::text(cell))
}

/// Text that Markdown shows as it is: no table cell ends, no markup, no HTML, no link.
fn escape(text: &str) -> String {
    let cleaned = shorten(&clean(text), CHARACTERS_MAX);
    let mut out = String::with_capacity(cleaned.len());
    let characters: Vec<char> = cleaned.chars().collect();
    let is_word = |at: Option<usize>| {
        at.and_then(|at| characters.get(at)).is_some_and(|c| c.is_alphanumeric())
    };
    for (at, &c) in characters.iter().enumerate() {
        match c {
            // An underscore inside a word marks nothing up; ids stay readable.
            '_' if is_word(at.checked_sub(1)) && is_word(Some(at + 1)) => out.push('_'),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            // A bare address would become a link.
            ':' if characters[at..].starts_with(&[':', '/', '/']) => out.push_str("&#58;"),
            '.' if cleaned_www(&characters[..at]) => out.push_str("&#46;"),
            c => out.push(c),
        }
    }
    // A line that starts like a list, a rule or a heading is none.
    if out.starts_with(['-', '+', '=']) {
        out.insert(0, '\\');
    }
    out
}

fn cleaned_www(before: &[char]) -> bool {
    before.len() >= 3 && before[before.len() - 3..].iter().all(|c| c.eq_ignore_ascii_case(&'w'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(escape("a|b"), "a\\|b");
        assert_eq!(escape("<script>`x`"), "&lt;script&gt;\\`x\\`");
        assert_eq!(escape("[a](http://b)"), "\\[a\\](http&#58;//b)");
        assert_eq!(escape("www.b"), "www&#46;b");
        assert_eq!(escape("all_reduce _x_"), "all_reduce \\_x\\_");
        assert_eq!(escape("- a\n# b"), "\\- a \\# b");
    }
}
