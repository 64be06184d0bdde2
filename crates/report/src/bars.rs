//! Bar charts of a run: one bar for each kernel, for operations that no curve shows.

use super::{Ceilings, Cell, case_table::rate, chart::measurements};
use fizeau_domain::{case::Point, outcome::Measurement};
use fizeau_record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Sizes from which on an operation that is swept over sizes is drawn as a curve.
const CURVE_SIZES_MIN: usize = 3;
/// Rows of one picture; what is longer becomes several.
const ROWS_MAX: usize = 30;
/// A limit this many times the longest bar is not drawn: it would leave no room for the bars.
const FAR: f64 = 8.0;

/// A picture of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Stable, for file names: `gemm_bf16`.
    pub name: String,
    /// For people.
    pub title: String,
    /// What the lengths and lines mean.
    pub caption: String,
    /// Bars by what they have in common: a size, a shape.
    pub groups: Vec<BarGroup>,
}

/// The kernels of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct BarGroup {
    /// The size, as the case's id writes it.
    pub size: String,
    /// A bar for each kernel.
    pub bars: Vec<Bar>,
}

/// One measured case.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The kernel's name.
    pub kernel: String,
    /// A bandwidth, a throughput or a time.
    pub value: Cell,
    /// The same quantity at the speed of light, in the unit of `value`; `None` where it is unknown
    /// or too far away to be drawn.
    pub limit: Option<f64>,
    /// How much of the limit is reached, 0..1.
    pub share: Option<f64>,
}

impl Bar {
    fn new(measurement: &Measurement, ceilings: &Ceilings) -> Bar {
        let is_ours = ceilings.foreign(measurement).is_none();
        let light = measurement.tier.and_then(|tier| measurement.light(tier));
        let median = measurement.summary.median;
        let value = rate(measurement);
        let limit = light.filter(|_| is_ours).map(|light| match value {
            Cell::Time(_) => light.time.0,
            _ => length(&value) * (median / light.time),
        });
        let share = measurement.utilisation().filter(|_| is_ours);
        let kernel = &measurement.case.kernel.0;
        let kernel = match &measurement.tuning {
            Some(tuning) => format!("{kernel}: {}", tuning.chosen),
            None => kernel.clone(),
        };
        Bar { kernel, value, limit, share }
    }

    /// How long the bar is, in the unit of its value.
    pub fn length(&self) -> f64 {
        length(&self.value)
    }
}

fn length(value: &Cell) -> f64 {
    match value {
        Cell::Bandwidth(rate) => rate.0,
        Cell::Throughput(rate) => rate.0,
        Cell::Time(time) => time.0,
        _ => 0.0,
    }
}

/// The bar charts of a record, one for each operation and element type that no curve shows; none
/// of a stub driver, whose numbers mean nothing.
pub fn bars(record: &Record) -> Vec<BarChart> {
    let ceilings = Ceilings::of(record);
    // By the first two parts of the id, and by whether longer is better; sizes in the order of the
    // record.
    let mut kinds: BTreeMap<(String, bool), Vec<(String, &Measurement)>> = BTreeMap::new();
    for measurement in measurements(record).filter(|_| !record.header.device.is_stub()) {
        let point = measurement.case.point.to_string();
        let (kind, size) = match point.match_indices('/').nth(1) {
            Some((end, _)) => (point[..end].to_owned(), point[end + 1..].to_owned()),
            None => point.split_once('/').map_or((point.clone(), String::new()), |(kind, size)| {
                (kind.to_owned(), size.to_owned())
            }),
        };
        let is_time = matches!(rate(measurement), Cell::Time(_));
        kinds.entry((kind, is_time)).or_default().push((size, measurement));
    }
    kinds
        .into_iter()
        .filter(|(_, cases)| !is_curve(cases))
        .flat_map(|((kind, is_time), cases)| of_kind(&kind, is_time, &cases, &ceilings))
        .collect()
}

/// Whether a line chart of the report shows these cases.
fn is_curve(cases: &[(String, &Measurement)]) -> bool {
    let is_swept = |point: &Point| {
        matches!(point, Point::Stream(_) | Point::Latency(_) | Point::Collective(_))
    };
    let sizes: BTreeSet<&String> = cases.iter().map(|(size, _)| size).collect();
    sizes.len() >= CURVE_SIZES_MIN && cases.iter().all(|(_, one)| is_swept(&one.case.point))
}

fn of_kind(
    kind: &str,
    is_time: bool,
    cases: &[(String, &Measurement)],
    ceilings: &Ceilings,
) -> Vec<BarChart> {
    let mut groups: Vec<BarGroup> = Vec::new();
    for (size, measurement) in cases {
        let bar = Bar::new(measurement, ceilings);
        match groups.iter_mut().find(|group| group.size == *size) {
            Some(group) => group.bars.push(bar),
            None => groups.push(BarGroup { size: size.clone(), bars: vec![bar] }),
        }
    }
    let mut pages: Vec<Vec<BarGroup>> = vec![Vec::new()];
    for group in groups {
        let rows = |groups: &[BarGroup]| groups.iter().map(|one| one.bars.len() + 1).sum::<usize>();
        match pages.last_mut() {
            Some(page) if page.is_empty() || rows(page) + group.bars.len() < ROWS_MAX => {
                page.push(group);
            }
            _ => pages.push(vec![group]),
        }
    }
    let count = pages.len();
    let name = kind.replace('/', "_") + if is_time { "_time" } else { "" };
    let page = |(at, groups): (usize, Vec<BarGroup>)| BarChart {
        name: if count > 1 { format!("{name}_{}", at + 1) } else { name.clone() },
        title: match count {
            1 => kind.to_owned(),
            _ => format!("{kind} ({} of {count})", at + 1),
        },
        ..captioned(groups, is_time)
    };
    pages.into_iter().enumerate().map(page).collect()
}

/// Leaves out limits that lie too far away, and says what the picture shows.
fn captioned(mut groups: Vec<BarGroup>, is_time: bool) -> BarChart {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let longest = bars().map(Bar::length).fold(0.0, f64::max);
    let limits = bars().filter(|bar| bar.limit.is_some()).count();
    let mut far = 0;
    for bar in groups.iter_mut().flat_map(|group| &mut group.bars) {
        if bar.limit.is_some_and(|limit| !limit.is_finite() || limit > FAR * longest) {
            bar.limit = None;
            far += 1;
        }
    }
    let all = groups.iter().map(|group| group.bars.len()).sum::<usize>();
    let what = if is_time { "Median time (shorter is better)" } else { "Rate of the median time" };
    let line = match (limits, far) {
        (0, _) => "; no limit is known.",
        (limits, far) if limits == far => " and its share of a limit beyond the picture.",
        (limits, 0) if limits == all => " and its share of the limit, the line.",
        _ => " and its share of the limit, the line where there is one.",
    };
    BarChart { name: String::new(), title: String::new(), caption: format!("{what}{line}"), groups }
}
