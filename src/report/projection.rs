//! The report of a projection: what a model can do on some hardware, and where its time goes.

use super::{
    Axis, Block, Cell, Chart, Column, Document, Fact, FactLimit, Quantity, Scale, Series,
    SeriesKind, Table, Weight,
};
use crate::{
    model::Module,
    project::{Kind, Point, Projection, Side, Step, Tiers, shapes::missing},
    units::{Bytes, Seconds},
};

/// Shapes that a record lacks, at most this many in words.
const MISSING_SHOWN: usize = 6;

const POINTS: &[Column] = &[
    Column { key: "on", title: "on", weight: Weight::Detail },
    Column { key: "layout", title: "layout", weight: Weight::Essential },
    Column { key: "concurrency", title: "at once", weight: Weight::Essential },
    Column { key: "fits", title: "fits", weight: Weight::Useful },
    Column { key: "tpot_light_seconds", title: "TPOT L0", weight: Weight::Essential },
    Column { key: "tpot_serial_seconds", title: "L1", weight: Weight::Essential },
    Column { key: "tpot_measured_seconds", title: "L2", weight: Weight::Useful },
    Column { key: "ttft_seconds", title: "TTFT", weight: Weight::Useful },
    Column { key: "e2el_seconds", title: "E2EL", weight: Weight::Useful },
    Column { key: "user_tokens_per_second", title: "a user", weight: Weight::Essential },
    Column { key: "gpu_tokens_per_second", title: "a GPU", weight: Weight::Essential },
    Column { key: "requests_per_second", title: "RPS", weight: Weight::Useful },
    Column { key: "decode_bound", title: "decode by", weight: Weight::Detail },
    Column { key: "prefill_bound", title: "prefill by", weight: Weight::Detail },
    Column { key: "coverage", title: "covered", weight: Weight::Detail },
    Column { key: "dollars_per_million", title: "$ / 10^6", weight: Weight::Detail },
    Column { key: "joules_per_token", title: "J / token", weight: Weight::Detail },
    Column { key: "front", title: "front", weight: Weight::Useful },
];

const STEPS: &[Column] = &[
    Column { key: "phase", title: "phase", weight: Weight::Useful },
    Column { key: "operation", title: "operation", weight: Weight::Essential },
    Column { key: "count", title: "times", weight: Weight::Detail },
    Column { key: "bytes", title: "bytes", weight: Weight::Detail },
    Column { key: "flops", title: "GFLOP", weight: Weight::Detail },
    Column { key: "bound", title: "by", weight: Weight::Useful },
    Column { key: "serial_seconds", title: "L1", weight: Weight::Essential },
    Column { key: "share", title: "of L1", weight: Weight::Essential },
    Column { key: "measured_seconds", title: "L2", weight: Weight::Useful },
    Column { key: "lost_seconds", title: "L2 - L1", weight: Weight::Useful },
    Column { key: "efficiency", title: "efficiency", weight: Weight::Detail },
    Column { key: "is_near", title: "near", weight: Weight::Detail },
    Column { key: "basis", title: "basis", weight: Weight::Detail },
];

/// Columns without what nothing is in, for people; the hardware's only where there are several.
fn columns(projection: &Projection, all: &[Column]) -> Vec<Column> {
    let has_record = projection.sides.iter().any(|side| side.offer.hardware.measured.is_some());
    let of_record = |key: &str| {
        ["measured", "lost", "efficiency", "is_near", "coverage", "basis"]
            .iter()
            .any(|word| key.contains(word))
    };
    let mut columns = all.to_vec();
    for column in &mut columns {
        match column.key {
            "on" if projection.sides.len() > 1 => column.weight = Weight::Essential,
            "on" => column.weight = Weight::Machine,
            key if !has_record && of_record(key) => column.weight = Weight::Machine,
            _ => {}
        }
    }
    columns
}

/// A projection, in reading order: what it rests on, the points, the one to run at, where its time
/// goes.
pub fn document(projection: &Projection) -> Document {
    let demand = &projection.demand;
    let scenario = &demand.scenario;
    let names: Vec<_> =
        projection.sides.iter().map(|side| side.offer.hardware.name.as_str()).collect();
    let mut blocks = vec![Block::Facts(facts(projection))];
    blocks.push(Block::Text(
        "L0: nothing real is faster. L1: a perfect engine that does one operation after the other. \
         L2: each operation at the efficiency that the record shows. TTFT, E2EL, rates, cost and \
         energy are of L2 where there is a record, else of L1, without queueing and without an \
         engine's own overhead; RPS and cost count prefill, tokens a second of a user and of a GPU \
         are those of decode."
            .into(),
    ));
    for side in &projection.sides {
        blocks.push(Block::Text(basis(side)));
        blocks.extend(side.offer.hardware.notes.iter().cloned().map(Block::Warning));
    }
    blocks.extend(demand.model.notes.iter().cloned().map(Block::Warning));
    blocks.push(Block::Text(ranking(projection)));
    blocks.push(Block::Heading("Layouts and requests at once".into()));
    blocks.push(Block::Table(points(projection)));
    blocks.extend(projection.sides.iter().filter_map(|side| pareto(side).map(Block::Chart)));
    for side in &projection.sides {
        let at = side.operating_point(demand).or(side.points.first());
        if let Some(point) = at {
            blocks.extend(waterfall(projection, side, point));
        }
    }
    blocks.push(Block::Heading("One request by its context".into()));
    blocks.push(Block::Table(decay_table(projection)));
    blocks.extend(projection.sides.iter().filter_map(|side| decay(side).map(Block::Chart)));
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

fn facts(projection: &Projection) -> Vec<Fact> {
    let model = &projection.demand.model;
    let fact = |key: &str, label: &str, value: Cell, of: String| Fact {
        key: key.into(),
        label: label.into(),
        value,
        share: None,
        of,
        limit: FactLimit::default(),
        case: String::new(),
    };
    let billions = |count: f64| Cell::Number(count / 1e9, "x 10^9");
    let gigabytes = |bytes: f64| Cell::Number(bytes / 1e9, "GB");
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
        fact(
            "weight_bytes",
            "Weights",
            gigabytes(model.weight_bytes()),
            model.precision.describe(),
        ),
        fact(
            "kv_bytes_per_token",
            "KV cache of a token",
            Cell::Size(Bytes(model.kv_bytes_per_token(kv) as u64)),
            format!("{kv}, beyond all windows"),
        ),
        fact(
            "kv_bytes_per_sequence",
            "KV cache of a sequence",
            Cell::Number(sequence / 1e6, "MB"),
            format!("{kv}, at {} tokens, states included", projection.demand.scenario.middle()),
        ),
    ]
}

fn basis(side: &Side) -> String {
    let hardware = &side.offer.hardware;
    let link = hardware.link.as_ref().map_or("none known".to_owned(), |link| {
        let outside = link.outside.map_or(String::new(), |rate| format!("; network {rate}"));
        format!("{}{outside}", link.basis)
    });
    let power = side.offer.watts().map_or(String::new(), |(watts, is_given)| {
        let whence = if is_given { "given" } else { "stated for the part" };
        format!(" Power {watts} W ({whence}).")
    });
    let price = side.offer.price.map_or(String::new(), |price| format!(" {price} $ an hour."));
    format!(
        "{}: {}. Memory {} at {}, caches {}. Links: {link}.{power}{price}",
        hardware.name, hardware.basis, hardware.capacity, hardware.memory, hardware.cache
    )
}

/// Where to run, and what comes after it.
fn ranking(projection: &Projection) -> String {
    let demand = &projection.demand;
    let output = demand.scenario.output;
    let mut found: Vec<_> =
        projection.sides.iter().map(|side| (side, side.operating_point(demand))).collect();
    let key = |(side, point): &(&Side, Option<&Point>)| {
        let point = point.as_ref()?;
        let rate = point.device_rate_with_prefill(output).best_known();
        Some(side.cost(point, output).unwrap_or(1.0 / rate))
    };
    found.sort_by(|one, other| {
        let of = |one| key(one).unwrap_or(f64::INFINITY);
        of(one).total_cmp(&of(other))
    });
    let sentences = found.iter().map(|(side, point)| match point {
        None => {
            let why = match side.points.iter().any(Point::fits) {
                true => "no layout and number of requests keeps the limits",
                false => "no number of requests fits into memory",
            };
            format!("{}: {why}.", side.offer.hardware.name)
        }
        Some(point) => {
            let rate = point.device_rate_with_prefill(output).best_known();
            let cost = side.cost(point, output);
            let cost = cost.map_or(String::new(), |cost| format!(", {cost:.3} $ a million tokens"));
            format!(
                "{}: run {} with {} requests at once: {rate:.1} output tokens/s/GPU with \
                 prefill{cost}.{}",
                side.offer.hardware.name,
                point.layout,
                point.concurrency,
                next(side, point, output)
            )
        }
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// What the next number of requests would bring.
fn next(side: &Side, at: &Point, output: u32) -> String {
    let more = side
        .points
        .iter()
        .filter(|point| point.layout == at.layout && point.concurrency > at.concurrency)
        .min_by_key(|point| point.concurrency);
    let Some(more) = more else { return String::new() };
    let rate = |point: &Point| point.device_rate_with_prefill(output).best_known();
    let gain = (rate(more) / rate(at) - 1.0) * 100.0;
    let wait = (more.token.best_known() / at.token.best_known() - 1.0) * 100.0;
    let fits = if more.fits() { "" } else { ", and does not fit" };
    format!(" {} would give {gain:+.0} % at {wait:+.0} % TPOT{fits}.", more.concurrency)
}

fn time(seconds: f64) -> Cell {
    Cell::Time(Seconds(seconds))
}

fn points(projection: &Projection) -> Table {
    let output = projection.demand.scenario.output;
    let mut rows = Vec::new();
    for side in &projection.sides {
        let fronts = side.is_front.iter().zip(&side.is_front_end_to_end);
        for (point, (users, requests)) in side.points.iter().zip(fronts) {
            let measured = |tiers: &Tiers| tiers.measured.map_or(Cell::Absent, time);
            let class = |step: &Step| Cell::Text(step.class().to_string());
            let front = match (point.fits(), users, requests) {
                (false, ..) => "does not fit",
                (_, true, true) => "both",
                (_, true, false) => "tokens",
                (_, false, true) => "requests",
                _ => "dominated",
            };
            let fits = point.fit.sequences.map_or(Cell::Text("no".into()), Cell::Count);
            let number = |number: Option<f64>, unit| {
                number.map_or(Cell::Absent, |number| Cell::Number(number, unit))
            };
            rows.push(vec![
                Cell::Text(side.offer.hardware.name.clone()),
                Cell::Text(point.layout.to_string()),
                Cell::Count(u64::from(point.concurrency)),
                fits,
                time(point.token.light),
                time(point.token.serial),
                measured(&point.token),
                time(point.first_token.best_known()),
                time(point.end_to_end(output).best_known()),
                Cell::Number(point.user_rate().best_known(), "tok/s"),
                Cell::Number(point.device_rate().best_known(), "tok/s"),
                Cell::Number(point.requests.best_known(), "/s"),
                class(&point.decode),
                class(&point.prefill),
                point.decode.coverage.map_or(Cell::Absent, Cell::Share),
                number(side.cost(point, output), "$"),
                number(side.energy(point, output), "J"),
                Cell::Text(front.into()),
            ]);
        }
    }
    Table {
        name: "points".into(),
        title: "Points; \"fits\": sequences that fit at once; \"front\": what nothing beats".into(),
        columns: columns(projection, POINTS),
        rows,
    }
}

/// Where the time of one point goes, from L0 to L1 to L2.
fn waterfall(projection: &Projection, side: &Side, point: &Point) -> Vec<Block> {
    let name = &side.offer.hardware.name;
    let mut blocks = vec![Block::Heading(format!(
        "Where the time goes: {name}, {}, {} at once",
        point.layout, point.concurrency
    ))];
    let mut rows = Vec::new();
    for (phase, step) in [("decode", &point.decode), ("prefill", &point.prefill)] {
        blocks.push(Block::Text(steps_words(phase, step)));
        rows.extend(step.rows.iter().map(|row| {
            let operation = &row.operation;
            let lost = row.measured.map(|measured| Seconds(measured.0 - row.serial.0));
            let basis = row.basis.as_ref();
            let efficiency = basis.and_then(|basis| basis.efficiency);
            let share = row.serial.0 / step.serial.0.max(f64::MIN_POSITIVE);
            vec![
                Cell::Text(phase.into()),
                Cell::Text(operation.name.into()),
                Cell::Count(operation.count as u64),
                Cell::Size(Bytes((operation.count * operation.bytes) as u64)),
                Cell::Number(operation.count * operation.flops / 1e9, "GFLOP"),
                Cell::Text(row.class.to_string()),
                Cell::Time(row.serial),
                Cell::Share(share),
                row.measured.map_or(Cell::Absent, Cell::Time),
                lost.map_or(Cell::Absent, Cell::Time),
                efficiency.map_or(Cell::Absent, Cell::Share),
                basis.map_or(Cell::Absent, |basis| {
                    Cell::Text(if basis.is_near { "near" } else { "far" }.into())
                }),
                basis.map_or(Cell::Text("L1".into()), |basis| Cell::Text(basis.words.clone())),
            ]
        }));
    }
    blocks.push(Block::Table(Table {
        name: format!("steps_{}", plain(name)),
        title: "Operations of a step on one device; L2 rests on the case named".into(),
        columns: columns(projection, STEPS),
        rows,
    }));
    blocks.extend(unmeasured(projection, side, point).map(Block::Text));
    blocks
}

/// A name in letters, digits and low lines, as files and keys have it.
fn plain(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn steps_words(phase: &str, step: &Step) -> String {
    let (light, class) = step.bound.longest();
    let bound = &step.bound;
    let measured = match (step.measured, step.coverage) {
        (Some(time), Some(coverage)) => format!(
            " -> L2 {time}; {:.0} % of L1 rests on a measurement within half an octave",
            coverage * 100.0
        ),
        _ => String::new(),
    };
    let messages = match bound.communication.0 {
        0.0 => "no messages".into(),
        _ => format!("communication {}", bound.communication),
    };
    format!(
        "A step of {phase}: L0 {light} ({class}; memory {}, compute {}, {messages}) -> L1 \
         {}{measured}.",
        bound.memory, bound.compute, step.serial
    )
}

/// What a run should measure to raise the coverage.
fn unmeasured(projection: &Projection, side: &Side, point: &Point) -> Option<String> {
    side.offer.hardware.measured.as_ref()?;
    let mut list = missing(&point.decode);
    list.extend(missing(&point.prefill));
    let whole = point.decode.serial.0 + point.prefill.serial.0;
    list.sort_by(|one, other| other.2.total_cmp(&one.2));
    if list.is_empty() {
        return None;
    }
    let words: Vec<_> = list
        .iter()
        .take(MISSING_SHOWN)
        .map(|(name, kind, time)| format!("{name}{} ({:.0} %)", shape(kind), time / whole * 100.0))
        .collect();
    let demand = &projection.demand;
    Some(format!(
        "Not measured near these shapes, with their share of L1 of both phases: {}. To measure \
         them: `fizeau shapes {} --layout {} --isl {} --osl {} --concurrency {} --out \
         shapes.toml`, then `fizeau run --suite shapes.toml` on that machine.",
        words.join(", "),
        demand.model.name,
        point.layout,
        demand.scenario.input,
        demand.scenario.output,
        point.concurrency
    ))
}

fn shape(kind: &Kind) -> String {
    match kind {
        Kind::Gemm([m, n, k]) => format!(" {m:.0}x{n:.0}x{k:.0}"),
        Kind::Grouped([m, n, k, groups]) => format!(" {m:.0}x{n:.0}x{k:.0} for {groups:.0}"),
        Kind::Attention { .. } => String::new(),
        Kind::AllReduce(bytes) | Kind::AllToAll(bytes) => format!(" {}", Bytes(*bytes as u64)),
    }
}

fn pareto(side: &Side) -> Option<Chart> {
    let of = |is_front: bool| {
        let points = side.points.iter().zip(&side.is_front);
        let mut points: Vec<_> = points
            .filter(|(point, front)| point.fits() && **front == is_front)
            .map(|(one, _)| (one.user_rate().best_known(), one.device_rate().best_known()))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    let (front, rest) = (of(true), of(false));
    if front.len() < 2 {
        return None;
    }
    let mut series = vec![Series { name: "front".into(), kind: SeriesKind::Curve, points: front }];
    if !rest.is_empty() {
        series.push(Series { name: "dominated".into(), kind: SeriesKind::Points, points: rest });
    }
    Some(Chart {
        name: format!("pareto_{}", plain(&side.offer.hardware.name)),
        title: format!("Tokens of a user against tokens of a GPU, {}", side.offer.hardware.name),
        caption: "Decode by the best tier that is known, over layouts and requests at once.".into(),
        x: axis("tokens/s of a user"),
        y: axis("tokens/s of a GPU"),
        series,
        marks: Vec::new(),
    })
}

/// An axis of counts over orders of magnitude.
fn axis(title: &str) -> Axis {
    Axis { title: title.into(), quantity: Quantity::Count, scale: Scale::Logarithmic }
}

const DECAY: &[Column] = &[
    Column { key: "on", title: "on", weight: Weight::Useful },
    Column { key: "context", title: "context", weight: Weight::Essential },
    Column { key: "light_tokens_per_second", title: "L0", weight: Weight::Essential },
    Column { key: "serial_tokens_per_second", title: "L1", weight: Weight::Essential },
    Column { key: "measured_tokens_per_second", title: "L2", weight: Weight::Essential },
];

fn decay_table(projection: &Projection) -> Table {
    let mut rows = Vec::new();
    for side in &projection.sides {
        for (context, rate) in &side.decay {
            let tokens = |rate| Cell::Number(rate, "tok/s");
            rows.push(vec![
                Cell::Text(side.offer.hardware.name.clone()),
                Cell::Count(*context),
                tokens(rate.light),
                tokens(rate.serial),
                rate.measured.map_or(Cell::Absent, tokens),
            ]);
        }
    }
    Table {
        name: "decay".into(),
        title: "Tokens a second of one request, by tokens before it, in the first layout".into(),
        columns: columns(projection, DECAY),
        rows,
    }
}

fn decay(side: &Side) -> Option<Chart> {
    if side.decay.len() < 2 {
        return None;
    }
    let line = |name: &str, kind, of: &dyn Fn(&Tiers) -> Option<f64>| {
        let points = side.decay.iter();
        let points = points.filter_map(|(context, rate)| Some((*context as f64, of(rate)?)));
        Series { name: name.into(), kind, points: points.collect() }
    };
    let all = [
        line("L0", SeriesKind::Limit, &|rate| Some(rate.light)),
        line("L1", SeriesKind::Curve, &|rate| Some(rate.serial)),
        line("L2", SeriesKind::Curve, &|rate| rate.measured),
    ];
    Some(Chart {
        name: format!("decay_{}", plain(&side.offer.hardware.name)),
        title: format!("One request by its context, {}", side.offer.hardware.name),
        caption: "Tokens a second fall as the KV cache grows beside the weights.".into(),
        x: axis("tokens before it"),
        y: axis("tokens/s"),
        series: all.into_iter().filter(|series| !series.points.is_empty()).collect(),
        marks: Vec::new(),
    })
}
