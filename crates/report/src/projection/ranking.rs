//! Where to run on each hardware, and which of several is cheapest: by one tier that all have.

use super::{rate, tier, why_none};
use crate::{Block, Cell, Column, Table, Weight};
use fizeau_domain::{text::counted, units::Seconds};
use fizeau_projection::project::{
    By, Point, Projection, Rests, Side, Slo, sweep::operating_point, tier::common,
};

const COLUMNS: &[Column] = &[
    Column { key: "rank", title: "rank", weight: Weight::Essential },
    Column { key: "on", title: "on", weight: Weight::Essential },
    Column { key: "basis", title: "by", weight: Weight::Essential },
    Column { key: "layout", title: "layout", weight: Weight::Essential },
    Column { key: "concurrency", title: "at once", weight: Weight::Essential },
    Column { key: "dollars_per_million", title: "$ / 10^6", weight: Weight::Essential },
    Column { key: "gpu_output_tokens_per_second", title: "a GPU", weight: Weight::Essential },
    Column { key: "joules_per_token", title: "J / token", weight: Weight::Useful },
    Column { key: "ttft_seconds", title: "TTFT", weight: Weight::Useful },
    Column { key: "tpot_seconds", title: "TPOT", weight: Weight::Useful },
    Column { key: "next", title: "next step", weight: Weight::Detail },
    Column { key: "best_known_rests_on", title: "best known", weight: Weight::Machine },
    Column {
        key: "best_known_gpu_output_tokens_per_second",
        title: "a GPU by that",
        weight: Weight::Machine,
    },
];

/// Sides, each with its point to run at.
type Sides<'p> = Vec<(&'p Side, Option<&'p Point>)>;

/// Where to run on each hardware.
struct Ranking<'p> {
    /// The tier of every number; none of a ranking where no tier means the same of all, so that
    /// each side has its best known one.
    by: Option<By>,
    /// The cheapest first: by dollars where all have a price, else by output tokens of a device.
    /// In the order given where nothing ranks them.
    sides: Sides<'p>,
}

/// The tier of every number of several hardwares; none where no tier means the same of all.
pub fn common_tier(projection: &Projection) -> Option<By> {
    Ranking::of(projection).by
}

impl<'p> Ranking<'p> {
    fn of(projection: &'p Projection) -> Ranking<'p> {
        let demand = &projection.demand;
        let output = demand.scenario.output;
        let at = |by: By| -> Sides<'p> {
            let point = |side: &'p Side| (side, side.operating_point_by(demand, by));
            projection.sides.iter().map(point).collect()
        };
        let best = at(By::BestKnown);
        let by = common(best.iter().filter_map(|(side, point)| {
            Some((&side.offer.hardware, Rests::of_point((*point)?, output)))
        }));
        let mut sides = match by {
            Some(By::Serial) => at(By::Serial),
            Some(By::BestKnown) | None => best,
        };
        let Some(tier) = by else { return Ranking { by, sides } };
        let has_prices = projection.sides.iter().all(|side| side.offer.price.is_some());
        let key = |(side, point): &(&Side, Option<&Point>)| {
            let Some(point) = *point else { return f64::INFINITY };
            let cost = side.cost(point, output, tier).filter(|_| has_prices);
            cost.unwrap_or(1.0 / rate(point, output, tier))
        };
        sides.sort_by(|one, other| key(one).total_cmp(&key(other)));
        Ranking { by, sides }
    }

    fn tier(&self) -> By {
        self.by.unwrap_or(By::BestKnown)
    }

    /// Why the numbers are not of the best tier of each, or why nothing is ranked.
    fn why(&self, projection: &Projection) -> Option<String> {
        let output = projection.demand.scenario.output;
        let each = projection.sides.iter().filter_map(|side| {
            let point = side.operating_point(&projection.demand)?;
            let rests = Rests::of_point(point, output).describe();
            Some(format!("{} {rests}", side.offer.hardware.name))
        });
        let each = each.collect::<Vec<_>>().join("; ");
        match self.by {
            Some(By::BestKnown) => None,
            Some(By::Serial) => Some(format!(
                "The machines are compared by L1, the best tier known for all of them. Their L2 \
                 rest on different sources ({each}), and a tier that rests on measurements looks \
                 slower than one that rests on limits. Limits of time (--slo) are checked against \
                 L1 too, which is optimistic."
            )),
            None => Some(
                "The machines are not ranked: some have a datasheet's limits and others the best \
                 rates of a record, so that no tier means the same for all of them."
                    .into(),
            ),
        }
    }
}

/// Layouts of one hardware whose figures rest on different things: the point to run at is the
/// fastest by the best tier that is known, so that the least measured one is favoured.
fn unlike_layouts(projection: &Projection, side: &Side) -> Option<String> {
    let output = projection.demand.scenario.output;
    let of_layout = projection.demand.concurrency.len().max(1);
    let best = |points| operating_point(points, &Slo::default(), output, By::BestKnown);
    let best: Vec<&Point> = side.points.chunks(of_layout).filter_map(best).collect();
    let rests = |point: &&Point| (&side.offer.hardware, Rests::of_point(point, output));
    if common(best.iter().map(rests)) == Some(By::BestKnown) {
        return None;
    }
    let each = best.iter().map(|point| {
        let rests = Rests::of_point(point, output).describe();
        format!("{} {rests}", point.layout)
    });
    Some(format!(
        "{}: its layouts rest on different sources ({}), and the less of a layout is measured, \
         the faster it looks: compare them by L1, or measure what is missing.",
        side.offer.hardware.name,
        each.collect::<Vec<_>>().join("; ")
    ))
}

/// Where to run, in words and, where there are several, as a table.
pub fn blocks(projection: &Projection) -> Vec<Block> {
    let ranking = Ranking::of(projection);
    let unlike = projection.sides.iter().filter_map(|side| unlike_layouts(projection, side));
    let warnings = ranking.why(projection).into_iter().chain(unlike);
    let lead = fastest(projection, &ranking).into_iter();
    let mut blocks: Vec<Block> = lead.chain(words(projection, &ranking)).map(Block::Text).collect();
    blocks.extend(warnings.map(Block::Warning));
    if projection.sides.len() > 1 {
        blocks.push(Block::Table(table(projection, &ranking)));
    }
    blocks
}

/// Which of several machines is the fastest, and by how much; none where nothing ranks them.
fn fastest(projection: &Projection, ranking: &Ranking<'_>) -> Option<String> {
    /// Rates whose ratio is within this of one are said to be equal, as two decimals show them.
    const EQUAL: f64 = 0.005;
    let by = ranking.by?;
    let output = projection.demand.scenario.output;
    let rated = ranking.sides.iter().filter_map(|(side, point)| {
        Some((side.offer.hardware.name.as_str(), rate((*point)?, output, by)))
    });
    let mut rated: Vec<(&str, f64)> = rated.collect();
    rated.sort_by(|one, other| other.1.total_cmp(&one.1));
    let ((name, most), others) = rated.split_first()?;
    let each = others.iter().map(|(other, rate)| match most / rate - 1.0 {
        more if more <= EQUAL => format!("as fast as {other} ({rate:.0})"),
        more => format!("{:.2} times as fast as {other} ({rate:.0})", more + 1.0),
    });
    let each = each.collect::<Vec<_>>().join(" and ");
    let tier = if by == By::Serial { ", by L1" } else { "" };
    (!others.is_empty()).then(|| {
        format!(
            "{name} is {each}: {most:.0} output tokens/s of a GPU with prefill, each at its best \
             operating point{tier}."
        )
    })
}

/// The limits that are asked for, in words: `TTFT 1 s, TPOT 20 ms`.
fn kept(slo: &Slo) -> String {
    let all = [("TTFT", slo.first_token), ("TPOT", slo.token), ("E2EL", slo.end_to_end)];
    let word = |(name, most): (&str, Option<Seconds>)| Some(format!("{name} {}", most?));
    all.into_iter().filter_map(word).collect::<Vec<_>>().join(", ")
}

/// Where to run, and what comes after it, in words.
fn words(projection: &Projection, ranking: &Ranking<'_>) -> Vec<String> {
    let output = projection.demand.scenario.output;
    let by = ranking.tier();
    let sentences = ranking.sides.iter().map(|(side, point)| match point {
        None => format!("{}: {}.", side.offer.hardware.name, why_none(side)),
        Some(point) => {
            let cost = side.cost(point, output, by);
            let cost = cost.map_or(String::new(), |cost| format!(", {cost:.3} $ a million tokens"));
            let slo = match kept(&projection.demand.slo) {
                limits if limits.is_empty() => String::new(),
                limits => format!(", within {limits}"),
            };
            format!(
                "{}: run {} with {} at once: {:.1} tokens/s for each, {:.0} output tokens/s of \
                 {} with prefill{slo}{cost} ({}).{}",
                side.offer.hardware.name,
                point.layout,
                counted(point.concurrency as usize, "request"),
                1.0 / point.token.by(by),
                rate(point, output, by) * point.devices(),
                counted(point.devices() as usize, "GPU"),
                tier(point, output, by),
                next(side, point, output, by).map_or(String::new(), |next| format!(" {next}."))
            )
        }
    });
    sentences.collect()
}

/// What the next number of requests would bring.
fn next(side: &Side, at: &Point, output: u32, by: By) -> Option<String> {
    let more = side
        .points
        .iter()
        .filter(|point| point.layout == at.layout && point.concurrency > at.concurrency)
        .min_by_key(|point| point.concurrency)?;
    if !more.fits() {
        return Some(format!("{} do not fit", more.concurrency));
    }
    // Of both points the same tier.
    let is_unlike = more.token.measured.is_some() != at.token.measured.is_some();
    let (by, tier) = if is_unlike { (By::Serial, " by L1") } else { (by, "") };
    let gain = (rate(more, output, by) / rate(at, output, by) - 1.0) * 100.0;
    let wait = (more.token.by(by) / at.token.by(by) - 1.0) * 100.0;
    Some(format!("{} would give {gain:+.0} % at {wait:+.0} % TPOT{tier}", more.concurrency))
}

/// Several parts for one model under one SLO.
fn table(projection: &Projection, ranking: &Ranking<'_>) -> Table {
    let output = projection.demand.scenario.output;
    let by = ranking.tier();
    let number = |number: Option<f64>, unit: &'static str| {
        number.map_or(Cell::Absent, |number| Cell::Number(number, unit))
    };
    let row = |(at, (side, point)): (usize, &(&Side, Option<&Point>))| {
        let on = Cell::Text(side.offer.hardware.name.clone());
        let Some(point) = point else {
            let mut row = vec![Cell::Absent; COLUMNS.len()];
            (row[1], row[10]) = (on, Cell::Text(why_none(side).into()));
            return row;
        };
        let rests = Rests::of_point(point, output);
        vec![
            ranking.by.map_or(Cell::Absent, |_| Cell::Count(at as u64 + 1)),
            on,
            Cell::Text(match by {
                By::BestKnown => rests.brief(),
                By::Serial => "L1".into(),
            }),
            Cell::Text(point.layout.to_string()),
            Cell::Count(u64::from(point.concurrency)),
            number(side.cost(point, output, by), "$"),
            Cell::Number(rate(point, output, by), "tok/s"),
            number(side.energy(point, output, by), "J"),
            Cell::Time(Seconds(point.first_token.by(by))),
            Cell::Time(Seconds(point.token.by(by))),
            next(side, point, output, by).map_or(Cell::Absent, Cell::Text),
            Cell::Text(rests.describe()),
            Cell::Number(rate(point, output, By::BestKnown), "tok/s"),
        ]
    };
    let mut columns = COLUMNS.to_vec();
    if projection.sides.iter().all(|side| side.offer.price.is_none()) {
        columns[5].weight = Weight::Machine;
    }
    if ranking.by.is_none() {
        columns[0].weight = Weight::Machine;
    }
    if ranking.by == Some(By::Serial) {
        (columns[11].weight, columns[12].weight) = (Weight::Detail, Weight::Detail);
    }
    let title = match ranking.by {
        Some(_) => {
            "Best operating point of each machine, cheapest first (without prices: most \
                        output tokens per device)"
        }
        None => "Best operating point of each machine, in the order given (not ranked)",
    };
    Table::new("ranking", title, columns, ranking.sides.iter().enumerate().map(row))
}
