//! The limits of each generation beside each other, and the operations for each byte at which
//! arithmetic takes over from memory.

use super::Side;
use crate::{Cell, Heat, HeatMap, HeatRow, ceiling::memory_peak, chart::measurements};
use fizeau_domain::{
    dtype::Dtype,
    spec::{Bound, Part, STUB, Tier},
    units::{BytesPerSecond, FlopsPerSecond},
};
use fizeau_record::Record;
use std::collections::BTreeMap;

/// A limit, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Bytes or operations each second.
    pub rate: f64,
    /// Whose limit it is.
    pub tier: Tier,
    /// Whether it is that of a stub driver's device.
    pub is_stub: bool,
}

/// The limits of one side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Of memory, in bytes each second.
    pub memory: Option<Limit>,
    /// Of dense arithmetic by element type, in operations each second.
    pub arithmetic: BTreeMap<Dtype, Limit>,
}

impl Limits {
    /// Of a GPU of the catalogue its datasheet's, and those of its record beside them. Of a host,
    /// of which the catalogue knows neither cores nor clock, its record's first.
    pub fn of(side: &Side<'_>) -> Limits {
        let of_part = side.part.map(of_part).unwrap_or_default();
        let of_record = side.record.map(of_record).unwrap_or_default();
        let (mut first, then) = match side.part.is_some_and(Part::is_host) {
            true => (of_record, of_part),
            false => (of_part, of_record),
        };
        first.memory = first.memory.or(then.memory);
        for (dtype, limit) in then.arithmetic {
            first.arithmetic.entry(dtype).or_insert(limit);
        }
        first
    }

    /// Operations for each byte of memory traffic above which arithmetic limits.
    pub fn balance(&self, dtype: Dtype) -> Option<Limit> {
        let (memory, arithmetic) = (self.memory?, self.arithmetic.get(&dtype)?);
        let is_stub = memory.is_stub || arithmetic.is_stub;
        Some(Limit { rate: arithmetic.rate / memory.rate, is_stub, ..*arithmetic })
    }
}

fn of_part(part: &Part) -> Limits {
    let limit = |rate| Limit { rate, tier: Tier::Datasheet, is_stub: false };
    Limits {
        memory: part.memory_bandwidth.map(|rate| limit(rate.0)),
        arithmetic: part.peaks.iter().map(|(dtype, rate)| (*dtype, limit(rate.0))).collect(),
    }
}

/// The highest limits that the speeds of light of a record imply, the datasheet's before those of
/// the clock that was observed.
fn of_record(record: &Record) -> Limits {
    let is_stub = record.header.device.is_stub();
    let mut limits = Limits::default();
    for tier in [Tier::Datasheet, Tier::Observed] {
        let limit = |rate| Limit { rate, tier, is_stub };
        limits.memory = limits.memory.or(memory_peak(record, tier).map(|rate| limit(rate.0)));
        let mut of_tier: BTreeMap<Dtype, f64> = BTreeMap::new();
        for one in measurements(record) {
            let light = one.light(tier).filter(|light| light.bound == Bound::Compute);
            let (Some(light), Some(dtype)) = (light, one.case.point.dtype()) else { continue };
            let rate = (one.work.flops / light.time).0;
            let best = of_tier.entry(dtype).or_insert(rate);
            *best = best.max(rate);
        }
        for (dtype, rate) in of_tier {
            limits.arithmetic.entry(dtype).or_insert(limit(rate));
        }
    }
    limits
}

/// Element types of which any side knows a limit, in their order; not those with shared scales
/// (`mxfp8`) that have the limit of the type that is multiplied (`fp8`) on all sides.
pub fn dtypes(limits: &[Limits]) -> Vec<Dtype> {
    let says_more = |dtype: &Dtype| {
        let own = |of: &Limits, dtype: Dtype| of.arithmetic.get(&dtype).map(|limit| limit.rate);
        let plain = dtype.unscaled();
        let differs = |of: &Limits| own(of, *dtype).is_some() && own(of, *dtype) != own(of, plain);
        limits.iter().any(|of| own(of, *dtype).is_some() && (plain == *dtype || differs(of)))
    };
    Dtype::ALL.into_iter().filter(says_more).collect()
}

/// A cell of a limit; of a stub's none is shown.
pub fn cell(limit: Option<Limit>, cell: impl Fn(f64) -> Cell) -> Cell {
    match limit {
        None => Cell::Absent,
        Some(limit) if limit.is_stub => Cell::Text(STUB.into()),
        Some(limit) => cell(limit.rate),
    }
}

/// The limit of memory as a cell.
pub fn bandwidth(rate: f64) -> Cell {
    Cell::Bandwidth(BytesPerSecond(rate))
}

/// The limit of arithmetic as a cell.
pub fn throughput(rate: f64) -> Cell {
    Cell::Throughput(FlopsPerSecond(rate))
}

/// Operations for each byte as a cell.
pub fn per_byte(rate: f64) -> Cell {
    Cell::Number(rate, "FLOP/B")
}

/// The limits, how many times the first generation's each is, and the balance.
pub fn maps(sides: &[Side<'_>], limits: &[Limits]) -> [HeatMap; 3] {
    let dtypes = dtypes(limits);
    let heat = |value| Heat { value, share: None };
    let map = |name: &str, title: &str, caption: &str, rows| HeatMap {
        name: name.into(),
        title: title.into(),
        caption: caption.into(),
        corner: "limit of".into(),
        columns: sides.iter().map(|side| side.name.clone()).collect(),
        rows,
    };
    let row = |label: String, of: &dyn Fn(&Limits) -> Cell| HeatRow {
        label,
        values: limits.iter().map(|one| heat(of(one))).collect(),
    };
    let mut rates = vec![row("memory".into(), &|one| cell(one.memory, bandwidth))];
    rates.extend(dtypes.iter().map(|dtype| {
        row(dtype.to_string(), &|one| cell(one.arithmetic.get(dtype).copied(), throughput))
    }));
    let ratio = |now: Option<Limit>, first: Option<Limit>| match (now, first) {
        (Some(now), Some(first)) => {
            let is_stub = now.is_stub || first.is_stub;
            Cell::Relative { value: now.rate / first.rate, is_stub }
        }
        _ => Cell::Absent,
    };
    let first = |of: &dyn Fn(&Limits) -> Option<Limit>| limits.iter().find_map(of);
    let memory = first(&|one| one.memory);
    let mut ratios = vec![row("memory".into(), &|one| ratio(one.memory, memory))];
    ratios.extend(dtypes.iter().map(|dtype| {
        let of = |one: &Limits| one.arithmetic.get(dtype).copied();
        let first = first(&of);
        row(dtype.to_string(), &|one| ratio(of(one), first))
    }));
    let balance = dtypes
        .iter()
        .map(|dtype| row(dtype.to_string(), &|one| cell(one.balance(*dtype), per_byte)));
    [
        map("limits", "Limits", "The limits that shares are of.", rates),
        map(
            "limit_ratios",
            "Limits, those of the first generation that has one = 1",
            "How many times the limit of the first generation that has one.",
            ratios,
        ),
        map(
            "balance",
            "Operations for each byte of memory at which arithmetic takes over (machine balance)",
            "Work with fewer operations for each byte is limited by memory, other work by \
             arithmetic. Where the number grows from one generation to the next, work between \
             both becomes limited by memory.",
            balance.collect(),
        ),
    ]
}
