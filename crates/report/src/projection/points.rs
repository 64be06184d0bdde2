//! Points by layout and requests at once: tables, fronts, heat and decay.

use super::{columns, plain, ranking::common_tier, rate};
use crate::{
    Axis, Block, Cell, Chart, Column, Heat, HeatMap, HeatRow, Quantity, Series, SeriesKind, Table,
    Weight,
};
use fizeau_domain::units::Seconds;
use fizeau_projection::project::{By, Demand, Point, Projection, Rests, Side, Slo, Step, Tiers};

/// The heading above the points, and the name of their table.
pub const HEADING: &str = "Layouts and requests at once";
pub const TABLE: &str = "points";

/// What the last column, "front", says of a point that does not fit into memory.
pub const DOES_NOT_FIT: &str = "does not fit";

/// The columns of points, of the command line's and of what could be otherwise.
pub const POINTS: &[Column] = &[
    Column { key: "what_if", title: "what if", weight: Weight::Machine },
    Column { key: "on", title: "on", weight: Weight::Detail },
    Column { key: "layout", title: "layout", weight: Weight::Essential },
    Column { key: "concurrency", title: "at once", weight: Weight::Essential },
    Column { key: "fits", title: "fits", weight: Weight::Useful },
    Column { key: "tpot_light_seconds", title: "TPOT L0", weight: Weight::Essential },
    Column { key: "tpot_serial_seconds", title: "L1", weight: Weight::Essential },
    Column { key: "tpot_measured_seconds", title: "L2", weight: Weight::Essential },
    Column { key: "ttft_light_seconds", title: "TTFT L0", weight: Weight::Machine },
    Column { key: "ttft_serial_seconds", title: "TTFT L1", weight: Weight::Machine },
    Column { key: "ttft_seconds", title: "TTFT", weight: Weight::Useful },
    Column { key: "e2el_seconds", title: "E2EL", weight: Weight::Useful },
    Column { key: "user_tokens_per_second", title: "a user", weight: Weight::Essential },
    Column { key: "gpu_tokens_per_second", title: "a GPU in decode", weight: Weight::Essential },
    Column { key: "requests_per_second", title: "RPS", weight: Weight::Useful },
    Column { key: "decode_bound", title: "decode by", weight: Weight::Detail },
    Column { key: "prefill_bound", title: "prefill by", weight: Weight::Detail },
    Column { key: "rests_on", title: "by", weight: Weight::Useful },
    Column { key: "no_l2_because", title: "why no L2", weight: Weight::Machine },
    Column { key: "coverage", title: "covered", weight: Weight::Detail },
    Column { key: "dollars_per_million", title: "$ / 10^6", weight: Weight::Useful },
    Column { key: "joules_per_token", title: "J / token", weight: Weight::Detail },
    Column { key: "front", title: "front", weight: Weight::Useful },
];

fn time(seconds: f64) -> Cell {
    Cell::Time(Seconds(seconds))
}

fn number(number: Option<f64>, unit: &'static str) -> Cell {
    number.map_or(Cell::Absent, |number| Cell::Number(number, unit))
}

/// A row of numbers of what fits: nothing that does not fit has a time or a rate.
const OF_WHAT_FITS: std::ops::Range<usize> = 5..22;

/// The rows of a side's points. `by`: the tier of TTFT, E2EL, rates, cost and energy, which must
/// mean the same in all rows of a table that compares sides.
pub fn rows(name: &str, demand: &Demand, side: &Side, by: By) -> Vec<Vec<Cell>> {
    let output = demand.scenario.output;
    let fronts = side.is_front.iter().zip(&side.is_front_end_to_end);
    let rests = |point: &Point| match by {
        By::BestKnown => Rests::of_point(point, output).brief(),
        By::Serial => "L1".into(),
    };
    let row = |(point, (users, requests)): (&Point, (&bool, &bool))| {
        let class = |step: &Step| Cell::Text(step.class().to_string());
        let front = match (users, requests) {
            _ if !point.fits() => DOES_NOT_FIT,
            _ if !side.is_ranked(point) => "not ranked: no L2",
            (true, true) => "both",
            (true, false) => "tokens",
            (false, true) => "requests",
            (false, false) => "dominated",
        };
        let unknown = point.unknown.map(|(phase, why)| format!("{phase}: {why}"));
        let mut row = vec![
            Cell::Text(name.into()),
            Cell::Text(side.offer.hardware.name.clone()),
            Cell::Text(point.layout.to_string()),
            Cell::Count(u64::from(point.concurrency)),
            point.fit.sequences.map_or(Cell::Text("no".into()), Cell::Count),
            time(point.token.light),
            time(point.token.serial),
            point.token.measured.map_or(Cell::Absent, time),
            time(point.first_token.light),
            time(point.first_token.serial),
            time(point.first_token.by(by)),
            time(point.end_to_end(output).by(by)),
            Cell::Number(point.user_rate().by(by), "tok/s"),
            Cell::Number(point.device_rate().by(by), "tok/s"),
            Cell::Number(point.requests.by(by), "/s"),
            class(&point.decode),
            class(&point.prefill),
            Cell::Text(rests(point)),
            unknown.map_or(Cell::Absent, Cell::Text),
            point.decode.coverage.map_or(Cell::Absent, Cell::Share),
            number(side.cost(point, output, by), "$"),
            number(side.energy(point, output, by), "J"),
            Cell::Text(front.into()),
        ];
        if !point.fits() {
            row[OF_WHAT_FITS].fill(Cell::Absent);
        }
        row
    };
    side.points.iter().zip(fronts).map(row).collect()
}

/// The tier of the figures in the table of all points: the best of each, or L1 where several
/// machines are compared whose best tiers do not mean the same.
pub fn tier_of_table(projection: &Projection) -> By {
    common_tier(projection).filter(|_| projection.sides.len() > 1).unwrap_or(By::BestKnown)
}

/// All points of the command line.
pub fn table(projection: &Projection) -> Table {
    let by = tier_of_table(projection);
    let of = |side: &Side| rows("", &projection.demand, side, by);
    let title = "Points (fits: sequences in memory at once; front: no point is better in both)";
    Table::new(TABLE, title, columns(projection, POINTS), projection.sides.iter().flat_map(of))
}

/// Output tokens of a device by layout and requests at once: shaded where the requests fit and the
/// limits are kept. What is not ranked has no number.
pub fn heat(projection: &Projection, side: &Side) -> Option<HeatMap> {
    let Demand { slo, scenario, concurrency, .. } = &projection.demand;
    if side.offer.layouts.len() < 2 || !side.fits() {
        return None;
    }
    let output = scenario.output;
    let is_good =
        |point: &Point| side.is_ranked(point) && slo.is_kept(point, output, By::BestKnown);
    let good = side.points.iter().filter(|point| is_good(point));
    let most = good.map(|point| rate(point, output, By::BestKnown)).fold(0.0, f64::max);
    let rows = side.offer.layouts.iter().zip(side.points.chunks(concurrency.len().max(1)));
    let heat = |point: &Point| match point.fits() {
        false => Heat { value: Cell::Text("no room".into()), share: None },
        true if !side.is_ranked(point) => Heat { value: Cell::Absent, share: None },
        true => {
            let rate = rate(point, output, By::BestKnown);
            let share = is_good(point).then_some(rate / most);
            Heat { value: Cell::Number(rate, "tok/s"), share }
        }
    };
    let name = &side.offer.hardware.name;
    Some(HeatMap {
        name: format!("layouts_{}", plain(name)),
        title: format!("Output tokens/s of a GPU by layout and requests at once, {name}"),
        caption:
            "With prefill, by the best tier that is known; points whose L2 is not known have no \
             number beside points that have one. The shade is the share of the best point that \
             fits and keeps the limits; what has none breaks a limit."
                .into(),
        corner: "layout".into(),
        columns: concurrency.iter().map(u32::to_string).collect(),
        rows: rows
            .map(|(layout, points)| HeatRow {
                label: layout.to_string(),
                values: points.iter().map(heat).collect(),
            })
            .collect(),
    })
}

/// The fronts of several hardwares on one pair of axes, in a tier that means the same of all; none
/// of one hardware, or where there is no such tier.
pub fn charts_of_all(projection: &Projection) -> Vec<Chart> {
    let output = projection.demand.scenario.output;
    let Some(by) = common_tier(projection).filter(|_| projection.sides.len() > 1) else {
        return Vec::new();
    };
    let users =
        |point: &Point| (1.0 / point.token.by(by), point.device_rate_with_prefill(output).by(by));
    let curve = |side: &Side| {
        let points = side.points.iter().filter(|point| point.fits()).map(users).collect();
        Series::new(side.offer.hardware.name.clone(), SeriesKind::Curve, front(points))
    };
    let all: Vec<Series> = projection.sides.iter().map(curve).collect();
    if all.iter().filter(|series| !series.points.is_empty()).count() < 2 {
        return Vec::new();
    }
    let tier = match by {
        By::BestKnown => "By the best tier that is known",
        By::Serial => "By L1, which all have",
    };
    let axis = |title: &str| Axis::logarithmic(title, Quantity::Number);
    vec![Chart {
        name: "pareto_of_all".into(),
        title: "Tokens of a user against tokens of a GPU".into(),
        caption: format!(
            "{tier}, over layouts and requests at once that fit: what no other point of the same \
             hardware beats. Higher and further right is better."
        ),
        x: axis("tokens/s of a user"),
        y: axis("output tokens/s of a GPU, with prefill"),
        series: all,
        marks: Vec::new(),
    }]
}

/// Of points of which more is better in both numbers those that none beats, by the first number.
fn front(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let mut best = 0.0;
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for point in points.into_iter().rev().filter(|point| point.0.is_finite()) {
        if point.1 > best {
            best = point.1;
            kept.push(point);
        }
    }
    kept.reverse();
    kept
}

/// Both fronts.
pub fn charts(projection: &Projection, side: &Side) -> Vec<Chart> {
    let Demand { slo, scenario, .. } = &projection.demand;
    let output = scenario.output;
    let name = &side.offer.hardware.name;
    let users = Front {
        name: format!("pareto_{}", plain(name)),
        title: format!("Tokens of a user against tokens of a GPU, {name}"),
        axes: ["tokens/s of a user", "tokens/s of a GPU"],
        is_front: &side.is_front,
        of: &|point: &Point| (point.user_rate().best_known(), point.device_rate().best_known()),
        // A user's rate is 1 / TPOT.
        within: slo.token.map(|most| [1.0 / most.0, f64::INFINITY]),
    };
    let requests = Front {
        name: format!("requests_{}", plain(name)),
        title: format!("Requests of a GPU against the time of one, {name}"),
        axes: ["seconds from a request to its last token", "requests/s of a GPU"],
        is_front: &side.is_front_end_to_end,
        of: &|point: &Point| {
            let rate = point.requests.best_known() / point.devices();
            (point.end_to_end(output).best_known(), rate)
        },
        within: longest(slo, output).map(|most| [0.0, most]),
    };
    let run_at = side.operating_point(&projection.demand);
    [users, requests].into_iter().filter_map(|front| front.chart(side, run_at)).collect()
}

/// The longest time of a request that the limits allow.
fn longest(slo: &Slo, output: u32) -> Option<f64> {
    let of_both = slo.first_token.zip(slo.token);
    let of_both = of_both.map(|(first, token)| first.0 + token.0 * (f64::from(output) - 1.0));
    let stated = slo.end_to_end.map(|most| most.0);
    match (of_both, stated) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Two numbers of each point, and which of the points nothing beats in both.
struct Front<'a> {
    name: String,
    title: String,
    axes: [&'static str; 2],
    is_front: &'a [bool],
    of: &'a dyn Fn(&Point) -> (f64, f64),
    /// Least and largest of the first number that the limits allow.
    within: Option<[f64; 2]>,
}

impl Front<'_> {
    fn chart(&self, side: &Side, run_at: Option<&Point>) -> Option<Chart> {
        let of = |is_front: bool| {
            let points = side.points.iter().zip(self.is_front);
            let mut points: Vec<_> = points
                .filter(|(point, front)| side.is_ranked(point) && **front == is_front)
                .map(|(one, _)| (self.of)(one))
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points
        };
        let (front, rest) = (of(true), of(false));
        if front.len() < 2 {
            return None;
        }
        let mut series = Vec::new();
        series.extend(self.region(front.iter().chain(&rest)));
        series.push(Series::new("front", SeriesKind::Curve, front));
        if !rest.is_empty() {
            series.push(Series::new("dominated", SeriesKind::Faint, rest));
        }
        if let Some(point) = run_at.filter(|point| side.is_ranked(point)) {
            let name = format!("run {} with {}", point.layout, point.concurrency);
            series.push(Series::new(name, SeriesKind::Points, vec![(self.of)(point)]));
        }
        let axis = |title: &str| Axis::logarithmic(title, Quantity::Number);
        let shaded = match self.within {
            Some(_) => " Shaded: what the limits allow on this axis.",
            None => "",
        };
        Some(Chart {
            name: self.name.clone(),
            title: self.title.clone(),
            caption: format!(
                "By the best tier that is known, over layouts and requests at once that fit; \
                 points whose L2 is not known are left out beside points that have one. Grey \
                 points are beaten in both by another.{shaded}"
            ),
            x: axis(self.axes[0]),
            y: axis(self.axes[1]),
            series,
            marks: Vec::new(),
        })
    }

    /// Where the limits are kept, as two corners within the range of the points; none where no
    /// point is there.
    fn region<'p>(&self, points: impl Iterator<Item = &'p (f64, f64)>) -> Option<Series> {
        let [least, most] = self.within?;
        let far = f64::INFINITY;
        let ends = points.fold([far, 0.0, far, 0.0], |[left, right, low, high], &(x, y)| {
            [left.min(x), right.max(x), low.min(y), high.max(y)]
        });
        let (left, right) = (least.max(ends[0]), most.min(ends[1]));
        (left <= right).then(|| {
            Series::new(
                "within the limits",
                SeriesKind::Region,
                vec![(left, ends[2]), (right, ends[3])],
            )
        })
    }
}

const DECAY: &[Column] = &[
    Column { key: "on", title: "on", weight: Weight::Useful },
    Column { key: "context", title: "context", weight: Weight::Essential },
    Column { key: "light_tokens_per_second", title: "L0", weight: Weight::Essential },
    Column { key: "serial_tokens_per_second", title: "L1", weight: Weight::Essential },
    Column { key: "measured_tokens_per_second", title: "L2", weight: Weight::Essential },
];

/// Tokens a second of one request by its context.
pub fn decay(projection: &Projection) -> Vec<Block> {
    if projection.sides.iter().all(|side| side.decay.is_empty()) {
        return Vec::new();
    }
    let mut blocks = vec![Block::Heading("One request by its context".into())];
    blocks.push(Block::Table(decay_table(projection)));
    blocks.extend(projection.sides.iter().filter_map(|side| decay_chart(side).map(Block::Chart)));
    blocks
}

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
    let most = projection.demand.model.context;
    let most = most.unwrap_or(1 << 20).min(1 << 20);
    let title = format!(
        "Tokens/s of one request by tokens before it, first layout; to {most} (the model's \
             context, 2^20 at most), as long as it fits"
    );
    Table::new("decay", title, columns(projection, DECAY), rows)
}

fn decay_chart(side: &Side) -> Option<Chart> {
    if side.decay.len() < 2 {
        return None;
    }
    let line = |name: &str, kind, of: &dyn Fn(&Tiers) -> Option<f64>| {
        let points = side.decay.iter();
        let points = points.filter_map(|(context, rate)| Some((*context as f64, of(rate)?)));
        Series::new(name, kind, points.collect())
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
        x: Axis::logarithmic("tokens before it", Quantity::Count),
        y: Axis::logarithmic("tokens/s", Quantity::Number),
        series: all.into_iter().filter(|series| !series.points.is_empty()).collect(),
        marks: Vec::new(),
    })
}
