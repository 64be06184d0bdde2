//! The report of a discovery: what was found of a device, how it was found, and how it stands
//! to what the table and the device state.

use super::{Block, Cell, Column, Document, Table, Weight, without_numbers};
use fizeau_domain::{
    text::{agreed, counted},
    units::{Bytes, BytesPerSecond},
};
use fizeau_judge::discover::{
    CacheFound, Discovery, PerClock,
    check::{ABOVE, BELOW, Compared, Figure, Standing},
    unknown,
};
use fizeau_record::Record;

/// The document of a discovery; `compared` is how it stands to the table and the device, and `part`
/// the part that the table has for it.
pub fn document(
    record: &Record,
    found: &Discovery,
    compared: &[Compared],
    part: Option<&str>,
) -> Document {
    let device = &record.header.device;
    let mut blocks = vec![Block::Text(device_line(record, found))];
    blocks.extend(disturbed(record, found).map(Block::Warning));
    blocks.extend(record.header.environment.warnings.iter().cloned().map(Block::Note));
    blocks.push(Block::Table(memory(record, found)));
    let tables = [per_clock(found), arithmetic(found), instructions(found), others(found)];
    blocks.extend(tables.into_iter().flatten().map(Block::Table));
    blocks.extend(standing(compared, part));
    blocks.push(Block::Heading("Not known".into()));
    let unknown = unknown(found, device.backend == "host");
    blocks.extend(unknown.into_iter().map(Block::Note));
    let header = &record.header;
    let subtitle = format!(
        "{}, fizeau {}, run {}: {} of {} measured",
        header.started,
        header.fizeau,
        header.run,
        record.outcomes.iter().filter(|outcome| outcome.measured().is_some()).count(),
        counted(header.plan.len(), "case")
    );
    let title = match part {
        Some(part) => format!("{} ({part})", device.name),
        None => format!("{}, in no table", device.name),
    };
    let document = Document { title, subtitle, blocks };
    if device.is_stub() { without_numbers(document) } else { document }
}

fn device_line(record: &Record, found: &Discovery) -> String {
    let device = &record.header.device;
    let units = match (device.backend.as_str(), device.units) {
        ("host", units) => counted(units as usize, "core"),
        (_, units) => counted(units as usize, "unit"),
    };
    let clock = found.clock.map(|[least, median, most]| {
        format!(", clock under load {median} (median of all cases; {least} to {most})")
    });
    let memory = if device.memory.0 > 0 { format!(", {}", device.memory) } else { String::new() };
    let around = device.virtualised.as_ref().map(|of| format!(", under {of}"));
    let (clock, around) = (clock.unwrap_or_default(), around.unwrap_or_default());
    format!("{units}{memory}{around}{clock}.")
}

fn disturbed(record: &Record, found: &Discovery) -> Option<String> {
    let measured = record.outcomes.iter().filter(|outcome| outcome.measured().is_some()).count();
    let busy = record.header.environment.busy_load();
    let why = match (found.disturbed, busy) {
        (0, None) => return None,
        (0, Some(load)) => format!("the machine was busy at the start (load average {load:.1})"),
        (cases, _) => {
            let measured = counted(measured, "case");
            format!("other processes took CPU time during {cases} of {measured}")
        }
    };
    Some(format!(
        "{why}: rates may be too low, latencies too long, and a shared cache may look smaller than \
         it is"
    ))
}

fn cycles(cycles: Option<f64>) -> Cell {
    cycles.map_or(Cell::Absent, |cycles| Cell::Number(cycles, "cycles"))
}

fn rate(rate: Option<BytesPerSecond>) -> Cell {
    rate.map_or(Cell::Absent, Cell::Bandwidth)
}

fn size(size: Option<Bytes>) -> Cell {
    size.filter(|size| size.0 > 0).map_or(Cell::Absent, Cell::Size)
}

fn memory(record: &Record, found: &Discovery) -> Table {
    let device = &record.header.device;
    let row = |(number, cache): (usize, &CacheFound)| {
        let told = device.caches.iter().find(|level| cache.knee.is_near(level.size.0));
        let told = told.map(|level| level.size);
        let line = found.line.filter(|_| number == 0);
        vec![
            Cell::Text(format!("cache {}", number + 1)),
            Cell::Size(cache.size()),
            Cell::Size(Bytes(cache.knee.below)),
            size(cache.by_bandwidth.map(|knee| Bytes(knee.holds))),
            size(told),
            size(line),
            cache.latency.map_or(Cell::Absent, Cell::Time),
            cycles(cache.cycles),
            rate(cache.read),
        ]
    };
    let mut rows: Vec<_> = found.caches.iter().enumerate().map(row).collect();
    let memory = &found.memory;
    rows.push(vec![
        Cell::Text("memory".into()),
        Cell::Absent,
        Cell::Absent,
        Cell::Absent,
        Cell::Absent,
        Cell::Absent,
        memory.latency.map_or(Cell::Absent, Cell::Time),
        cycles(memory.cycles),
        rate(memory.read),
    ]);
    let columns = vec![
        Column::new("level", "level", Weight::Essential),
        Column::new("holds_bytes", "holds", Weight::Essential),
        Column::new("below_bytes", "but not", Weight::Useful),
        Column::new("by_bandwidth_bytes", "by bandwidth", Weight::Useful),
        Column::new("stated_bytes", "device states", Weight::Essential),
        Column::new("line_bytes", "line", Weight::Essential),
        Column::new("latency_seconds", "load takes", Weight::Essential),
        Column::new("latency_cycles", "in cycles", Weight::Useful),
        Column::new("read_bytes_per_second", "best read", Weight::Essential),
    ];
    Table::new("memory", "Caches by the knees of latency, and memory", columns, rows)
}

/// What one unit moves to and from its first cache.
fn per_clock(found: &Discovery) -> Option<Table> {
    let row = |what: &str, of: &PerClock| {
        let instructions = of.width.map(|width| of.bytes / width);
        vec![
            Cell::Text(what.into()),
            Cell::Number(of.bytes, "B"),
            instructions.map_or(Cell::Absent, |count| Cell::Number(count, "")),
            Cell::Code(of.case.clone()),
        ]
    };
    let loads = found.load_per_clock.iter().map(|of| row("loads", of));
    let stores = found.store_per_clock.iter().map(|of| row("stores", of));
    let rows: Vec<_> = loads.chain(stores).collect();
    let columns = vec![
        Column::new("what", "what", Weight::Essential),
        Column::new("bytes_per_clock", "bytes", Weight::Essential),
        Column::new("instructions_per_clock", "instructions", Weight::Essential),
        Column::new("case", "case", Weight::Useful),
    ];
    Table::unless_empty("first_cache", "One unit and its first cache, each clock", columns, rows)
}

fn arithmetic(found: &Discovery) -> Option<Table> {
    let rows: Vec<_> = found
        .arithmetic
        .iter()
        .map(|one| {
            vec![
                Cell::Text(one.dtype.to_string()),
                Cell::Throughput(one.rate),
                one.per_clock.map_or(Cell::Absent, |rate| Cell::Number(rate, "")),
                one.per_byte.map_or(Cell::Absent, |rate| Cell::Number(rate, "")),
                Cell::Code(one.kernel.clone()),
            ]
        })
        .collect();
    let columns = vec![
        Column::new("dtype", "type", Weight::Essential),
        Column::new("flops_per_second", "rate", Weight::Essential),
        Column::new("per_unit_and_clock", "of a unit in a clock", Weight::Essential),
        Column::new("per_byte", "operations per byte read", Weight::Essential),
        Column::new("kernel", "kernel", Weight::Essential),
    ];
    Table::unless_empty("arithmetic", "Arithmetic by element type, all units", columns, rows)
}

fn instructions(found: &Discovery) -> Option<Table> {
    let rows: Vec<_> = found
        .instructions
        .iter()
        .map(|one| {
            vec![
                Cell::Text(one.point.instruction.to_string()),
                one.point.dtype.map_or(Cell::Absent, |dtype| Cell::Text(dtype.to_string())),
                Cell::Code(one.kernel.clone()),
                Cell::Time(one.time),
                cycles(one.cycles),
            ]
        })
        .collect();
    let title = "Latency of an instruction that waits for the one before";
    let columns = vec![
        Column::new("instruction", "instruction", Weight::Essential),
        Column::new("dtype", "type", Weight::Essential),
        Column::new("kernel", "kernel", Weight::Essential),
        Column::new("latency_seconds", "takes", Weight::Essential),
        Column::new("latency_cycles", "in cycles", Weight::Essential),
    ];
    Table::unless_empty("instructions", title, columns, rows)
}

fn others(found: &Discovery) -> Option<Table> {
    let rows: Vec<_> = found
        .others
        .iter()
        .map(|one| vec![Cell::Code(one.case.clone()), Cell::Time(one.time), rate(one.rate)])
        .collect();
    let columns = vec![
        Column::new("case", "case", Weight::Essential),
        Column::new("median_seconds", "takes", Weight::Essential),
        Column::new("bytes_per_second", "rate", Weight::Essential),
    ];
    Table::unless_empty("others", "Launches, copies and other access", columns, rows)
}

fn figure(figure: Figure) -> Cell {
    match figure {
        Figure::Count(count) => Cell::Count(u64::from(count)),
        Figure::Size(size) => Cell::Size(size),
        Figure::Operations(value) => Cell::Number(value, ""),
        Figure::BytesPerClock(value) => Cell::Number(value, "B"),
        Figure::Rate(value) => Cell::Bandwidth(BytesPerSecond(value)),
    }
}

fn words(standing: Standing) -> &'static str {
    match standing {
        Standing::Agrees => "agrees",
        Standing::Above => "above: the table is wrong, or the device another",
        Standing::Below => "not reached",
        Standing::Differs => "differs",
        Standing::NotSeen => "not seen: others may fill it",
    }
}

/// What the table and the device state beside what was found, those that differ first.
fn standing(compared: &[Compared], part: Option<&str>) -> Vec<Block> {
    if compared.is_empty() {
        return Vec::new();
    }
    let of = match part {
        Some(part) => format!("Beside the table ({part}) and what the device states"),
        None => "Beside what the device states".into(),
    };
    let mut sorted: Vec<&Compared> = compared.iter().collect();
    sorted.sort_by_key(|one| one.standing == Standing::Agrees);
    let row = |one: &&Compared| {
        let share = one.found.map(|found| found.value() / one.stated.value());
        vec![
            Cell::Text(one.what.clone()),
            Cell::Text(one.by.into()),
            figure(one.stated),
            one.found.map_or(Cell::Absent, figure),
            share.map_or(Cell::Absent, Cell::Share),
            Cell::Text(words(one.standing).into()),
        ]
    };
    let differ = compared.iter().filter(|one| one.standing != Standing::Agrees).count();
    let tolerance = format!(
        "{differ} of {} {}. A rate agrees from {:.0} % below what is stated to {:.0} % \
         above it, a cache within one step of the sweep, counts and lines exactly.",
        counted(compared.len(), "figure"),
        agreed(differ, "differs", "differ"),
        BELOW * 100.0,
        ABOVE * 100.0
    );
    let table = Table {
        name: "standing".into(),
        title: of,
        columns: vec![
            Column::new("what", "what", Weight::Essential),
            Column::new("stated_by", "stated by", Weight::Useful),
            Column::new("stated", "stated", Weight::Essential),
            Column::new("found", "found", Weight::Essential),
            Column::new("found_share", "share", Weight::Useful),
            Column::new("standing", "standing", Weight::Essential),
        ],
        rows: sorted.iter().map(row).collect(),
    };
    vec![Block::Table(table), Block::Text(tolerance)]
}
