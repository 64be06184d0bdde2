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
use crate::report::{Block, Cell, Chart, Document, Fact, HeatMap, Table, Weight};
use minijinja::{Environment, Value, context};

const TEMPLATE: &str = include_str!("html/report.html");
const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");
/// SHA-256 of [`SCRIPT`] in base64; a test computes it again.
const SCRIPT_SHA256: &str = include_str!("html/script.sha256");
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
    let blocks: Vec<Value> = document.blocks.iter().map(block).collect::<Result<_, _>>()?;
    let page = environment.get_template("report.html")?.render(context! {
        title => shown(&document.title),
        subtitle => shown(&document.subtitle),
        blocks,
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        script_sha256 => SCRIPT_SHA256.trim(),
    })?;
    Ok(page)
}

/// Clean text, which the template escapes.
fn shown(text: &str) -> String {
    shorten(&clean(text), CHARACTERS_MAX)
}

fn block(block: &Block) -> Result<Value, HtmlError> {
    Ok(match block {
        Block::Heading(heading) => context! { kind => "heading", text => shown(heading) },
        Block::Text(text) => context! { kind => "text", text => shown(text) },
        Block::Warning(text) => context! { kind => "warning", text => shown(text) },
        Block::Facts(facts) => {
            let facts: Vec<_> = facts.iter().map(fact).collect();
            context! { kind => "facts", facts }
        }
        Block::Chart(chart) => figure(chart)?,
        Block::HeatMap(map) => heat_map(map),
        Block::Table(of) => table(of),
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
        note => shown(&fact.note),
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
                .map(|heat| {
                    context! {
                        text => shown(&cell::text(&heat.value)),
                        share => heat.share.map(cell::percent),
                        shade => heat.share.map(|share| step(share)),
                        order => cell::number(&heat.value),
                    }
                })
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

/// Ten shades, 0 the palest.
fn step(share: f64) -> u8 {
    (share.clamp(0.0, 0.999) * 10.0) as u8
}

fn table(table: &Table) -> Value {
    let columns: Vec<_> = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let numeric =
                table.rows.iter().any(|row| cell::is_number(&row[at]) && row[at] != Cell::Absent);
            context! {
                title => column.title,
                numeric,
                detail => column.weight == Weight::Detail,
            }
        })
        .collect();
    let rows: Vec<Vec<_>> = table
        .rows
        .iter()
        .map(|row| {
            row.iter().zip(&table.columns).map(|(of, column)| entry(of, column.key)).collect()
        })
        .collect();
    context! {
        kind => "table",
        name => table.name.clone(),
        title => shown(&table.title),
        columns,
        filter => table.rows.len() > 12,
        count => table.rows.len(),
        rows,
    }
}

fn entry(of: &Cell, key: &str) -> Value {
    let is_bar = matches!(of, Cell::Share(_)) && (key == "utilisation" || key.contains("share"));
    context! {
        text => shown(&cell::text(of)),
        code => matches!(of, Cell::Code(_)),
        number => cell::is_number(of),
        order => cell::number(of),
        width => match of {
            Cell::Share(share) if is_bar => Some(format!("{:.1}", share.clamp(0.0, 1.0) * 100.0)),
            _ => None,
        },
    }
}
