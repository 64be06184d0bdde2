//! The report of a projection: what a model can do on some hardware, and where its time goes.

mod points;
mod ranking;
mod steps;
mod what_if;

use super::{Block, Cell, Column, Document, Fact, Weight};
use fizeau_domain::{model::Module, text::counted, units::Bytes};
use fizeau_projection::project::{By, Point, Projection, Rests, Side, remedy::remedies};

/// Columns without what nothing is in, for people; the hardware's only where there are several.
fn columns(projection: &Projection, all: &[Column]) -> Vec<Column> {
    let sides = || {
        let others = projection.variants.iter().map(|variant| &variant.side);
        projection.sides.iter().chain(others)
    };
    let is_known = sides().any(|side| {
        let hardware = &side.offer.hardware;
        hardware.measured.is_some() || hardware.public.is_some()
    });
    let has_record = sides().any(|side| side.offer.hardware.measured.is_some());
    let has_price = sides().any(|side| side.offer.price.is_some());
    let mut points = sides().flat_map(|side| &side.points);
    let lacks_l2 = points.any(|point| point.fits() && point.unknown.is_some());
    let of_l2 = ["measured", "lost", "efficiency", "basis"];
    let mut columns = all.to_vec();
    for column in &mut columns {
        let key = column.key;
        let is_empty = match key {
            "coverage" | "is_near" => !has_record,
            "dollars_per_million" => !has_price,
            _ => !is_known && of_l2.iter().any(|word| key.contains(word)),
        };
        match key {
            "on" | "rests_on" if projection.sides.len() > 1 => column.weight = Weight::Essential,
            "rests_on" if lacks_l2 => column.weight = Weight::Essential,
            "on" => column.weight = Weight::Machine,
            _ if is_empty => column.weight = Weight::Machine,
            _ => {}
        }
    }
    columns
}

/// A projection, in reading order: what it rests on, the points, the one to run at, what could be
/// otherwise, where its time goes.
pub fn document(projection: &Projection) -> Document {
    let demand = &projection.demand;
    let scenario = &demand.scenario;
    let names: Vec<_> =
        projection.sides.iter().map(|side| side.offer.hardware.name.as_str()).collect();
    let mut blocks: Vec<Block> = projection
        .sides
        .iter()
        .filter_map(|side| no_room(projection, side).map(Block::Warning))
        .collect();
    // What was asked comes first, and what it rests on below.
    blocks.extend(ranking::blocks(projection));
    blocks.push(Block::Facts(facts(projection)));
    blocks.push(Block::Text(tiers(points::tier_of_table(projection))));
    for side in &projection.sides {
        blocks.push(Block::Text(basis(side)));
        blocks.extend(side.offer.hardware.notes.iter().cloned().map(Block::Note));
    }
    blocks.extend(demand.model.notes.iter().cloned().map(Block::Warning));
    blocks.extend(projection.sides.iter().filter_map(unknown).map(Block::Warning));
    blocks.push(Block::Heading(points::HEADING.into()));
    blocks.push(Block::Table(points::table(projection)));
    blocks.extend(points::charts_of_all(projection).into_iter().map(Block::Chart));
    for side in &projection.sides {
        blocks.extend(points::heat(projection, side).map(Block::HeatMap));
        blocks.extend(points::charts(projection, side).into_iter().map(Block::Chart));
    }
    blocks.extend(what_if::blocks(projection));
    for side in &projection.sides {
        let at = side.operating_point(demand).or(side.points.iter().find(|point| point.fits()));
        if let Some(point) = at {
            blocks.extend(steps::blocks(projection, side, point));
        }
    }
    blocks.extend(points::decay(projection));
    Document {
        title: format!("{} on {}", demand.model.name, names.join(", ")),
        subtitle: format!(
            "{} tokens in ({} of them cached), {} out; weights {}; KV cache {}; {:.0} % of memory \
             usable",
            scenario.input,
            scenario.prefix,
            scenario.output,
            demand.model.precision.describe(),
            scenario.kv,
            scenario.memory_share * 100.0
        ),
        blocks,
    }
}

/// The same for people, who run what fits: rows of points that do not fit give way to a note that
/// counts them. Files for programs keep these rows.
pub fn of_what_fits(projection: &Projection) -> Document {
    let mut document = document(projection);
    let is_out = |row: &Vec<Cell>| row.last() == Some(&Cell::Text(points::DOES_NOT_FIT.into()));
    let mut left_out = 0;
    for block in &mut document.blocks {
        if let Block::Table(table) = block
            && table.name == points::TABLE
        {
            left_out = table.rows.iter().filter(|row| is_out(row)).count();
            table.rows.retain(|row| !is_out(row));
        }
    }
    if left_out == 0 {
        return document;
    }
    let nothing_fits = !projection.sides.iter().any(Side::fits);
    document.blocks.retain(|block| match block {
        Block::Table(table) => table.name != points::TABLE || !nothing_fits,
        Block::Heading(words) => words != points::HEADING || !nothing_fits,
        _ => true,
    });
    let at = document
        .blocks
        .iter()
        .position(|block| matches!(block, Block::Table(table) if table.name == points::TABLE));
    let points = counted(left_out, "point");
    let (does, is) = if left_out == 1 { ("does", "is") } else { ("do", "are") };
    let note = format!("{points} that {does} not fit into memory {is} left out; --json has all");
    document.blocks.insert(at.map_or(document.blocks.len(), |at| at + 1), Block::Note(note));
    document
}

fn facts(projection: &Projection) -> Vec<Fact> {
    let model = &projection.demand.model;
    let fact = |key: &str, label: &str, value: Cell, of: String| Fact {
        of,
        ..Fact::new(key, label, value)
    };
    let billions = |count: f64| Cell::Number(count / 1e9, "x 10^9");
    let size = |bytes: f64| Cell::Size(Bytes(bytes as u64));
    let kv = projection.demand.scenario.kv;
    let layers = format!("{} layers, hidden {}", model.layer_count(), model.hidden);
    let experts = model.parameters(Module::Experts) / model.total() * 100.0;
    let sequence = model.kv_bytes(projection.demand.scenario.middle(), kv);
    vec![
        fact("parameters", "Parameters", billions(model.total()), layers),
        fact(
            "active_parameters",
            "Active parameters",
            billions(model.active()),
            match experts {
                0.0 => "for each token".into(),
                share => format!("for each token; {share:.0} % of all are experts'"),
            },
        ),
        fact("weight_bytes", "Weights", size(model.weight_bytes()), model.precision.describe()),
        fact(
            "kv_bytes_per_token",
            "KV cache of a token",
            size(model.kv_bytes_per_token(kv)),
            format!("{kv}, beyond all windows"),
        ),
        fact(
            "kv_bytes_per_sequence",
            "KV cache of a sequence",
            size(sequence),
            format!("{kv}, at {} tokens, states included", projection.demand.scenario.middle()),
        ),
    ]
}

/// What the tiers mean, and of which the figures of the points are.
fn tiers(by: By) -> String {
    let of = match by {
        By::BestKnown => "L2 where it is known, else of L1 (\"by\" says which)",
        By::Serial => "L1, which all machines have; the column L2 stands for itself",
    };
    format!(
        "L0: the hard limit. L1: a perfect engine that does one operation after the other. L2: \
         each operation at the efficiency that the record shows, or, where it has none, that \
         others published of the part. TTFT, E2EL, rates, cost and energy are of {of}. They \
         include no queueing and no overhead of an engine. RPS, cost and \"a GPU\" count prefill; \
         \"a user\" and \"a GPU in decode\" are tokens a second of decode alone."
    )
}

fn basis(side: &Side) -> String {
    let hardware = &side.offer.hardware;
    let link = hardware.link.as_ref().map_or("none known".to_owned(), |link| {
        let outside = link.outside.map_or(String::new(), |rate| format!("; network {rate}"));
        format!("{}{outside}", link.basis)
    });
    let power = side
        .offer
        .watts()
        .map_or(String::new(), |(watts, whence)| format!(" Power {watts} W ({whence})."));
    let price = side.offer.price.map_or(String::new(), |price| format!(" {price} $ an hour."));
    format!(
        "{}: {}. Memory {} at {}, caches {}. Links: {link}.{power}{price}",
        hardware.name, hardware.basis, hardware.capacity, hardware.memory, hardware.cache
    )
}

/// A name in letters, digits and low lines, as files and keys have it.
fn plain(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// Output tokens of a device each second, prefill included, in a tier.
fn rate(point: &Point, output: u32, by: By) -> f64 {
    point.device_rate_with_prefill(output).by(by)
}

/// A tier in words, with what it rests on where it is the best one that is known.
fn tier(point: &Point, output: u32, by: By) -> String {
    match by {
        By::BestKnown => Rests::of_point(point, output).describe(),
        By::Serial => "L1".into(),
    }
}

/// That nothing of what was asked fits on a hardware, why, and what would make it fit.
fn no_room(projection: &Projection, side: &Side) -> Option<String> {
    if side.fits() {
        return None;
    }
    let demand = &projection.demand;
    let name = &side.offer.hardware.name;
    let roomiest = side.points.iter().max_by_key(|point| point.fit.sequences)?;
    let fit = &roomiest.fit;
    let bytes = |bytes: f64| Bytes(bytes as u64);
    let usable = bytes(fit.usable);
    let why = match fit.sequences {
        None => format!(
            "{} puts {} of weights on a device, which has {usable} usable",
            roomiest.layout,
            bytes(fit.weights)
        ),
        Some(most) => format!(
            "{} holds {most} at once: {} of weights and {} for each on a device, which has \
             {usable} usable",
            roomiest.layout,
            bytes(fit.weights),
            bytes(fit.sequence)
        ),
    };
    let options = remedies(demand, &side.offer);
    let options: Vec<_> = options.iter().map(|option| format!("`{option}`")).collect();
    let options = match options.is_empty() {
        true => String::new(),
        false => format!(" It would fit with {}.", options.join(", or with ")),
    };
    let requests = roomiest.concurrency;
    let requests = match fit.sequences {
        None => String::new(),
        Some(_) => format!(" with {} at once", counted(requests as usize, "request")),
    };
    Some(format!("{} does not fit on {name}{requests}: {why}.{options}", demand.model.name))
}

/// For which points of a side L2 is not known although something is known beside limits, and why.
fn unknown(side: &Side) -> Option<String> {
    let fitting: Vec<_> = side.points.iter().filter(|point| point.fits()).collect();
    let unknown: Vec<_> =
        fitting.iter().filter_map(|point| Some((*point, point.unknown?))).collect();
    let (point, (phase, why)) = unknown.first()?;
    let rest = match unknown.len() == fitting.len() {
        true => "the report shows L1 in its place",
        false => "they show L1 in its place, and are not ranked beside the others",
    };
    Some(format!(
        "{}: L2 is unknown for {} of {} points that fit; {rest}. {} with {} at once, \
         {phase}: {why}.",
        side.offer.hardware.name,
        unknown.len(),
        fitting.len(),
        point.layout,
        point.concurrency
    ))
}

/// Why no point of a side can be run at.
fn why_none(side: &Side) -> &'static str {
    match side.fits() {
        true => "no layout and number of requests keeps the limits",
        false => match side.points.iter().any(|point| point.fit.sequences.is_some()) {
            true => "none of the numbers of requests that were asked for fits into memory",
            false => "no number of requests fits into memory",
        },
    }
}
