//! One page that needs nothing else: no network, no fonts, no files. Prints, sorts and filters;
//! without scripts it still says everything.
//!
//! Its policy allows only its own style and, by hash, its own script, so that even text that got
//! past the escapes could do nothing.

use super::{
    cell, clean,
    plot::{self, Dress, PlotError},
    shorten,
};
use crate::{Block, Cell, Chart, Document, Fact, Heat, HeatMap, Table, Weight};
use minijinja::{Environment, Value, context};

const TEMPLATE: &str = include_str!("html/report.html");
const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");
/// SHA-256 of [`SCRIPT`] in base64; a test computes it again.
const SCRIPT_SHA256: &str = include_str!("html/script.sha256");
/// A table longer than this can be filtered.
const FILTER_FROM: usize = 12;
/// No string of a record is longer than this on the page.
const CHARACTERS_MAX: usize = 600;

/// A page that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum HtmlError {
    /// A chart cannot be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The template is wrong, which is our mistake.
    #[error("the page's template cannot be filled in")]
    Template(#[from] minijinja::Error),
}

/// Renders a document.
///
/// # Errors
/// [`HtmlError`] where a chart cannot be drawn.
pub fn render(document: &Document) -> Result<String, HtmlError> {
    let mut environment = Environment::new();
    // The name's ending turns escaping on.
    environment.add_template("report.html", TEMPLATE)?;
    let for_people =
        |block: &&Block| !matches!(block, Block::Table(table) if table.shown().is_empty());
    let blocks = document.blocks.iter().filter(for_people);
    let blocks: Vec<Value> = blocks.map(block).collect::<Result<_, _>>()?;
    let groups = groups(blocks);
    let page = environment.get_template("report.html")?.render(context! {
        title => shown(&document.title),
        subtitle => shown(&document.subtitle),
        contents => contents(document),
        groups,
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        script_sha256 => SCRIPT_SHA256.trim(),
    })?;
    Ok(page)
}

/// The headings, each with where it stands and whether something below it failed.
fn contents(document: &Document) -> Vec<Value> {
    let mut sections: Vec<(&str, bool)> = Vec::new();
    for block in &document.blocks {
        match (block, sections.last_mut()) {
            (Block::Heading(heading), _) => sections.push((heading, false)),
            (Block::Table(table), Some((_, is_bad))) => {
                *is_bad |= table.rows.iter().any(|row| table_row_is_bad(table, row));
            }
            _ => {}
        }
    }
    let section = |(heading, is_bad): (&str, bool)| {
        context! { text => shown(heading), anchor => anchor(heading), is_bad }
    };
    sections.into_iter().map(section).collect()
}

/// The name of a heading's place on the page: `cases-without-a-result`.
fn anchor(heading: &str) -> String {
    let words = heading.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_ascii_lowercase).collect();
    format!("section-{}", shorten(&words.join("-"), ANCHOR_MAX))
}

/// Characters of a heading's place.
const ANCHOR_MAX: usize = 60;

/// Outcomes and verdicts that say that something is wrong.
const BAD: [&str; 3] = ["failed", "invalid", "fail"];

/// Whether a row of a table tells of a failure.
fn table_row_is_bad(table: &Table, row: &[Cell]) -> bool {
    let judged = table.columns.iter().zip(row).filter(|(column, _)| column.key != "above_floor");
    judged.into_iter().any(|(column, cell)| is_bad(column.key, cell))
}

fn is_bad(key: &str, cell: &Cell) -> bool {
    if let ("above_floor", Cell::Relative { value, .. }) = (key, cell) {
        return *value < 1.0;
    }
    let is_judged = ["outcome", "verdict"].contains(&key);
    is_judged && matches!(cell, Cell::Text(text) if BAD.contains(&text.as_str()))
}

/// Neighbours that stand side by side, in one group: charts, and small tables after them.
fn groups(blocks: Vec<Value>) -> Vec<Value> {
    let beside = |block: &Value| {
        let attribute = |name| block.get_attr(name).unwrap_or_default();
        attribute("kind").as_str() == Some("chart") || attribute("small").is_true()
    };
    let mut groups: Vec<(bool, Vec<Value>)> = Vec::new();
    for block in blocks {
        match groups.last_mut() {
            Some((true, group)) if beside(&block) => group.push(block),
            _ => groups.push((beside(&block), vec![block])),
        }
    }
    groups.into_iter().map(|(beside, blocks)| context! { beside, blocks }).collect()
}

/// Clean text, which the template escapes. No line ends between a number and its percent sign.
fn shown(text: &str) -> String {
    shorten(&clean(text), CHARACTERS_MAX).replace(" %", "\u{a0}%")
}

/// Clean text in parts, of which those between backticks are code.
fn prose(text: &str) -> Vec<Value> {
    let text = shown(text);
    let parts: Vec<&str> = text.split('`').collect();
    // A backtick without its partner is shown as it is.
    let (paired, rest) = parts.split_at((parts.len() - 1) / 2 * 2);
    let mut prose: Vec<Value> = paired
        .iter()
        .enumerate()
        .map(|(at, part)| context! { is_code => at % 2 == 1, text => *part })
        .collect();
    prose.push(context! { is_code => false, text => rest.join("`") });
    prose
}

fn block(block: &Block) -> Result<Value, HtmlError> {
    Ok(match block {
        Block::Heading(heading) => {
            context! { kind => "heading", text => shown(heading), anchor => anchor(heading) }
        }
        Block::Text(text) => context! { kind => "text", prose => prose(text) },
        Block::Warning(text) => context! { kind => "warning", prose => prose(text) },
        Block::Note(text) => context! { kind => "note", prose => prose(text) },
        Block::Failure(text) => context! { kind => "failure", prose => prose(text) },
        Block::Facts(facts) => {
            // The best of several is one of them: it has one card, by its own name, which comes
            // after that of the best.
            let has_card = |(at, one): &(usize, &Fact)| {
                let mut later = facts[at + 1..].iter();
                let is_again = |other: &Fact| {
                    other.case == one.case && cell::text(&other.value) == cell::text(&one.value)
                };
                one.case.is_empty() || !later.any(is_again)
            };
            let shown = facts.iter().enumerate().filter(has_card);
            let facts: Vec<_> = shown.map(|(_, one)| fact(one)).collect();
            context! { kind => "facts", facts }
        }
        Block::Chart(chart) => figure(chart)?,
        Block::HeatMap(map) => heat_map(map),
        Block::Table(of) => table(of),
        Block::Listing(listing) => context! {
            kind => "listing",
            name => listing.name.clone(),
            title => shown(&listing.title),
            // To be copied: no line is cut.
            lines => listing.text.lines().map(clean).collect::<Vec<_>>(),
        },
    })
}

fn fact(fact: &Fact) -> Value {
    let text = shown(&cell::text(&fact.value));
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    context! {
        label => shown(&fact.label),
        number,
        unit,
        share => fact.share.map(cell::percent),
        width => fact.share.map(|share| format!("{:.1}", share.clamp(0.0, 1.0) * 100.0)),
        of => shown(&fact.of),
        case => shown(&fact.case),
    }
}

fn figure(chart: &Chart) -> Result<Value, HtmlError> {
    Ok(context! {
        kind => "chart",
        name => chart.name.clone(),
        title => shown(&chart.title),
        caption => shown(&chart.caption),
        // The drawing library escapes what stands in the picture.
        svg => Value::from_safe_string(plot::svg(chart, Dress::Page)?),
        // What a narrow window shows in its place.
        narrow => Value::from_safe_string(plot::svg(chart, Dress::Phone)?),
    })
}

fn heat_map(map: &HeatMap) -> Value {
    let rows: Vec<_> = map
        .rows
        .iter()
        .map(|row| {
            let values: Vec<_> = row
                .values
                .iter()
                .zip(&map.columns)
                .map(|(heat, column)| heat_of(heat, &row.label, column))
                .collect();
            context! { label => shown(&row.label), values }
        })
        .collect();
    context! {
        kind => "heat_map",
        name => map.name.clone(),
        title => shown(&map.title),
        caption => shown(&map.caption),
        corner => shown(&map.corner),
        columns => map.columns.iter().map(|column| shown(column)).collect::<Vec<_>>(),
        rows,
    }
}

/// A value of a heat map, with the words that a reader sees who points at it.
fn heat_of(heat: &Heat, row: &str, column: &str) -> Value {
    let text = shown(&cell::text(&heat.value));
    let share = heat.said_share().map(cell::percent);
    let of_share = share.as_ref().map(|share| format!(" ({share})")).unwrap_or_default();
    let hover =
        (heat.value != Cell::Absent).then(|| shown(&format!("{row}, {column}: {text}{of_share}")));
    context! {
        text,
        share,
        hover,
        shade => heat.share.map(step),
        order => cell::number(&heat.value),
        is_bad => matches!(&heat.value, Cell::Text(text) if text.starts_with("SLOW ")),
        is_prose => matches!(heat.value, Cell::Text(_) | Cell::Code(_)),
    }
}

/// Ten shades, 0 the palest.
fn step(share: f64) -> u8 {
    (share.clamp(0.0, 0.999) * 10.0) as u8
}

fn table(table: &Table) -> Value {
    let shown_columns = table.shown();
    let columns: Vec<_> = shown_columns
        .iter()
        .map(|&at| {
            let class = match (table.is_numeric(at), is_prose(table, at)) {
                (true, _) => "n",
                (false, true) => "prose",
                (false, false) => "",
            };
            let detail = table.columns[at].weight == Weight::Detail;
            context! { title => table.columns[at].title, class, detail }
        })
        .collect();
    let rows: Vec<_> = table
        .rows
        .iter()
        .map(|row| {
            let cells: Vec<_> =
                shown_columns.iter().map(|&at| entry(&row[at], table.columns[at].key)).collect();
            context! { cells, is_bad => table_row_is_bad(table, row) }
        })
        .collect();
    context! {
        kind => "table",
        name => table.name.clone(),
        title => shown(&table.title),
        // Small enough to stand beside a chart.
        small => columns.len() <= 6
            && rows.len() <= FILTER_FROM
            && !table.rows.iter().flatten().any(|cell| matches!(cell, Cell::Span(..)))
            && !shown_columns.iter().any(|&at| is_prose(table, at)),
        filter => rows.len() > FILTER_FROM,
        // In a narrow window each row stands by itself, since sentences leave no room for columns.
        stacks => shown_columns.iter().any(|&at| is_prose(table, at)),
        count => rows.len(),
        columns,
        rows,
    }
}

/// Whether a column's text is long enough to be wrapped.
fn is_prose(table: &Table, column: usize) -> bool {
    table.rows.iter().any(|row| match &row[column] {
        Cell::Text(text) => text.chars().count() > 40,
        _ => false,
    })
}

fn entry(of: &Cell, key: &str) -> Value {
    let width = match of {
        Cell::Share(share) if key == "utilisation" || key.ends_with("ceiling_share") => {
            Some(format!("{:.1}", share.clamp(0.0, 1.0) * 100.0))
        }
        _ => None,
    };
    let span = match of {
        Cell::Span(from, to) => {
            let percent = |share: f64| format!("{:.2}", share.clamp(0.0, 1.0) * 100.0);
            Some((percent(*from), percent(to - from)))
        }
        _ => None,
    };
    context! {
        text => if span.is_some() { String::new() } else { shown(&cell::text(of)) },
        span => span.map(|(left, wide)| context! { left, wide }),
        code => matches!(of, Cell::Code(_)),
        is_absent => *of == Cell::Absent,
        is_bad => is_bad(key, of),
        order => cell::number(of),
        width,
    }
}
