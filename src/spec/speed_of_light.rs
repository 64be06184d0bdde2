//! The speed of light: work over peaks, in one place.

use super::{Bound, Part, Properties, SpeedOfLight, Tier};
use crate::{
    case::{Algorithm, Point, StreamOperation, Work},
    units::{BytesPerSecond, FlopsPerSecond, Megahertz, Seconds},
};

/// The rates that some work is set against. What is unknown is left out, never guessed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Peaks {
    memory: Option<BytesPerSecond>,
    /// Loads and stores, in bytes each second of all units together.
    cache: Option<[f64; 2]>,
    compute: Option<FlopsPerSecond>,
    /// Exponentials each second, where a unit is known that makes them.
    exps: Option<f64>,
    link: Option<BytesPerSecond>,
}

/// The least time that work can take: its slowest resource at its peak. None where a resource
/// that the work needs has no peak.
fn speed_of_light(point: &Point, work: &Work, peaks: &Peaks, tier: Tier) -> Option<SpeedOfLight> {
    let mut slowest: Option<(Seconds, Bound)> = None;
    let mut hold = |time: f64, bound| {
        if slowest.is_none_or(|(longest, _)| time > longest.0) {
            slowest = Some((Seconds(time), bound));
        }
    };
    if work.memory.0 > 0 {
        match (peaks.memory, peaks.cache) {
            (Some(memory), _) => hold((work.memory / memory).0, Bound::Memory),
            (None, Some(cache)) => hold(cache_time(point, work, cache), Bound::Cache),
            (None, None) => return None,
        }
    }
    if work.flops.0 > 0.0 {
        // A stream's few operations never bind; its peak need not be known.
        match (peaks.compute, point) {
            (Some(compute), _) => hold((work.flops / compute).0, Bound::Compute),
            (None, Point::Stream(_)) => {}
            (None, _) => return None,
        }
    }
    if let Some(exps) = peaks.exps.filter(|_| work.exps > 0.0) {
        hold(work.exps / exps, Bound::Exp);
    }
    if work.link.0 > 0 {
        hold((work.link / peaks.link?).0, Bound::Link);
    }
    slowest.map(|(time, bound)| SpeedOfLight { time, bound, tier })
}

/// Loads and stores go at once, each at its own rate.
fn cache_time(point: &Point, work: &Work, [load, store]: [f64; 2]) -> f64 {
    let bytes = work.memory.0 as f64;
    let stored = match point {
        Point::Stream(stream) => stored_share(stream.stream),
        Point::Access(access) => access
            .access
            .mix()
            .map_or(0.0, |[read, written]| written as f64 / (read + written) as f64),
        _ => 0.0,
    };
    (bytes * (1.0 - stored) / load).max(bytes * stored / store)
}

/// The share of a stream's bytes that it stores.
fn stored_share(stream: StreamOperation) -> f64 {
    1.0 - stream.arrays_read() as f64 / stream.arrays() as f64
}

/// What is known of a device, from its part and from itself.
struct Known<'k> {
    properties: &'k Properties,
    part: Option<&'k Part>,
    clock: Option<Megahertz>,
}

impl Known<'_> {
    /// Units of this device that the point uses.
    fn units(&self, point: &Point) -> f64 {
        f64::from(point.units().unwrap_or(self.properties.units))
    }

    /// Units x operations per clock x clock.
    fn compute(&self, point: &Point) -> Option<FlopsPerSecond> {
        let dtype = point.dtype()?;
        let of_part = self.part.and_then(|part| part.flops_per_clock.get(&dtype));
        let per_clock = of_part.or_else(|| self.properties.flops_per_clock.get(&dtype))?;
        Some(FlopsPerSecond(self.units(point) * per_clock * self.clock?.0 * 1e6))
    }

    /// Units x exponentials per clock x clock. Kernels may make a share of them by arithmetic, so
    /// this binds nobody: it is the limit of those that do not, and no floor.
    fn exps(&self, point: &Point) -> Option<f64> {
        Some(self.units(point) * self.properties.exps_per_clock? * self.clock?.0 * 1e6)
    }

    fn datasheet_compute(&self, point: &Point) -> Option<FlopsPerSecond> {
        self.part?.peaks.get(&point.dtype()?).copied()
    }

    /// The rate at the memory's pins, as the device reports it.
    fn pins(&self) -> Option<BytesPerSecond> {
        let transfers = self.properties.memory_mts? * 1e6;
        let modules = self.properties.memory_bus_bits?;
        // Two modules on one channel take turns.
        let channels = self.part.and_then(|part| part.memory_bus_bits);
        let bits =
            channels.map_or(modules, |one| modules.min(one * self.properties.sockets.max(1)));
        Some(BytesPerSecond(transfers * f64::from(bits) / 8.0))
    }

    fn datasheet_memory(&self) -> Option<BytesPerSecond> {
        Some(self.part?.memory_bandwidth? * f64::from(self.properties.sockets.max(1)))
    }

    /// What the units' first-level caches load and store each second.
    fn cache(&self, point: &Point) -> Option<[f64; 2]> {
        let part = self.part?;
        let rate = |per_clock: f64, clock: Megahertz| self.units(point) * per_clock * clock.0 * 1e6;
        let clock = self.clock?;
        Some([rate(part.cache_load_per_clock?, clock), rate(part.cache_store_per_clock?, clock)])
    }

    /// The link that a point's bytes go over: PCI Express to the host; to peers that of the part,
    /// else PCI Express too.
    fn link(&self, point: &Point) -> Option<BytesPerSecond> {
        let of_part = self.part.and_then(|part| part.link_bandwidth);
        let pcie = self.properties.pcie_bandwidth();
        match point {
            Point::Transfer(transfer) if transfer.transfer.with_host() => pcie,
            Point::Transfer(_) => of_part.or(pcie),
            _ => of_part,
        }
    }

    /// What a point has to move and compute. Of a collective, the least that its algorithms put on
    /// one rank's link: bus bandwidth counts a ring, also where the switch reduces.
    fn work(&self, point: &Point) -> Work {
        let work = point.work();
        let Point::Collective(collective) = point else { return work };
        let algorithms = self.part.map_or(&Algorithm::ALL[..], |part| part.algorithms);
        Work { link: collective.wire_least(algorithms), ..work }
    }

    /// Whether what a point touches stays in a cache from one iteration to the next.
    fn fits_cache(&self, point: &Point) -> bool {
        let touched = match point {
            Point::Stream(stream) => stream.working_set,
            Point::Access(access) if access.access.on_chip() => return true,
            _ => point.work().memory,
        };
        touched <= self.properties.last_level_cache()
    }
}

/// The speed of light of one iteration at every tier that can be computed before the run ends:
/// datasheet (from `part`), observed (from units, `clock` and pins), algorithmic (the slowest
/// resource of this very case, caches counted where the operands stay in one).
pub fn lights(
    point: &Point,
    properties: &Properties,
    part: Option<&Part>,
    clock: Option<Megahertz>,
) -> Vec<SpeedOfLight> {
    let known = Known { properties, part, clock };
    let work = known.work(point);
    let cached_stream =
        matches!(point, Point::Stream(_) | Point::Access(_)) && known.fits_cache(point);
    let memory = |rate: Option<BytesPerSecond>| rate.filter(|_| !cached_stream);
    let link = known.link(point);
    let datasheet = Peaks {
        memory: memory(known.datasheet_memory()),
        compute: known.datasheet_compute(point),
        link,
        cache: None,
        exps: None,
    };
    let observed = Peaks {
        memory: memory(known.pins().or(known.datasheet_memory())),
        compute: known.compute(point),
        cache: known.cache(point).filter(|_| cached_stream),
        exps: None,
        link,
    };
    // Operands that stay in a cache need not come from memory again.
    let in_cache = known.fits_cache(point).then(|| known.cache(point)).flatten();
    let algorithmic = Peaks {
        memory: if in_cache.is_some() { None } else { observed.memory },
        cache: in_cache,
        exps: known.exps(point),
        ..observed
    };
    let tiers = [
        (datasheet, Tier::Datasheet),
        (observed, Tier::Observed),
        (algorithmic, Tier::Algorithmic),
    ];
    tiers.iter().filter_map(|(peaks, tier)| speed_of_light(point, &work, peaks, *tier)).collect()
}

/// How long the exponentials of a point take where all are made by the units that are there for
/// it. None where it has none, or where nothing is known of such units.
pub fn exps_time(
    point: &Point,
    properties: &Properties,
    clock: Option<Megahertz>,
) -> Option<Seconds> {
    let exps = Some(point.work().exps).filter(|&exps| exps > 0.0)?;
    Some(Seconds(exps / Known { properties, part: None, clock }.exps(point)?))
}

/// Memory's bandwidth by the datasheet, and by the clock and width that the device reports.
pub fn memory_peaks(
    properties: &Properties,
    part: Option<&Part>,
) -> (Option<BytesPerSecond>, Option<BytesPerSecond>) {
    let known = Known { properties, part, clock: None };
    (known.datasheet_memory(), known.pins())
}

/// The tier that the headline refers to: observed where arithmetic or a cache binds, datasheet for
/// memory and links; the other one where only that is known.
pub fn headline(lights: &[SpeedOfLight]) -> Option<Tier> {
    let of = |tier: Tier| lights.iter().find(|light| light.tier == tier);
    let clocked = |light: &&SpeedOfLight| matches!(light.bound, Bound::Compute | Bound::Cache);
    let observed = of(Tier::Observed).filter(clocked);
    observed
        .or_else(|| of(Tier::Datasheet))
        .or_else(|| of(Tier::Observed))
        .or_else(|| lights.first())
        .map(|light| light.tier)
}

/// The physical floor: no iteration can be faster than this, by the most optimistic of all peaks
/// that are known for each resource. None where nothing is known.
pub fn floor(
    point: &Point,
    properties: &Properties,
    part: Option<&Part>,
    clock: Option<Megahertz>,
) -> Option<SpeedOfLight> {
    // The device may have run faster during the samples than when its clock was observed, but not
    // faster than it says it can.
    let clock = [clock, properties.clock].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
    let known = Known { properties, part, clock };
    let work = known.work(point);
    let fastest = |a: Option<f64>, b: Option<f64>| [a, b].into_iter().flatten().reduce(f64::max);
    let in_cache = known.fits_cache(point);
    let memory = fastest(known.pins().map(|rate| rate.0), known.datasheet_memory().map(|r| r.0));
    let compute =
        fastest(known.compute(point).map(|r| r.0), known.datasheet_compute(point).map(|r| r.0));
    let mut floor: Option<SpeedOfLight> = None;
    let mut hold = |work: Work, peaks: Peaks| {
        let light = speed_of_light(point, &work, &peaks, Tier::Algorithmic);
        if let Some(light) = light
            && floor.is_none_or(|longest| light.time > longest.time)
        {
            floor = Some(light);
        }
    };
    let bytes = Work { memory: work.memory, ..Work::default() };
    if in_cache {
        hold(bytes, Peaks { cache: known.cache(point), ..Peaks::default() });
    } else {
        hold(bytes, Peaks { memory: memory.map(BytesPerSecond), ..Peaks::default() });
    }
    let flops = Work { flops: work.flops, ..Work::default() };
    hold(flops, Peaks { compute: compute.map(FlopsPerSecond), ..Peaks::default() });
    let link = Work { link: work.link, ..Work::default() };
    hold(link, Peaks { link: known.link(point), ..Peaks::default() });
    floor
}
