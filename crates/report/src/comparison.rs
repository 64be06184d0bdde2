//! The report of a comparison of two runs.

use super::{
    Axis, Block, Cell, Chart, Column, Document, Fact, PlottedCase, Quantity, Series, SeriesKind,
    Table, Weight,
};
use fizeau_domain::{
    text::{agreed, counted},
    verdict::Verdict,
};
use fizeau_judge::compare::{ComparedCase, Comparison, Fate, Group, RunSummary, judge::Direction};
use std::collections::BTreeMap;

const COLUMNS: &[Column] = &[
    Column { key: "case", title: "case", weight: Weight::Essential },
    Column { key: "verdict", title: "B is", weight: Weight::Essential },
    Column { key: "ratio", title: "B / A", weight: Weight::Essential },
    Column { key: "ratio_low", title: "95 % from", weight: Weight::Useful },
    Column { key: "ratio_high", title: "to", weight: Weight::Useful },
    Column { key: "before_seconds", title: "A", weight: Weight::Useful },
    Column { key: "after_seconds", title: "B", weight: Weight::Useful },
    Column { key: "note", title: "note", weight: Weight::Detail },
];

/// What records say beside each other, in reading order: how many cases changed, which groups
/// changed together, why cases cannot be judged, which cases changed, and all the others.
pub fn document(comparison: &Comparison) -> Document {
    let mut blocks = vec![Block::Text(outcome(comparison)), Block::Facts(facts(comparison))];
    blocks.extend(comparison.groups.iter().map(|one| Block::Text(group(one))));
    blocks.extend(comparison.warnings.iter().cloned().map(Block::Warning));
    blocks.push(Block::Text(method(comparison)));
    blocks.extend(chart(comparison).map(Block::Chart));
    blocks.extend(reasons(comparison).into_iter().map(Block::Note));
    let mut rows: Vec<&ComparedCase> = comparison.rows.iter().collect();
    // Worst first: by fate, then by how much slower.
    let slowness = |row: &ComparedCase| row.change.map_or(0.0, |change| -change.ratio);
    rows.sort_by(|a, b| a.fate.cmp(&b.fate).then(slowness(a).total_cmp(&slowness(b))));
    let (unpaired, paired): (Vec<&ComparedCase>, Vec<&ComparedCase>) =
        rows.into_iter().partition(|row| is_unpaired(row));
    let (same, other): (Vec<&ComparedCase>, Vec<&ComparedCase>) =
        paired.into_iter().partition(|row| row.fate == Fate::Same);
    blocks.extend(table("changed", "Cases that are not the same", COLUMNS, &other));
    blocks.extend(table("same", "Cases that are the same", COLUMNS, &same));
    blocks.extend(unpaired_kinds(&unpaired).map(Block::Table));
    blocks.extend(table("unpaired", "Cases without a pair", &for_programs(), &unpaired));
    let device = comparison.after.first().map_or("", |side| &side.device);
    Document {
        title: format!("B against A on {device}"),
        subtitle: format!("A: {}. B: {}.", side(&comparison.before), side(&comparison.after)),
        blocks,
    }
}

/// Comparisons of several GPUs, each under its name; of one comparison without a name, its own
/// document.
///
/// # Panics
/// Where there is no comparison.
pub fn comparisons(all: &[(Option<String>, Comparison)]) -> Document {
    if let [(None, comparison)] = all {
        return document(comparison);
    }
    let mut blocks = Vec::new();
    for (gpu, comparison) in all {
        let gpu = gpu.as_deref().unwrap_or_default();
        blocks.push(Block::Heading(format!("{gpu}: {}", comparison.verdict())));
        blocks.extend(document(comparison).blocks.into_iter().map(|block| of_gpu(block, gpu)));
    }
    let verdict = Verdict::on_all(all.iter().map(|(_, one)| one.verdict()));
    let first = document(&all[0].1);
    Document {
        title: format!("B against A on {}: {verdict}", counted(all.len(), "GPU")),
        subtitle: first.subtitle,
        blocks,
    }
}

/// A block with the GPU in the names that are to be told apart.
fn of_gpu(mut block: Block, gpu: &str) -> Block {
    let named = |name: &mut String| *name = format!("{gpu} {name}");
    match &mut block {
        Block::Heading(_)
        | Block::Text(_)
        | Block::Warning(_)
        | Block::Note(_)
        | Block::Failure(_) => {}
        Block::Facts(facts) => facts.iter_mut().for_each(|fact| named(&mut fact.key)),
        Block::Table(table) => named(&mut table.name),
        Block::HeatMap(map) => named(&mut map.name),
        Block::Chart(chart) => named(&mut chart.name),
        Block::Listing(listing) => named(&mut listing.name),
    }
    block
}

fn side(runs: &[RunSummary]) -> String {
    let named = |run: &RunSummary| {
        let label = run.label.iter().map(|label| format!(" {label:?}"));
        let place = run.place.iter().map(|place| format!(" in {place}"));
        let names: String = label.chain(place).collect();
        format!("{}{names} of {}", run.run, run.started)
    };
    let all: Vec<String> = runs.iter().map(named).collect();
    let word = if runs.len() == 1 { "run" } else { "runs" };
    let of = runs.first().map(|run| format!(", suite {}, fizeau {}", run.suite, run.fizeau));
    format!("{word} {}{}", all.join(", "), of.unwrap_or_default())
}

fn cases(count: usize) -> String {
    counted(count, "case")
}

/// The first sentence: whether anything got worse.
fn outcome(comparison: &Comparison) -> String {
    let counts: Vec<_> = Fate::ALL
        .into_iter()
        .map(|fate| (comparison.count(fate), fate))
        .filter(|(count, _)| *count > 0)
        .map(|(count, fate)| match fate {
            Fate::Differs => format!("{count} {}", agreed(count, "differs", "differ")),
            fate => format!("{count} {fate}"),
        })
        .collect();
    let groups: Vec<&str> = comparison.slower_groups().map(|one| one.name.as_str()).collect();
    let is_in_one = |row: &ComparedCase| matches!(row.fate, Fate::OnlyBefore | Fate::OnlyAfter);
    let found = match (comparison.regressions(), comparison.longer()) {
        _ if is_same_run(comparison) => {
            "A and B are the same run, so that nothing can have changed".to_owned()
        }
        _ if comparison.rows.iter().all(is_in_one) => {
            "Nothing to compare: no case is in both A and B".to_owned()
        }
        (0, _) if !groups.is_empty() => format!("{} got slower as a whole", groups.join(", ")),
        (0, 0) if comparison.verdict() == Verdict::Inconclusive => {
            "Cannot tell whether a case got worse".to_owned()
        }
        (0, 0) if comparison.count(Fate::Waived) > 0 => "Only waived cases got worse".to_owned(),
        (0, 0) => "No case got worse".to_owned(),
        (0, longer) => {
            let shorter = comparison.count(Fate::Differs).saturating_sub(longer);
            let shorter = match shorter {
                0 => String::new(),
                _ => format!(", {shorter} less time"),
            };
            format!(
                "Undecided: {} took more time{shorter}, which can be chance with so few runs (take \
                 three runs of each: `fizeau compare A1 A2 A3 --vs B1 B2 B3`)",
                cases(longer)
            )
        }
        (worse, _) => format!("{} got worse", cases(worse)),
    };
    format!("{found}: of {}, {}.", cases(comparison.rows.len()), counts.join(", "))
}

/// Whether one run was given as both sides.
fn is_same_run(comparison: &Comparison) -> bool {
    matches!((&comparison.before[..], &comparison.after[..]), ([a], [b]) if a.run == b.run)
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// A group of cases in a line: "stream/*: median time +20.0 %, 69 of 69 cases changed".
pub fn group(group: &Group) -> String {
    let (name, changed) = (&group.name, group.changed);
    let name = if name == "*" { "all cases" } else { name };
    let together = match group.way {
        Direction::Slower => "; slower as a whole",
        Direction::Faster => "; faster as a whole",
        _ => "",
    };
    let ratio = percent(group.ratio);
    format!("{name}: median time {ratio}, {changed} of {} cases changed{together}.", group.cases)
}

fn method(comparison: &Comparison) -> String {
    let threshold = comparison.threshold * 100.0;
    let rate = comparison.false_discoveries * 100.0;
    let judged = match comparison.scatter {
        Some(scatter) => format!(
            "A case counts as slower or faster when its runs leave no doubt that it changed by \
             more than {threshold:.1} %, at a false discovery rate of {rate:.0} % over all cases, \
             and the same runs divided otherwise do not; the runs of a case scatter by {:.2} % in \
             the median.",
            scatter * 100.0
        ),
        None => format!(
            "Single runs do not tell how much runs differ by themselves. A case that changed by \
             more than {threshold:.1} % \"differs\"; it counts as slower or faster only if its \
             change is beyond anything that the other cases' drift explains."
        ),
    };
    let interval = match comparison.scatter {
        Some(_) => "which the scatter of the runs gives",
        None => "which the samples within the two runs give: runs by themselves differ by more",
    };
    format!(
        "B / A is the ratio of median times: above one is slower. \"95 % from .. to\" is the \
         interval that holds this ratio with a confidence of 95 %, {interval}. {judged}"
    )
}

/// Reasons, with how many cases have each; in words that every width has room for.
fn reasons(comparison: &Comparison) -> Vec<String> {
    let mut by_reason: BTreeMap<(Fate, String), Vec<&ComparedCase>> = BTreeMap::new();
    for row in &comparison.rows {
        let Some(note) = &row.note else { continue };
        // What differs from case to case is in the table.
        let kind = match note.split_once([':', ';']) {
            _ if note.starts_with("anything from") => "the runs leave more than the threshold open",
            Some((kind, _)) if note.starts_with("disturbed") => kind,
            _ => note,
        };
        by_reason.entry((row.fate, kind.to_owned())).or_default().push(row);
    }
    let line = |((fate, reason), rows): ((Fate, String), Vec<&ComparedCase>)| {
        let which = match rows[..] {
            [one] => one.case.to_string(),
            _ => cases(rows.len()),
        };
        format!("{fate}, {which}: {reason}.")
    };
    by_reason.into_iter().map(line).collect()
}

fn facts(comparison: &Comparison) -> Vec<Fact> {
    Fate::ALL
        .into_iter()
        .map(|fate| (fate, comparison.count(fate)))
        .filter(|(_, count)| *count > 0)
        .map(|(fate, count)| {
            let key = fate.to_string().replace(' ', "_").to_lowercase();
            Fact::new(key, fate.to_string(), Cell::Count(count as u64))
        })
        .collect()
}

fn table(name: &str, title: &str, columns: &[Column], rows: &[&ComparedCase]) -> Option<Block> {
    Table::unless_empty(name, title, columns, rows.iter().map(|row| cells(row))).map(Block::Table)
}

/// Whether there is nothing to compare: one of the runs did not plan or not measure the case.
fn is_unpaired(row: &ComparedCase) -> bool {
    matches!(row.fate, Fate::NotMeasured | Fate::OnlyBefore | Fate::OnlyAfter)
}

/// The columns of cases, for CSV and JSON alone.
fn for_programs() -> Vec<Column> {
    COLUMNS.iter().map(|column| Column { weight: Weight::Machine, ..column.clone() }).collect()
}

/// Lines of cases that one run alone has, at most.
const KINDS_MAX: usize = 12;

/// Cases without a pair, counted by selectors: as fine ones as a screen has room for.
fn unpaired_kinds(rows: &[&ComparedCase]) -> Option<Table> {
    let kinds_by = |beginning: usize, with_kernel: bool| {
        let mut kinds: BTreeMap<(Fate, String), u64> = BTreeMap::new();
        for row in rows {
            let kind = kind_of(&row.case.to_string(), beginning, with_kernel);
            *kinds.entry((row.fate, kind)).or_default() += 1;
        }
        kinds
    };
    let finest_first = [(2, true), (1, true), (2, false), (1, false)];
    let all = finest_first.map(|(beginning, with_kernel)| kinds_by(beginning, with_kernel));
    let [.., coarsest] = &all;
    let kinds = all.iter().find(|kinds| kinds.len() <= KINDS_MAX).unwrap_or(coarsest);
    let row = |((fate, kind), count): (&(Fate, String), &u64)| {
        vec![Cell::Text(fate.to_string()), Cell::Code(kind.clone()), Cell::Count(*count)]
    };
    let columns = [
        Column { key: "verdict", title: "B is", weight: Weight::Essential },
        Column { key: "selector", title: "cases", weight: Weight::Essential },
        Column { key: "count", title: "of them", weight: Weight::Essential },
    ];
    let title = "Cases without a pair (each is in --format csv and json)";
    Table::unless_empty("unpaired_kinds", title, &columns, kinds.iter().map(row))
}

/// The selector of cases like one: its id's beginning and, where that is asked for, its kernel.
fn kind_of(id: &str, beginning: usize, with_kernel: bool) -> String {
    let parts: Vec<&str> = id.split('/').collect();
    let Some((kernel, before)) = parts.split_last() else { return id.to_owned() };
    // Of latency/4KiB/chase the second part is a size: it is no kind.
    let beginning = if before.len() > 2 { beginning } else { 1 };
    let start = before[..beginning.min(before.len())].join("/");
    if with_kernel { format!("{start}/*/{kernel}") } else { start }
}

fn relative(value: f64) -> Cell {
    Cell::Relative { value, is_stub: false }
}

fn cells(row: &ComparedCase) -> Vec<Cell> {
    let way = match (row.fate, row.change) {
        (Fate::Differs, Some(change)) if change.ratio > 1.0 => ", longer",
        (Fate::Differs, Some(_)) => ", shorter",
        _ => "",
    };
    let fate = Cell::Text(format!("{}{way}", row.fate));
    let mut cells = vec![Cell::Code(row.case.to_string()), fate];
    cells.extend(match row.change {
        Some(change) => [
            relative(change.ratio),
            relative(change.low),
            relative(change.high),
            Cell::Time(change.before),
            Cell::Time(change.after),
        ],
        None => [const { Cell::Absent }; 5],
    });
    cells.push(row.note.clone().map_or(Cell::Absent, Cell::Text));
    cells
}

/// Every ratio from the smallest to the largest, by fate, between the two limits.
fn chart(comparison: &Comparison) -> Option<Chart> {
    let mut ratios: Vec<_> = comparison
        .rows
        .iter()
        .filter_map(|row| Some((row.change?.ratio, row.fate, row.case.to_string())))
        .filter(|(ratio, ..)| ratio.is_finite() && *ratio > 0.0)
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let last = ratios.len() as f64;
    let limit = |name: String, ratio| {
        Series::new(name, SeriesKind::Limit, vec![(1.0, ratio), (last.max(2.0), ratio)])
    };
    let threshold = 1.0 + comparison.threshold;
    let percent = comparison.threshold * 100.0;
    let mut series = vec![
        limit(format!("{percent:.1} % slower"), threshold),
        limit("equal".into(), 1.0),
        limit(format!("{percent:.1} % faster"), 1.0 / threshold),
    ];
    for fate in [Fate::Same, Fate::Slower, Fate::Differs, Fate::Faster, Fate::Waived, Fate::Unclear]
    {
        let of_fate = ratios.iter().enumerate().filter(|(_, (_, of, _))| *of == fate);
        let point = |(place, (ratio, _, id)): (usize, &(f64, Fate, String))| {
            let case = PlottedCase { id: id.clone(), share: None };
            ((place as f64 + 1.0, *ratio), case)
        };
        let (points, cases): (Vec<_>, Vec<_>) = of_fate.map(point).unzip();
        if !points.is_empty() {
            series.push(Series { name: fate.to_string(), kind: SeriesKind::Points, points, cases });
        }
    }
    (!ratios.is_empty()).then(|| Chart {
        name: "ratios".into(),
        title: "Ratio of times, from the fastest case to the slowest".into(),
        caption: "Each point is a case that both sides measured.".into(),
        x: Axis::linear("cases", Quantity::Count),
        y: Axis::logarithmic("time of B / time of A", Quantity::Ratio),
        series,
        marks: Vec::new(),
    })
}
