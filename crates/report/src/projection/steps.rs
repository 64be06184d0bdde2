//! Where the time of a step goes: from L0 to L1 to L2, by operation, by requests at once, and by
//! the resource that is below its ceiling.

use super::{columns, plain};
use crate::{Block, Cell, Column, Heat, HeatMap, HeatRow, Table, Weight};
use fizeau_domain::{
    text::counted,
    units::{Bytes, Seconds},
};
use fizeau_projection::project::{
    Kind, Point, Projection, Row, Side, Step, Whence,
    shapes::missing,
    symptom::{Loss, losses},
};

/// Shapes that a record lacks, at most this many in words.
const MISSING_SHOWN: usize = 6;

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

/// Where the time of one point goes.
pub fn blocks(projection: &Projection, side: &Side, point: &Point) -> Vec<Block> {
    let name = &side.offer.hardware.name;
    let mut blocks = vec![Block::Heading(format!(
        "Where the time goes: {name}, {}, {} at once",
        point.layout, point.concurrency
    ))];
    let phases = [("decode", &point.decode), ("prefill", &point.prefill)];
    let mut rows = Vec::new();
    for (phase, step) in phases {
        blocks.push(Block::Text(words(phase, step)));
        rows.extend(step.rows.iter().map(|row| operation(phase, step, row)));
    }
    blocks.extend(phases.map(|(phase, step)| Block::Table(waterfall(name, phase, step))));
    blocks.push(Block::Table(Table {
        name: format!("steps_{}", plain(name)),
        title: "Operations of a step on one device; L2 rests on what is named".into(),
        columns: columns(projection, STEPS),
        rows,
    }));
    blocks.push(Block::HeatMap(by_concurrency(projection, side, point)));
    blocks.extend(symptoms(projection, side, point));
    blocks.extend(unmeasured(projection, side, point).map(Block::Text));
    blocks
}

fn operation(phase: &str, step: &Step, row: &Row) -> Vec<Cell> {
    let operation = &row.operation;
    let lost = row.measured.map(|measured| Seconds(measured.0 - row.serial.0));
    let basis = row.basis.as_ref();
    let efficiency = basis.and_then(|basis| basis.efficiency);
    let share = row.serial.0 / step.serial.0.max(f64::MIN_POSITIVE);
    vec![
        Cell::Text(phase.into()),
        Cell::Text(operation.name.into()),
        Cell::Count(operation.count.round() as u64),
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
}

fn words(phase: &str, step: &Step) -> String {
    let (light, class) = step.bound.longest();
    let bound = &step.bound;
    let measured = match (step.measured, step.unknown) {
        (Some(time), _) => format!(" -> L2 {time}"),
        (None, Some(why)) => format!(" -> L2 not known ({why})"),
        (None, None) => String::new(),
    };
    let covered = step.coverage.map_or(String::new(), |coverage| {
        format!(
            "; {:.0} % of L1 rests on a measurement of this record within half an octave",
            coverage * 100.0
        )
    });
    let messages = match bound.communication.0 {
        0.0 => "no messages".into(),
        _ => format!("communication {}", bound.communication),
    };
    format!(
        "A step of {phase}: L0 {light} ({class}; memory {}, compute {}, {messages}) -> L1 \
         {}{measured}{covered}.",
        bound.memory, bound.compute, step.serial
    )
}

const WATERFALL: &[Column] = &[
    Column { key: "part", title: "from L0 to L2", weight: Weight::Essential },
    Column { key: "added_seconds", title: "adds", weight: Weight::Essential },
    Column { key: "reached_seconds", title: "reaches", weight: Weight::Essential },
    Column { key: "bar", title: "", weight: Weight::Essential },
];

/// What lies between the tiers, each part where the one before it ends: L0; what a serial engine
/// adds; the experts that random routing touches; and of L2 what starting kernels takes, what each
/// message takes, and by operation what measured efficiencies add.
fn waterfall(name: &str, phase: &str, step: &Step) -> Table {
    let (light, class) = step.bound.longest();
    let mut parts = vec![(format!("L0, {class}"), 0.0, light.0)];
    parts.push(("one operation after the other".into(), light.0, step.agreed.0));
    parts.extend(experts(step).map(|name| (name, step.agreed.0, step.serial.0)));
    let mut at = step.serial.0;
    if step.measured.is_some() {
        let mut lost = added(step);
        lost.sort_by(|one, other| other.1.total_cmp(&one.1));
        for (name, more) in lost.into_iter().filter(|(_, more)| *more > 0.0) {
            parts.push((name, at, at + more));
            at += more;
        }
    }
    let whole = at.max(f64::MIN_POSITIVE);
    let row = |(name, from, to): (String, f64, f64)| {
        vec![
            Cell::Text(name),
            Cell::Time(Seconds(to - from)),
            Cell::Time(Seconds(to)),
            Cell::Span(from / whole, to / whole),
        ]
    };
    let title = format!("A step of {phase} from L0 through L1 to L2, {name}");
    let rows = parts.into_iter().map(row);
    Table::new(format!("waterfall_{phase}_{}", plain(name)), title, WATERFALL, rows)
}

/// The experts that random routing touches, beside those of the best routing; none without.
fn experts(step: &Step) -> Option<String> {
    let of = |row: &Row| match row.operation.kind {
        Kind::Grouped([.., groups]) => {
            let share = row.operation.agreed_bytes / row.operation.bytes.max(f64::MIN_POSITIVE);
            Some((groups, groups * share))
        }
        _ => None,
    };
    let (touched, agreed) = step
        .rows
        .iter()
        .filter_map(of)
        .reduce(|one, other| if other.0 > one.0 { other } else { one })?;
    Some(format!(
        "experts that random routing touches: {touched:.1} of a layer on a device, not {agreed:.1}"
    ))
}

/// What L2 adds to L1, by what it is added for.
fn added(step: &Step) -> Vec<(String, f64)> {
    let mut lost: Vec<(String, f64)> = Vec::new();
    let mut add = |name: String, more: f64| match lost.iter_mut().find(|(its, _)| *its == name) {
        Some((_, sum)) => *sum += more,
        None => lost.push((name, more)),
    };
    let messages = |row: &Row| match row.operation.kind {
        Kind::AllReduce(bytes) | Kind::AllToAll(bytes) | Kind::Send(bytes) => Some(bytes),
        _ => None,
    };
    let kernels = step.rows.iter().filter(|row| messages(row).is_none());
    let kernels: f64 = kernels.map(|row| row.operation.count).sum();
    let way = step.start.map_or(String::new(), |start| format!(" {}", start.way));
    for row in &step.rows {
        let more = row.measured.unwrap_or(row.serial).0 - row.serial.0;
        let launches = row.launches.0.min(more);
        add(format!("launches{way}, {kernels:.0}, and what few rows lose"), launches);
        let name = row.operation.name;
        let name = match messages(row) {
            Some(bytes) => {
                let is_alike =
                    |other: &&Row| other.operation.name == name && messages(other) == Some(bytes);
                let alike = step.rows.iter().filter(is_alike);
                let count: f64 = alike.map(|row| row.operation.count).sum();
                let messages = counted(count.round() as usize, "message");
                format!("{name}: {messages} of {}", Bytes(bytes as u64))
            }
            None => name.to_owned(),
        };
        add(name, more - launches);
    }
    lost
}

/// The decode step of one layout at each number of requests at once, by operation.
fn by_concurrency(projection: &Projection, side: &Side, at: &Point) -> HeatMap {
    let points: Vec<_> = side.points.iter().filter(|one| one.layout == at.layout).collect();
    let mut names: Vec<&str> = Vec::new();
    for row in points.iter().flat_map(|point| &point.decode.rows) {
        if !names.contains(&row.operation.name) {
            names.push(row.operation.name);
        }
    }
    let plain_time = |seconds: f64| Heat { value: Cell::Time(Seconds(seconds)), share: None };
    let none = || Heat { value: Cell::Absent, share: None };
    let row = |label: &str, of: &dyn Fn(&Step) -> Heat| HeatRow {
        label: label.into(),
        values: points
            .iter()
            .map(|point| if point.fits() { of(&point.decode) } else { none() })
            .collect(),
    };
    let mut rows = vec![
        row("L0", &|step| plain_time(step.light().0)),
        row("L1", &|step| plain_time(step.serial.0)),
        row("L2", &|step| step.measured.map_or_else(none, |time| plain_time(time.0))),
    ];
    if at.decode.coverage.is_some() {
        rows.push(row("L1 that is measured here", &|step| Heat {
            value: step.coverage.map_or(Cell::Absent, Cell::Share),
            share: None,
        }));
    }
    for name in names {
        rows.push(row(name, &|step| {
            let of_name = step.rows.iter().filter(|row| row.operation.name == name);
            let known = |row: &Row| row.measured.filter(|_| step.measured.is_some());
            let time: f64 = of_name.map(|row| known(row).unwrap_or(row.serial).0).sum();
            let share = time / step.best_known().0.max(f64::MIN_POSITIVE);
            Heat { value: Cell::Time(Seconds(time)), share: Some(share) }
        }));
    }
    HeatMap {
        name: format!("decode_{}", plain(&side.offer.hardware.name)),
        title: format!(
            "A step of decode by requests at once, {}, {}",
            side.offer.hardware.name, at.layout
        ),
        caption: "Each operation in L2 where that of the step is known, else in L1; the shade is \
                  its share of the step. What does not fit has no time."
            .into(),
        corner: "operation".into(),
        columns: projection.demand.concurrency.iter().map(u32::to_string).collect(),
        rows,
    }
}

const SYMPTOMS: &[Column] = &[
    Column { key: "symptom", title: "symptom", weight: Weight::Essential },
    Column { key: "resource", title: "resource", weight: Weight::Essential },
    Column { key: "ceiling_seconds", title: "at its ceiling", weight: Weight::Useful },
    Column { key: "here_seconds", title: "here", weight: Weight::Useful },
    Column { key: "reached_ceiling_share", title: "reaches", weight: Weight::Essential },
    Column { key: "lost_seconds", title: "lost", weight: Weight::Essential },
    Column { key: "share_of_lost", title: "of all lost", weight: Weight::Essential },
    Column { key: "rests_on", title: "by", weight: Weight::Essential },
    Column { key: "measured_here", title: "measured here", weight: Weight::Useful },
    Column { key: "most", title: "most of it in", weight: Weight::Detail },
    Column { key: "look", title: "look at it by", weight: Weight::Detail },
];

/// Which resource is below its ceiling, by the time that it costs, beside what a service shows.
fn symptoms(projection: &Projection, side: &Side, point: &Point) -> Vec<Block> {
    let seen = &projection.demand.seen;
    let decode = Phase {
        name: "TPOT",
        seen: seen.token,
        expected: [point.token.light, point.token.serial, point.token.best_known()],
        step: &point.decode,
        unknown: "an engine's own time between steps, other requests' prompts in the same steps, \
                  and operations that are not projected (sampling, norms)",
    };
    let prefill = Phase {
        name: "TTFT",
        seen: seen.first_token,
        expected: [
            point.first_token.light,
            point.first_token.serial,
            point.first_token.best_known(),
        ],
        step: &point.prefill,
        unknown: "queueing behind other requests, prompts that are read in pieces, a prefix cache \
                  that is missed, and tokenization",
    };
    let mut blocks = Vec::new();
    let mut rows = Vec::new();
    for phase in [decode, prefill] {
        blocks.extend(phase.words().map(Block::Text));
        rows.extend(phase.rows());
    }
    if rows.is_empty() {
        return blocks;
    }
    blocks.push(Block::Table(Table {
        name: format!("symptoms_{}", plain(&side.offer.hardware.name)),
        title: "Symptoms: which resource is below its ceiling, by lost time; what this record \
                measured first, then what others published, then what nothing is known of"
            .into(),
        columns: SYMPTOMS.to_vec(),
        rows,
    }));
    blocks
}

/// A phase with what a service shows of it.
struct Phase<'a> {
    name: &'static str,
    seen: Option<Seconds>,
    /// In L0, in L1, and in the best tier that is known.
    expected: [f64; 3],
    step: &'a Step,
    /// What no tier has in it.
    unknown: &'static str,
}

impl Phase<'_> {
    /// What a service shows beside what is expected.
    fn words(&self) -> Option<String> {
        let seen = self.seen?;
        let [light, serial, known] = self.expected;
        if seen.0 < light {
            return Some(format!(
                "{}: {seen} seen is below the bound of {}: the model, the load or the time is not \
                 what was projected.",
                self.name,
                Seconds(light)
            ));
        }
        let tier = if self.step.measured.is_some() { "L2" } else { "L1" };
        let rest = seen.0 - known;
        let rest = match rest > 0.0 {
            true => format!(
                "{} of it ({:.0} %) is in no resource that is projected: {}",
                Seconds(rest),
                rest / seen.0 * 100.0,
                self.unknown
            ),
            false => "nothing is left beyond what is projected".into(),
        };
        Some(format!(
            "{}: {seen} seen, {} expected in {tier}: {:.2} times as long; L1 is {}. {rest}.",
            self.name,
            Seconds(known),
            seen.0 / known.max(f64::MIN_POSITIVE),
            Seconds(serial)
        ))
    }

    fn rows(&self) -> Vec<Vec<Cell>> {
        let losses = losses(self.step);
        let beyond = self.seen.map(|seen| seen.0 - self.expected[2]).filter(|rest| *rest > 0.0);
        let beyond = beyond.filter(|_| self.step.measured.is_some());
        let all: f64 = losses.iter().map(|loss| loss.lost().0).sum::<f64>() + beyond.unwrap_or(0.0);
        let share = |lost: f64| Cell::Share(lost / all.max(f64::MIN_POSITIVE));
        let symptom = || {
            Cell::Text(match self.seen {
                Some(seen) => format!("{} {seen}", self.name),
                None => self.name.into(),
            })
        };
        let row = |loss: &Loss| {
            let lost = loss.lost();
            let by = match loss.rests_on() {
                Whence::Record => "record",
                Whence::Published => "published",
                Whence::Limits => "not known",
            };
            let is_known = loss.rests_on() != Whence::Limits;
            let known = |cell: Cell| if is_known { cell } else { Cell::Absent };
            let most = loss.most.as_ref();
            let most = most.map(|(name, words)| Cell::Text(format!("{name}: {words}")));
            vec![
                symptom(),
                Cell::Text(loss.resource.name().into()),
                Cell::Time(loss.serial),
                known(Cell::Time(loss.measured)),
                loss.reached().map_or(Cell::Absent, Cell::Share),
                known(Cell::Time(lost)),
                known(share(lost.0)),
                Cell::Text(by.into()),
                Cell::Share(loss.here),
                most.unwrap_or(Cell::Absent),
                Cell::Code(format!("fizeau run {}", loss.resource.selector())),
            ]
        };
        let is_told = |loss: &&Loss| loss.lost().0 > 0.0 || loss.rests_on() == Whence::Limits;
        let mut rows: Vec<_> = losses.iter().filter(is_told).map(row).collect();
        rows.extend(beyond.map(|rest| {
            let mut row = vec![Cell::Absent; SYMPTOMS.len()];
            row[0] = symptom();
            row[1] = Cell::Text("in none of these".into());
            (row[5], row[6]) = (Cell::Time(Seconds(rest)), share(rest));
            row[9] = Cell::Text(self.unknown.into());
            row
        }));
        rows
    }
}

/// What a run should measure to raise the coverage.
fn unmeasured(projection: &Projection, side: &Side, point: &Point) -> Option<String> {
    side.offer.hardware.measured.as_ref()?;
    let of = |step: &Step| {
        let list = missing(step);
        let words = list
            .iter()
            .take(MISSING_SHOWN)
            .map(|one| format!("{}{} (+{:.0} %)", one.name, shape(&one.kind), one.share * 100.0));
        (!list.is_empty()).then(|| words.collect::<Vec<_>>().join(", "))
    };
    let decode = of(&point.decode).map(|words| format!("of decode {words}"));
    let prefill = of(&point.prefill).map(|words| format!("of prefill {words}"));
    let lists: Vec<_> = [decode, prefill].into_iter().flatten().collect();
    if lists.is_empty() {
        return None;
    }
    let demand = &projection.demand;
    let precision = demand.precision.as_ref();
    let precision = precision.map_or(String::new(), |text| format!(" --precision {text}"));
    let prefix = match demand.scenario.prefix {
        0 => String::new(),
        tokens => format!(" --prefix {tokens}"),
    };
    let name = &side.offer.hardware.name;
    Some(format!(
        "Not measured near these shapes, with what each would add to the coverage: {}. To measure \
         them: `fizeau shapes {} --layout {} --isl {} --osl {} --concurrency {}{precision} --kv \
         {}{prefix} --forms fused --out shapes.toml`, then on that machine `fizeau run --suite \
         shapes.toml`, then `fizeau project` with `--on {name}+RECORD`.",
        lists.join("; "),
        demand.model.name,
        point.layout,
        demand.scenario.input,
        demand.scenario.output,
        point.concurrency,
        demand.scenario.kv
    ))
}

fn shape(kind: &Kind) -> String {
    match kind {
        Kind::Gemm([m, n, k]) => format!(" {m:.0}x{n:.0}x{k:.0}"),
        Kind::Grouped([m, n, k, groups]) => format!(" {m:.0}x{n:.0}x{k:.0} for {groups:.0}"),
        Kind::Attention { .. } | Kind::Small => String::new(),
        Kind::AllReduce(bytes) | Kind::AllToAll(bytes) | Kind::Send(bytes) => {
            format!(" {}", Bytes(*bytes as u64))
        }
    }
}
