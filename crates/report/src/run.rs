//! The report of one run.

use super::{
    Block, Ceilings, Cell, Chart, Column, Document, HeatMap, Table, Weight, access, attention,
    brief, case_table, chart, consistency, fused, headline, heat, integrity, level, own_kernels,
    rank, regime, reproduce, sensors,
    startup_fit::{FIT_ERROR_MAX, fit_startup},
    summary, transfer, wire_bandwidth, without_numbers,
};
use fizeau_record::Record;

/// What a record says, in reading order: the machine and its headlines, what failed, warnings, a
/// section for each kind of operation, sensors, every case, and what reproduces them.
pub fn document(record: &Record) -> Document {
    let ceilings = Ceilings::of(record);
    let mut blocks = brief::verdict(record);
    blocks.push(Block::Text(summary::machine(record)));
    blocks.extend(own_kernels::blocks(record, usize::MAX));
    let facts = headline::facts(record, &ceilings);
    if !facts.is_empty() {
        blocks.push(Block::Facts(facts));
    }
    blocks.extend(summary::sentences(record, &ceilings).into_iter().map(Block::Text));
    blocks.extend(regime::sentence(record).map(Block::Text));
    blocks.extend(integrity::sentences(record).into_iter().map(Block::Text));
    blocks.extend(summary::failures(record).into_iter().map(Block::Failure));
    blocks.extend(summary::remarks(record).blocks());
    for (title, section) in sections(record, &ceilings) {
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

/// What stands under each heading, in reading order; headings with nothing under them are left out
/// by the caller.
fn sections(record: &Record, ceilings: &Ceilings) -> [(&'static str, Vec<Block>); 17] {
    let charts = |charts: Vec<Chart>| charts.into_iter().map(Block::Chart).collect::<Vec<_>>();
    let maps = |maps: Vec<HeatMap>| maps.into_iter().map(Block::HeatMap).collect::<Vec<_>>();
    let table = |table: Option<Table>| table.map(Block::Table).into_iter().collect::<Vec<_>>();
    let mut memory = charts(chart::memory(record, ceilings).collect());
    memory.extend(table(level::table(record)));
    let mut arithmetic = charts(chart::roofline(record, ceilings).into_iter().collect());
    arithmetic.extend(maps(heat::gemm(record, ceilings)));
    arithmetic.extend(maps(heat::grouped(record, ceilings)));
    let mut attention = maps(heat::attention(record, ceilings));
    attention.extend(table(attention::table(record, ceilings)));
    let mut collective = charts(chart::collective(record).collect());
    collective.extend(table(fits(record)));
    collective.extend(table(wire_bandwidth::table(record)));
    let mut ranks = table(rank::summary(record));
    ranks.extend(rank::heat(record).map(Block::HeatMap));
    ranks.extend(table(rank::table(record)));
    ranks.extend(table(rank::times(record)));
    let mut sensors = charts(sensors::charts(record));
    sensors.extend(table(sensors::table(record)));
    let device = &record.header.device;
    let gpu = format!("{}:{}", device.backend, device.ordinal);
    [
        ("Memory", memory),
        ("Access", table(access::table(record, ceilings))),
        ("Transfers", maps(transfer::maps(&[(&gpu, record)]))),
        ("Launches", table(access::launches(record))),
        ("Arithmetic", arithmetic),
        ("Attention", attention),
        ("Fused operations", table(fused::table(record, ceilings))),
        ("Linear attention", table(fused::recurrences(record, ceilings))),
        ("Sparse attention", table(attention::sparse(record, ceilings))),
        ("Silent corruption", table(integrity::table(record))),
        ("Collectives", collective),
        ("Ranks", ranks),
        ("Sensors over time", sensors),
        ("Cases without a result", table(case_table::unmeasured(record))),
        ("Contradictions", table(consistency::table(record))),
        ("Cases", table(case_table::measured(record, ceilings))),
        ("What reproduces this", table(Some(reproduce::table(record)))),
    ]
}

/// The start-up model of each collective.
fn fits(record: &Record) -> Option<Table> {
    let rows: Vec<_> = chart::collective_times(record)
        .into_iter()
        .filter_map(|(of, times)| {
            let fit = fit_startup(&times)?;
            // Numbers of a model that does not hold would be read as measured ones.
            let [startup, rate, half] = match fit.holds() {
                true => [
                    Cell::Time(fit.startup),
                    Cell::Bandwidth(fit.rate),
                    Cell::Size(fit.half_performance()),
                ],
                false => [const { Cell::Absent }; 3],
            };
            let model = if fit.holds() { "holds" } else { "does not hold" };
            let (name, error) = (Cell::Code(of.named(record)), Cell::Share(fit.error_max));
            Some(vec![name, Cell::Text(model.into()), startup, rate, half, error])
        })
        .collect();
    let title = format!(
        "Start-up model t = a + S / b, where it is within {:.0} % of every time",
        FIT_ERROR_MAX * 100.0
    );
    let columns = vec![
        Column::new("collective", "collective", Weight::Essential),
        Column::new("model", "model", Weight::Essential),
        Column::new("startup_seconds", "start-up a", Weight::Essential),
        Column::new("algbw_limit_bytes_per_second", "algbw b", Weight::Essential),
        Column::new("half_performance_bytes", "half-bandwidth size", Weight::Essential),
        Column::new("error_max", "worst fit error", Weight::Useful),
    ];
    Table::unless_empty("startup_fits", title, columns, rows)
}
