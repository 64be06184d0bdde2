//! GPUs of one machine beside each other: which one is slow, in what, and by how much.
//!
//! A GPU's rate is given relative to the median of the *other* GPUs of its kind: 0.9 where it does
//! 0.9 of what the median of the others does. Its own rate has no part in what it is compared with.

use super::{
    Block, Ceilings, Cell, Column, Document, Fact, Heat, HeatMap, HeatRow, Table, Weight,
    case_table, headline,
    rank::{DEVIATION_OF_MAD, DEVIATIONS, RANKS_MIN},
    standing::{SLOW, Standing, shade, standings},
    summary, transfer, without_numbers,
};
use fizeau_domain::{
    case::Point,
    outcome::{Measurement, Outcome},
    spec::STUB,
    stats::quantile,
    text::counted,
};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// What one GPU left of a run of several.
#[derive(Clone, Debug)]
pub struct GpuRun {
    /// As `fizeau devices` names it: `cuda:3`.
    pub name: String,
    /// Its record; `None` where it ended before it had one.
    pub record: Option<Record>,
    /// Why it did not end in order; `None` where it did.
    pub failure: Option<String>,
}

/// A rate that GPUs are compared in.
struct Metric {
    name: String,
    /// As it is shown, by GPU; empty for a median over an operation's cases, which has no unit.
    shown: Vec<Cell>,
    /// By GPU; the more, the better.
    rates: Vec<Option<f64>>,
}

/// The report of several GPUs.
pub fn document(runs: &[GpuRun]) -> Document {
    let named: Vec<(&str, &Record)> =
        runs.iter().filter_map(|run| Some((run.name.as_str(), run.record.as_ref()?))).collect();
    let kinds = kinds(runs);
    let facts: Vec<Vec<Fact>> = runs.iter().map(facts_of).collect();
    let by_case = rates_by_case(runs);
    let headlines = headlines(runs, &facts, &by_case);
    let operations = operations(runs, &kinds, &by_case);
    let standings: Vec<(&str, Vec<Option<Standing>>)> = headlines
        .iter()
        .chain(&operations)
        .map(|metric| (metric.name.as_str(), standings(&metric.rates, &kinds)))
        .collect();
    let mut blocks =
        vec![Block::Text(about(runs)), Block::HeatMap(overview(runs, &headlines, &standings))];
    let mut beside: Vec<Block> =
        relative(runs, &standings).map(Block::HeatMap).into_iter().collect();
    beside.extend(times(runs, &kinds, &by_case).map(Block::Table));
    let transfers = transfer::maps(&named).into_iter().map(Block::HeatMap).collect();
    let cases = unmeasured(runs).map(Block::Table).into_iter().collect();
    let sections: [(&str, Vec<Block>); 4] = [
        ("Beside each other", beside),
        ("Transfers", transfers),
        ("Cases without a result", cases),
        ("What reproduces this", vec![Block::Table(records(runs))]),
    ];
    for (title, section) in sections {
        if !section.is_empty() {
            blocks.push(Block::Heading(title.into()));
            blocks.extend(section);
        }
    }
    let first = named.first().map(|(_, record)| *record);
    let title = first.map_or("GPUs side by side".into(), |record| {
        let host = record.header.environment.host.as_ref();
        let host = host.map(|host| format!(" of {host}")).unwrap_or_default();
        format!("{}{host}, side by side", counted(runs.len(), "GPU"))
    });
    let subtitle = first.map(subtitle).unwrap_or_default();
    let mut document = Document { title, subtitle, blocks };
    let is_stub = named.iter().any(|(_, record)| record.header.device.is_stub());
    if is_stub {
        document = without_numbers(document);
    }
    // What is said of one GPU beside others is relative, and marks its own numbers.
    let mark = if is_stub { format!(" ({STUB})") } else { String::new() };
    let verdict = verdict(runs, &kinds, &standings, &mark);
    let heading = |block: &Block| matches!(block, Block::Heading(_));
    let end = document.blocks.iter().position(heading).unwrap_or(document.blocks.len());
    document.blocks.splice(end..end, verdict);
    document
}

/// When, what and by which version; each GPU's run is in the table of records.
fn subtitle(record: &Record) -> String {
    let header = &record.header;
    format!("{}, {}, fizeau {}", summary::suite(record), header.started, header.fizeau)
}

/// Which board a GPU is, as far as its driver tells: `GPU-8f1c2d3e, 0000:1a:00.0`.
fn board(run: &GpuRun) -> Option<String> {
    Some(run.record.as_ref()?.header.environment.board.as_ref()?.words())
}

/// A GPU's name, and which board it is.
fn named(run: &GpuRun) -> String {
    match board(run) {
        Some(board) => format!("{} ({board})", run.name),
        None => run.name.clone(),
    }
}

/// Which GPUs are of one kind, and can be compared: a number for each.
fn kinds(runs: &[GpuRun]) -> Vec<Option<usize>> {
    let kind = |run: &GpuRun| {
        let device = &run.record.as_ref()?.header.device;
        Some((device.name.clone(), device.units))
    };
    let kinds: Vec<_> = runs.iter().map(kind).collect();
    let first = |of: &Option<(String, u32)>| {
        of.as_ref()?;
        kinds.iter().position(|other| other == of)
    };
    kinds.iter().map(first).collect()
}

fn facts_of(run: &GpuRun) -> Vec<Fact> {
    let facts = |record: &Record| headline::facts(record, &Ceilings::of(record));
    run.record.as_ref().map(facts).unwrap_or_default()
}

/// Whether it is a rate or a time: other headlines are not compared.
fn is_rate(cell: &Cell) -> bool {
    matches!(cell, Cell::Bandwidth(_) | Cell::Throughput(_) | Cell::Time(_))
}

/// The headlines of all GPUs, in the order of the first that has them. A headline is the best of
/// several cases, and of another one on another GPU: what is compared is the case that most GPUs
/// have it from.
fn headlines(runs: &[GpuRun], facts: &[Vec<Fact>], by_case: &ByCase) -> Vec<Metric> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for fact in facts.iter().flatten().filter(|fact| is_rate(&fact.value)) {
        if !keys.iter().any(|(key, _)| *key == fact.key) {
            keys.push((&fact.key, &fact.label));
        }
    }
    let metric = |(key, label): (&str, &str)| {
        let of = |facts: &Vec<Fact>| facts.iter().find(|fact| fact.key == key).cloned();
        let its: Vec<Option<Fact>> = facts.iter().map(of).collect();
        let cases = runs.iter().zip(&its).filter_map(|(run, fact)| {
            let case = &fact.as_ref()?.case;
            let outcomes = run.record.iter().flat_map(|record| &record.outcomes);
            let measured = outcomes.filter_map(Outcome::measured);
            measured.into_iter().find(|one| one.case.to_string() == *case).map(key_of)
        });
        let mut counts: BTreeMap<CaseKey, usize> = BTreeMap::new();
        cases.for_each(|case| *counts.entry(case).or_default() += 1);
        let most = counts.iter().max_by_key(|(_, count)| **count).map(|(case, _)| case);
        let rates = most.and_then(|case| by_case.get(case)).cloned();
        let shown = its.into_iter().map(|fact| fact.map_or(Cell::Absent, |fact| fact.value));
        let rates = rates.unwrap_or_else(|| vec![None; runs.len()]);
        Metric { name: label.to_lowercase(), shown: shown.collect(), rates }
    };
    keys.into_iter().map(metric).collect()
}

/// An operation, and a case's name on every GPU.
type CaseKey = (&'static str, String);

/// The rate of each GPU in a case: what it does of it each second.
type ByCase = BTreeMap<CaseKey, Vec<Option<f64>>>;

fn key_of(measurement: &Measurement) -> CaseKey {
    (measurement.case.point.operation(), same_case(measurement))
}

/// What stands for the same case on every GPU: its id, without the numbers of the devices that a
/// copy is between.
fn same_case(measurement: &Measurement) -> String {
    match measurement.case.point {
        Point::Transfer(mut point) => {
            (point.device, point.peer) = (0, point.peer.map(|_| 0));
            format!("transfer/{point}/{}", measurement.case.kernel.0)
        }
        _ => measurement.case.to_string(),
    }
}

/// The rate of each GPU in each case that any of them measured; of copies to several peers the
/// median.
fn rates_by_case(runs: &[GpuRun]) -> ByCase {
    let mut all: BTreeMap<CaseKey, Vec<Vec<f64>>> = BTreeMap::new();
    for (place, run) in runs.iter().enumerate() {
        let outcomes = run.record.iter().flat_map(|record| &record.outcomes);
        for measurement in outcomes.filter_map(Outcome::measured) {
            let by_gpu =
                all.entry(key_of(measurement)).or_insert_with(|| vec![Vec::new(); runs.len()]);
            by_gpu[place].push(1.0 / measurement.summary.median.0);
        }
    }
    let median = |rates: Vec<f64>| (!rates.is_empty()).then(|| quantile::median(&rates));
    all.into_iter().map(|(key, of)| (key, of.into_iter().map(median).collect())).collect()
}

/// Each GPU's rate over the cases of an operation: the median of what each case gives, relative to
/// all GPUs of its kind.
fn operations(runs: &[GpuRun], kinds: &[Option<usize>], by_case: &ByCase) -> Vec<Metric> {
    let mut by_operation: BTreeMap<&'static str, Vec<Vec<f64>>> = BTreeMap::new();
    for ((operation, _), rates) in by_case {
        let of = by_operation.entry(*operation).or_insert_with(|| vec![Vec::new(); runs.len()]);
        for (place, rate) in rates.iter().enumerate() {
            let Some(rate) = rate else { continue };
            let alike = rates.iter().zip(kinds).filter(|(_, kind)| **kind == kinds[place]);
            let alike: Vec<f64> = alike.filter_map(|(rate, _)| *rate).collect();
            of[place].push(rate / quantile::median(&alike));
        }
    }
    let median = |rates: &Vec<f64>| (!rates.is_empty()).then(|| quantile::median(rates));
    let metric = |(operation, by_gpu): (&'static str, Vec<Vec<f64>>)| Metric {
        name: format!("{operation} cases"),
        shown: Vec::new(),
        rates: by_gpu.iter().map(median).collect(),
    };
    by_operation.into_iter().map(metric).collect()
}

type Standings<'m> = [(&'m str, Vec<Option<Standing>>)];

/// The metric in which a GPU is furthest behind the others; one in which it is slow goes first.
fn furthest<'m>(standings: &Standings<'m>, place: usize) -> Option<(&'m str, Standing)> {
    let of = standings.iter().filter_map(|(name, all)| Some((*name, all[place]?)));
    of.min_by(|a, b| {
        let by_slow = b.1.is_slow.cmp(&a.1.is_slow);
        by_slow.then(a.1.relative.total_cmp(&b.1.relative))
    })
}

/// What was measured.
fn about(runs: &[GpuRun]) -> String {
    let mut models: Vec<(String, usize)> = Vec::new();
    for record in runs.iter().filter_map(|run| run.record.as_ref()) {
        let title = summary::title(record);
        match models.iter_mut().find(|(known, _)| *known == title) {
            Some((_, count)) => *count += 1,
            None => models.push((title, 1)),
        }
    }
    let models: Vec<String> =
        models.into_iter().map(|(title, count)| format!("{count} x {title}")).collect();
    let models = if models.is_empty() { "No GPU was measured".into() } else { models.join(", ") };
    format!("{models}.")
}

/// A row for each GPU: how far it is behind in what it is worst at, and its headlines.
fn overview(runs: &[GpuRun], headlines: &[Metric], standings: &Standings<'_>) -> HeatMap {
    let heat = |value| Heat { value, share: None };
    let has_boards = runs.iter().any(|run| board(run).is_some());
    let row = |(place, run): (usize, &GpuRun)| {
        let (verdict, relative) = match (&run.record, furthest(standings, place)) {
            (None, _) => (Cell::Text("no record".into()), Cell::Absent),
            (Some(_), None) => (Cell::Absent, Cell::Absent),
            (Some(_), Some((name, Standing { relative, is_slow }))) => {
                let name = if is_slow { format!("SLOW in {name}") } else { name.to_owned() };
                (Cell::Text(name), Cell::Relative { value: relative, is_stub: false })
            }
        };
        let values = headlines.iter().map(|metric| metric.shown[place].clone());
        let board = has_boards.then(|| board(run).map_or(Cell::Absent, Cell::Code));
        let first = [verdict, relative].into_iter().chain(board);
        let values = first.chain(values).map(heat).collect();
        HeatRow { label: run.name.clone(), values }
    };
    let first = ["furthest behind in", "of the others' median"].into_iter();
    let columns = first.chain(has_boards.then_some("board")).map(str::to_owned);
    HeatMap {
        name: "gpus".into(),
        title: "GPUs side by side".into(),
        caption: "What each GPU is furthest behind the others in, its rate there relative to the \
                  median of the other GPUs, and its headlines."
            .into(),
        corner: "GPU".into(),
        columns: columns.chain(headlines.iter().map(|metric| metric.name.clone())).collect(),
        rows: runs.iter().enumerate().map(row).collect(),
    }
}

/// Each GPU's rate in each metric, relative to the median of the others.
fn relative(runs: &[GpuRun], standings: &Standings<'_>) -> Option<HeatMap> {
    let heat = |standing: Option<Standing>| match standing {
        Some(Standing { relative: value, .. }) => {
            Heat { value: Cell::Relative { value, is_stub: false }, share: Some(shade(value)) }
        }
        None => Heat { value: Cell::Absent, share: None },
    };
    let row = |(place, run): (usize, &GpuRun)| HeatRow {
        label: run.name.clone(),
        values: standings.iter().map(|(_, all)| heat(all[place])).collect(),
    };
    (!standings.is_empty()).then(|| HeatMap {
        name: "gpus_relative".into(),
        title: "Rate of each GPU, relative to the median of the other GPUs".into(),
        caption:
            "Headlines, and the median over the cases of each operation. Of times the rate is \
                  what is done in a second: below 1 is slower. Shades begin at 0.8."
                .into(),
        corner: "GPU".into(),
        columns: standings.iter().map(|(name, _)| (*name).to_owned()).collect(),
        rows: runs.iter().enumerate().map(row).collect(),
    })
}

/// One line for each case and GPU, for machines: people have the map.
fn times(runs: &[GpuRun], kinds: &[Option<usize>], by_case: &ByCase) -> Option<Table> {
    let mut rows = Vec::new();
    for ((_, case), rates) in by_case {
        for ((run, rate), standing) in runs.iter().zip(rates).zip(standings(rates, kinds)) {
            let Some(rate) = rate else { continue };
            let relative = standing
                .map_or(Cell::Absent, |of| Cell::Relative { value: of.relative, is_stub: false });
            rows.push(vec![
                Cell::Code(case.clone()),
                Cell::Code(run.name.clone()),
                Cell::Time(fizeau_domain::units::Seconds(1.0 / rate)),
                relative,
            ]);
        }
    }
    let columns = vec![
        Column::new("case", "case", Weight::Machine),
        Column::new("gpu", "GPU", Weight::Machine),
        Column::new("median_seconds", "median", Weight::Machine),
        Column::new("of_others", "of the others", Weight::Machine),
    ];
    Table::unless_empty("gpu_times", "Each case on each GPU", columns, rows)
}

/// Every case without a result, with its GPU; what was skipped on all GPUs is no news of one.
fn unmeasured(runs: &[GpuRun]) -> Option<Table> {
    let mut tables = runs.iter().filter_map(|run| {
        let table = case_table::unmeasured(run.record.as_ref()?)?;
        Some((run.name.as_str(), table))
    });
    let (name, mut first) = tables.next()?;
    let with_gpu = |name: &str, rows: Vec<Vec<Cell>>| -> Vec<Vec<Cell>> {
        let gpu = Cell::Code(name.to_owned());
        rows.into_iter()
            .map(|mut row| {
                row.insert(1, gpu.clone());
                row
            })
            .collect()
    };
    first.rows = with_gpu(name, first.rows);
    first.columns.insert(1, Column::new("gpu", "GPU", Weight::Essential));
    for (name, table) in tables {
        first.rows.extend(with_gpu(name, table.rows));
    }
    Some(first)
}

/// Which record is whose.
fn records(runs: &[GpuRun]) -> Table {
    let row = |run: &GpuRun| {
        let of = |text: fn(&Record) -> String| {
            run.record.as_ref().map_or(Cell::Absent, |record| Cell::Code(text(record)))
        };
        vec![
            Cell::Code(run.name.clone()),
            board(run).map_or(Cell::Absent, Cell::Code),
            of(|record| record.header.device.name.clone()),
            of(|record| record.header.run.clone()),
            of(|record| record.header.command.join(" ")),
        ]
    };
    let columns = vec![
        Column::new("gpu", "GPU", Weight::Essential),
        Column::new("board", "board", Weight::Useful),
        Column::new("device", "device", Weight::Useful),
        Column::new("run", "run", Weight::Essential),
        Column::new("command", "command", Weight::Useful),
    ];
    Table::new("records", "Records", columns, runs.iter().map(row))
}

/// Which GPUs are slow, which left no result, and how that was told.
fn verdict(
    runs: &[GpuRun],
    kinds: &[Option<usize>],
    standings: &Standings<'_>,
    mark: &str,
) -> Vec<Block> {
    let mut blocks: Vec<Block> = troubles(runs).into_iter().map(Block::Failure).collect();
    let mut is_any_slow = false;
    for (place, run) in runs.iter().enumerate() {
        let mut slow: Vec<(&str, f64)> = standings
            .iter()
            .filter_map(|(name, all)| Some((*name, all[place]?)))
            .filter(|(_, standing)| standing.is_slow)
            .map(|(name, standing)| (name, standing.relative))
            .collect();
        slow.sort_by(|a, b| a.1.total_cmp(&b.1));
        if slow.is_empty() {
            continue;
        }
        is_any_slow = true;
        let words = |(name, relative): &(&str, f64)| {
            format!("{name} {:.1} % below{mark}", (1.0 - relative) * 100.0)
        };
        let most: Vec<String> = slow.iter().take(SAID_MAX).map(words).collect();
        let more = slow.len().saturating_sub(SAID_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        blocks.push(Block::Warning(format!(
            "{} is slow beside the other GPUs: {}{more} (of the median of the others).",
            named(run),
            most.join(", ")
        )));
    }
    let most = kinds
        .iter()
        .flatten()
        .map(|kind| kinds.iter().flatten().filter(|other| *other == kind).count());
    let most = most.max().unwrap_or(0);
    if most < RANKS_MIN {
        let why = "Fewer than three GPUs of one kind were measured: which of them is slow cannot \
                   be told.";
        blocks.push(Block::Text(why.into()));
    } else if !is_any_slow {
        let all = (0..runs.len()).filter_map(|place| Some((place, furthest(standings, place)?)));
        let last = all.min_by(|a, b| a.1.1.relative.total_cmp(&b.1.1.relative));
        blocks.extend(last.map(|(place, (name, standing))| {
            Block::Text(format!(
                "No GPU is slow beside the others. The furthest behind is {}: {name} {:.1} % \
                 below{mark} the median of the others.",
                named(&runs[place]),
                (1.0 - standing.relative).max(0.0) * 100.0
            ))
        }));
    }
    blocks.push(Block::Text(how()));
    blocks
}

/// Metrics of one GPU that a sentence names.
const SAID_MAX: usize = 3;

/// The rule, and what was measured at once.
fn how() -> String {
    format!(
        "A GPU is slow where its rate is more than {:.0} % below the median of the other GPUs of \
         its kind, and further below than {DEVIATIONS} robust standard deviations of theirs \
         ({DEVIATION_OF_MAD} x MAD). Each GPU measured its own memory and arithmetic while the \
         others did the same; links and launches, which GPUs share, were measured on one GPU \
         after another.",
        (1.0 - SLOW) * 100.0
    )
}

/// What went wrong, each with the GPUs that it did on.
fn troubles(runs: &[GpuRun]) -> Vec<String> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for run in runs {
        let Some(what) = trouble(run) else { continue };
        match all.iter_mut().find(|(known, _)| *known == what) {
            Some((_, names)) => names.push(&run.name),
            None => all.push((what, vec![&run.name])),
        }
    }
    all.into_iter().map(|(what, names)| format!("{}: {what}", names.join(", "))).collect()
}

/// What a GPU did not bring to its end.
fn trouble(run: &GpuRun) -> Option<String> {
    let why = run.failure.as_ref().and_then(|why| why.lines().last());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let Some(record) = &run.record else {
        return Some(format!("it left no record{why}."));
    };
    let missing = case_table::missing(record).len();
    if missing > 0 || record.footer.is_none() {
        let planned = record.header.plan.len();
        let kept = planned - missing;
        return Some(format!("it ended early, with {kept} of {planned} cases{why}."));
    }
    let broken = record
        .outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Failed { .. } | Outcome::Invalid { .. }));
    let broken = broken.count();
    let cases = counted(broken, "case");
    (broken > 0).then(|| format!("{cases} FAILED or gave a time that cannot be believed."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_with_the_same_trouble_are_named_together() {
        let run = |name: &str, failure: Option<&str>| GpuRun {
            name: name.into(),
            record: None,
            failure: failure.map(str::to_owned),
        };
        let runs = [run("cuda:0", None), run("cuda:1", Some("a\nlost")), run("cuda:2", None)];
        let told = ["cuda:0, cuda:2: it left no record.", "cuda:1: it left no record: lost."];
        assert_eq!(troubles(&runs), told);
    }
}
