//! The speed of light: work over peaks, in one place.

use super::{
    Bound, Conditions, Part, Properties, SpeedOfLight, Tier,
    known::{Known, Touched},
    part::BANKS_BYTES,
};
use crate::{
    case::Point,
    units::{BytesPerSecond, FlopsPerSecond, Megahertz, Seconds},
};

/// The resources that some work is set against. What is unknown is left out, never guessed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Peaks {
    memory: Option<BytesPerSecond>,
    /// Seconds that caches take, where their rates are known.
    caches: Option<f64>,
    compute: Option<FlopsPerSecond>,
    /// Exponentials each second, where a unit is known that makes them.
    exps: Option<f64>,
    /// Seconds that links take.
    links: Option<f64>,
}

/// The longest of several times, and whose it is.
#[derive(Default)]
struct Slowest(Option<(f64, Bound)>);

impl Slowest {
    fn hold(&mut self, time: f64, bound: Bound) {
        if self.0.is_none_or(|(longest, _)| time > longest) {
            self.0 = Some((time, bound));
        }
    }

    fn at(self, tier: Tier) -> Option<SpeedOfLight> {
        let (time, bound) = self.0.filter(|(time, _)| *time > 0.0)?;
        Some(SpeedOfLight { time: Seconds(time), bound, tier })
    }
}

/// The least time that a point can take: its slowest resource at its peak; `from_memory` bytes go
/// to memory or come from it. None where a resource that it needs has no peak.
fn slowest(point: &Point, from_memory: f64, peaks: &Peaks, tier: Tier) -> Option<SpeedOfLight> {
    let work = point.work();
    let mut slowest = Slowest::default();
    if from_memory > 0.0 {
        slowest.hold(from_memory / peaks.memory?.0, Bound::Memory);
    }
    if let Some(caches) = peaks.caches {
        slowest.hold(caches, Bound::Cache);
    }
    if work.flops.0 > 0.0 {
        // A stream's few operations never bind; its peak need not be known.
        match (peaks.compute, point) {
            (Some(compute), _) => slowest.hold((work.flops / compute).0, Bound::Compute),
            (None, Point::Stream(_)) => {}
            (None, _) => return None,
        }
    }
    if let Some(exps) = peaks.exps.filter(|_| work.exps > 0.0) {
        slowest.hold(work.exps / exps, Bound::Exp);
    }
    if work.link.0 > 0 {
        slowest.hold(peaks.links?, Bound::Link);
    }
    slowest.at(tier)
}

/// The speed of light of one iteration at every tier that can be computed before the run ends:
/// datasheet (from `part`), observed (from units, clock and pins), algorithmic (the slowest
/// resource of this very case, caches counted).
///
/// What caches can keep from the iteration before need not come from memory again: a hot case has
/// (bytes - caches) to move, at every tier. Streams of four last-level caches and more are set
/// against all of their bytes.
pub fn lights(
    point: &Point,
    properties: &Properties,
    part: Option<&Part>,
    conditions: &Conditions,
) -> Vec<SpeedOfLight> {
    let known = Known { properties, part, conditions: *conditions, is_bound: false };
    let touched = Touched::by(point, &point.work());
    let from_memory = match known.is_beyond_caches(point) {
        true => touched.read + touched.written,
        false => known.memory_bytes(point, &touched),
    };
    // A stream or another access within a cache is set against the cache that it asks.
    let in_cache = matches!(point, Point::Stream(_) | Point::Access(_)) && known.fits_cache(point);
    let asked = known.asked_cache_time(point, &touched).filter(|_| in_cache);
    let caches =
        known.caches_time(point, &touched).filter(|_| touched.read + touched.written > 0.0);
    let links = known.links_time(point);
    let datasheet = Peaks {
        memory: known.datasheet_memory(),
        compute: known.datasheet_compute(point),
        links,
        ..Peaks::default()
    };
    let observed = Peaks {
        memory: known.pins().or(known.datasheet_memory()),
        compute: known.compute(point),
        caches: asked,
        links,
        ..Peaks::default()
    };
    let algorithmic = Peaks {
        // The rate of a cache that is not asked is no limit of one whose rate is not known.
        caches: caches.filter(|_| !in_cache || asked.is_some()),
        exps: known.exps(point),
        ..observed
    };
    let mut tiers = vec![(observed, Tier::Observed), (algorithmic, Tier::Algorithmic)];
    // No datasheet states what a cache does, and a stream does nothing else.
    if !in_cache {
        tiers.insert(0, (datasheet, Tier::Datasheet));
    }
    tiers.iter().filter_map(|(peaks, tier)| slowest(point, from_memory, peaks, *tier)).collect()
}

/// How long the exponentials of a point take where all are made by the units that are there for
/// it. None where it has none, or where nothing is known of such units.
pub fn exps_time(
    point: &Point,
    properties: &Properties,
    clock: Option<Megahertz>,
) -> Option<Seconds> {
    let conditions = Conditions { clock, ..Conditions::default() };
    let exps = Some(point.work().exps).filter(|&exps| exps > 0.0)?;
    Some(Seconds(exps / Known { properties, part: None, conditions, is_bound: false }.exps(point)?))
}

/// Memory's bandwidth by the datasheet, and by the clock and width that the device reports.
pub fn memory_peaks(
    properties: &Properties,
    part: Option<&Part>,
) -> (Option<BytesPerSecond>, Option<BytesPerSecond>) {
    let known = Known { properties, part, conditions: Conditions::default(), is_bound: false };
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

/// The tier of the limit that a case's share is printed of; none where nothing is known, or where
/// caches may keep a part of its operands ([`is_partly_cached`]).
pub fn tier_of_share(
    lights: &[SpeedOfLight],
    point: &Point,
    properties: &Properties,
    hot: bool,
) -> Option<Tier> {
    headline(lights).filter(|_| !is_partly_cached(point, properties, hot))
}

/// A limit counts as tighter from this factor on.
const TIGHTER: f64 = 1.02;

/// The limit that binds before the one of a tier: the algorithm's own, where its time is longer,
/// and the share of that tier's limit that it leaves, 0..1.
pub fn tighter(lights: &[SpeedOfLight], tier: Tier) -> Option<(&SpeedOfLight, f64)> {
    let of = |tier: Tier| lights.iter().find(|light| light.tier == tier);
    let (of_share, own) = (of(tier)?, of(Tier::Algorithmic)?);
    (own.time.0 > of_share.time.0 * TIGHTER).then(|| (own, of_share.time / own.time))
}

/// Whether caches may keep an unknown part of a stream from one iteration to the next: hot, and
/// between one and four last-level caches long. Its speeds of light are guards then, which count
/// every byte that a cache could keep as kept, and a share of one says nothing of the kernel: at an
/// equal rate it would jump by a third at four caches. Fused operations and recurrences have no
/// share below four caches at all.
pub fn is_partly_cached(point: &Point, properties: &Properties, hot: bool) -> bool {
    let conditions = Conditions { hot, ..Conditions::default() };
    let known = Known { properties, part: None, conditions, is_bound: false };
    let on_chip = matches!(point, Point::Access(access) if access.access.on_chip());
    let is_stream = matches!(point, Point::Stream(_) | Point::Access(_)) && !on_chip;
    // What a fused operation works on was written a moment ago: a cache that was not asked for may
    // hold all of it.
    let may_fit = matches!(point, Point::Fused(_) | Point::Recurrence(_));
    let is_between = may_fit || is_stream && !known.fits_cache(point);
    is_between && hot && !known.is_beyond_caches(point)
}

/// Whether a limit of a GPU's stream is that of the units' own caches, which such a stream does not
/// ask: programs before set it against them.
pub fn is_of_own_caches(
    point: &Point,
    properties: &Properties,
    clock: Option<Megahertz>,
    light: &SpeedOfLight,
) -> bool {
    let Some(Megahertz(clock)) = clock.filter(|_| properties.backend == "cuda") else {
        return false;
    };
    let units = f64::from(point.units().unwrap_or(properties.units));
    let rate = point.work().memory.0 as f64 / light.time.0;
    let is_own = (rate / (units * BANKS_BYTES * clock * 1e6) - 1.0).abs() < 1e-6;
    matches!(point, Point::Stream(_)) && light.bound == Bound::Cache && is_own
}

/// The physical floor: no iteration can be faster than this, by the most optimistic of all peaks
/// that are known for each resource. `most` is the most that the device can be
/// ([`super::Yardstick::most`]). None where nothing is known.
pub fn floor(
    point: &Point,
    properties: &Properties,
    most: Option<&Part>,
    conditions: &Conditions,
) -> Option<SpeedOfLight> {
    let clock = fastest_clock(point, properties, conditions.clock);
    let conditions = Conditions { clock, ..*conditions };
    let known = Known { properties, part: most, conditions, is_bound: true };
    let touched = Touched::by(point, &point.work());
    let mut slowest = Slowest::default();
    if let Some(memory) = known.memory_most() {
        slowest.hold(known.memory_bytes(point, &touched) / memory.0, Bound::Memory);
    }
    if let Some(caches) = known.caches_time(point, &touched) {
        slowest.hold(caches, Bound::Cache);
    }
    let compute = [known.compute(point), known.datasheet_compute(point)];
    if let Some(compute) = compute.into_iter().flatten().map(|rate| rate.0).reduce(f64::max) {
        slowest.hold(point.work().flops.0 / compute, Bound::Compute);
    }
    if let Some(links) = known.links_time(point) {
        slowest.hold(links, Bound::Link);
    }
    slowest.at(Tier::Algorithmic)
}

/// The fastest clock that a point can have run at. A device may have run faster during the samples
/// than when its clock was observed, but not faster than it says it can. What a host says is the
/// clock of one core alone: where several work it is their clock, observed while all work, that
/// binds.
fn fastest_clock(
    point: &Point,
    properties: &Properties,
    observed: Option<Megahertz>,
) -> Option<Megahertz> {
    let one_works = point.units().unwrap_or(properties.units) <= 1;
    let is_shared = properties.backend == "host" && !one_works;
    let stated = properties.clock.filter(|_| !is_shared || observed.is_none());
    [observed, stated].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
}
