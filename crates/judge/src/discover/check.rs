//! What was found beside what a table states.

use super::{CacheFound, Discovery};
use fizeau_domain::{
    spec::{Part, Properties},
    units::Bytes,
};

/// A rate more than this share above the table contradicts it; as much as the guard allows.
pub const ABOVE: f64 = 0.02;

/// A rate more than this share below the table was not reached: the device, the kernel or who else
/// used the machine is why.
pub const BELOW: f64 = 0.15;

/// How a figure stands to the one of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Within the tolerance.
    Agrees,
    /// More than the table allows.
    Above,
    /// Less than the table promises.
    Below,
    /// Of another size than the table or the device says.
    Differs,
    /// No knee is left for a cache that the device states.
    NotSeen,
}

/// A figure, in the unit of its quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A count.
    Count(u32),
    /// A size.
    Size(Bytes),
    /// Operations of one unit in one clock.
    Operations(f64),
    /// Bytes of one unit in one clock.
    BytesPerClock(f64),
    /// Bytes each second.
    Rate(f64),
}

impl Figure {
    /// Its number.
    pub fn value(self) -> f64 {
        match self {
            Figure::Count(count) => f64::from(count),
            Figure::Size(Bytes(size)) => size as f64,
            Figure::Operations(value) | Figure::BytesPerClock(value) | Figure::Rate(value) => value,
        }
    }
}

/// One figure beside the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// What it is of.
    pub what: String,
    /// Who states the other one: `table` or `device`.
    pub by: &'static str,
    /// What is stated.
    pub stated: Figure,
    /// What was found, if anything was.
    pub found: Option<Figure>,
    /// How they stand.
    pub standing: Standing,
}

fn rate(stated: f64, found: f64) -> Standing {
    match found / stated {
        ratio if ratio > 1.0 + ABOVE => Standing::Above,
        ratio if ratio < 1.0 - BELOW => Standing::Below,
        _ => Standing::Agrees,
    }
}

/// Everything that both state: the table where the device is a known part, and what the device says
/// of its caches, each beside the cache found whose size is nearest.
pub fn compare(found: &Discovery, properties: &Properties, part: Option<&Part>) -> Vec<Compared> {
    let mut all = Vec::new();
    for level in &properties.caches {
        let off = |cache: &CacheFound| {
            (cache.size().0.max(1) as f64 / level.size.0.max(1) as f64).ln().abs()
        };
        let is_near = |cache: &CacheFound| cache.knee.is_near(level.size.0);
        let is_anothers = |cache: &CacheFound| {
            let mut sizes = properties.caches.iter().map(|other| other.size.0);
            !is_near(cache) && sizes.any(|size| cache.knee.is_near(size))
        };
        let left = found.caches.iter().filter(|cache| !is_anothers(cache));
        let nearest = left.min_by(|a, b| off(a).total_cmp(&off(b)));
        if found.caches.is_empty() {
            break;
        }
        all.push(Compared {
            what: format!("L{} cache", level.level),
            by: "device",
            stated: Figure::Size(level.size),
            found: nearest.map(|cache| Figure::Size(cache.size())),
            standing: match nearest {
                None => Standing::NotSeen,
                Some(cache) if is_near(cache) => Standing::Agrees,
                Some(_) => Standing::Differs,
            },
        });
    }
    let line = properties.caches.first().map(|cache| cache.line).filter(|line| line.0 > 0);
    if let (Some(stated), Some(line)) = (line, found.line) {
        all.push(Compared {
            what: "line of the first cache".into(),
            by: "device",
            stated: Figure::Size(stated),
            found: Some(Figure::Size(line)),
            standing: if stated == line { Standing::Agrees } else { Standing::Differs },
        });
    }
    all.extend(part.into_iter().flat_map(|part| with_table(found, properties, part)));
    all
}

fn with_table(found: &Discovery, properties: &Properties, part: &Part) -> Vec<Compared> {
    let mut all = Vec::new();
    let mut add = |what: String, stated: Option<Figure>, found: Option<Figure>| {
        if let (Some(stated), Some(found)) = (stated, found) {
            let standing = match (stated, found) {
                (Figure::Count(a), Figure::Count(b)) if a != b => Standing::Differs,
                (Figure::Count(_), _) => Standing::Agrees,
                _ => rate(stated.value(), found.value()),
            };
            all.push(Compared { what, by: "table", stated, found: Some(found), standing });
        }
    };
    add("units".into(), part.units.map(Figure::Count), Some(Figure::Count(properties.units)));
    for one in &found.arithmetic {
        add(
            format!("{} operations of a unit in a clock", one.dtype),
            part.flops_per_clock.get(&one.dtype).copied().map(Figure::Operations),
            one.per_clock.map(Figure::Operations),
        );
    }
    let bytes =
        |of: &Option<super::PerClock>| of.as_ref().map(|of| Figure::BytesPerClock(of.bytes));
    add(
        "loads from the first cache in a clock".into(),
        part.cache_load_per_clock.map(Figure::BytesPerClock),
        bytes(&found.load_per_clock),
    );
    add(
        "stores to the first cache in a clock".into(),
        part.cache_store_per_clock.map(Figure::BytesPerClock),
        bytes(&found.store_per_clock),
    );
    // A host's table is of a whole socket, and a process seldom has one to itself.
    if !part.is_host() {
        add(
            "memory bandwidth".into(),
            part.memory_bandwidth.map(|rate| Figure::Rate(rate.0)),
            found.memory.best.as_ref().map(|(rate, _)| Figure::Rate(rate.0)),
        );
    }
    all
}
