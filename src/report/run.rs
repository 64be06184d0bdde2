//! The report of one run.

use super::{
    Block, Ceilings, Cell, Column, Document, Table, Weight, attention, case_table, chart, headline,
    heat, level, rank, reproduce, sensors, startup_fit::fit_startup, summary, wire_bandwidth,
    without_numbers,
};
use crate::{record::Record, units::Bytes};

/// What a record says, in reading order: the machine and its headlines, warnings, the memory, the
/// arithmetic, the collectives, the ranks beside each other, every case, and what reproduces them.
pub fn document(record: &Record) -> Document {
    let ceilings = Ceilings::of(record);
    let mut blocks = vec![Block::Text(summary::machine(record))];
    let facts = headline::facts(record, &ceilings);
    if !facts.is_empty() {
        blocks.push(Block::Facts(facts));
    }
    blocks.extend(summary::sentences(record, &ceilings).into_iter().map(Block::Text));
    blocks.extend(summary::warnings(record).into_iter().map(Block::Warning));

    let mut memory: Vec<_> = chart::memory(record, &ceilings).map(Block::Chart).collect();
    let mut arithmetic: Vec<_> =
        chart::roofline(record, &ceilings).map(Block::Chart).into_iter().collect();
    let mut collective: Vec<_> = chart::collective(record).map(Block::Chart).collect();
    memory.extend(level::table(record).map(Block::Table));
    arithmetic.extend(heat::gemm(record, &ceilings).map(Block::HeatMap));
    arithmetic.extend(heat::grouped(record, &ceilings).map(Block::HeatMap));
    arithmetic.extend(heat::attention(record, &ceilings).map(Block::HeatMap));
    arithmetic.extend(attention::table(record, &ceilings).map(Block::Table));
    collective.extend(fits(record).map(Block::Table));
    collective.extend(wire_bandwidth::table(record).map(Block::Table));
    let mut ranks: Vec<_> = rank::summary(record).map(Block::Table).into_iter().collect();
    ranks.extend(rank::heat(record).map(Block::HeatMap));
    ranks.extend(rank::table(record).map(Block::Table));
    ranks.extend(rank::times(record).map(Block::Table));
    let mut cases: Vec<_> = case_table::unmeasured(record).map(Block::Table).into_iter().collect();
    cases.extend(case_table::measured(record, &ceilings).map(Block::Table));
    cases.extend(sensors::table(record).map(Block::Table));

    let sections = [
        ("Memory", memory),
        ("Arithmetic", arithmetic),
        ("Collectives", collective),
        ("Ranks", ranks),
        ("Cases", cases),
        ("What reproduces this", vec![Block::Table(reproduce::table(record))]),
    ];
    for (title, section) in sections {
        if !section.is_empty() {
            blocks.push(Block::Heading(title.into()));
            blocks.extend(section);
        }
    }
    blocks.push(Block::Text(summary::timer(record)));
    let (title, subtitle) = (summary::title(record), summary::subtitle(record));
    let mut document = Document { title, subtitle, blocks };
    if record.header.device.is_stub() {
        document = without_numbers(document);
    }
    // What is said of ranks is relative, and marks its own numbers.
    let ranks = rank::all_alike(record).map(Block::Text).into_iter();
    let ranks = ranks.chain(rank::warnings(record).into_iter().map(Block::Warning));
    let heading = |block: &Block| matches!(block, Block::Heading(_));
    let end = document.blocks.iter().position(heading).unwrap_or(document.blocks.len());
    document.blocks.splice(end..end, ranks);
    document
}

/// The start-up model of each collective.
fn fits(record: &Record) -> Option<Table> {
    let rows: Vec<_> = chart::collective_times(record)
        .into_iter()
        .filter_map(|(of, times)| {
            let fit = fit_startup(&times)?;
            Some(vec![
                Cell::Code(of.named(record)),
                Cell::Time(fit.startup),
                Cell::Bandwidth(fit.rate),
                Cell::Size(Bytes(fit.half_performance().0)),
                Cell::Share(fit.error_max),
            ])
        })
        .collect();
    let column = |key, title, weight| Column { key, title, weight };
    (!rows.is_empty()).then(|| Table {
        name: "startup_fits".into(),
        title: "Start-up model t = a + S / b".into(),
        columns: vec![
            column("collective", "collective", Weight::Essential),
            column("startup_seconds", "start-up a", Weight::Essential),
            column("algbw_limit_bytes_per_second", "algbw b", Weight::Essential),
            column("half_performance_bytes", "half-bandwidth size", Weight::Essential),
            column("error_max", "worst fit error", Weight::Useful),
        ],
        rows,
    })
}
