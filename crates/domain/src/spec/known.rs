//! What is known of a device, from its part and from itself: rates of arithmetic, caches and
//! memory, and what caches can keep from one iteration to the next.

use super::{CacheLevel, Conditions, Part, Properties};
use crate::{
    case::{Point, StreamOperation, Work},
    units::{BytesPerSecond, FlopsPerSecond, Megahertz},
};

/// Bytes that no core moves more than each clock to or from what lies beyond its own caches, where
/// its part does not say: a line of 64 bytes, the width of the ports of the widest cores (Intel 64
/// and IA-32 Architectures Optimization Reference Manual, tables of cache bandwidths).
const CORE_PER_CLOCK: f64 = 64.0;

/// Levels of cache that belong to one core of a host.
const OF_ONE_CORE: u32 = 2;

/// The level of a GPU's cache on the memory's side.
const MEMORY_CACHE: u32 = 3;

/// What is known of a device, from its part and from itself.
pub(super) struct Known<'k> {
    pub properties: &'k Properties,
    pub part: Option<&'k Part>,
    pub conditions: Conditions,
    /// Whether it is to bound what can be, and not to say what is.
    pub is_bound: bool,
}

/// Bytes that one iteration reads and writes, each at least once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Touched {
    pub read: f64,
    pub written: f64,
}

impl Touched {
    /// By a point whose work is known.
    pub fn by(point: &Point, work: &Work) -> Touched {
        let all = work.memory.0 as f64;
        let written = all * written_share(point);
        Touched { read: all - written, written }
    }

    /// Bytes that caches of size `kept` do not hold: all but what they kept from the
    /// iteration before; after an eviction everything that is read. What is written may stay in
    /// them until the iteration has ended.
    fn beyond(&self, kept: f64, hot: bool) -> [f64; 3] {
        let over = |bytes: f64| (bytes - kept).max(0.0);
        let read = if hot { over(self.read) } else { self.read };
        let both =
            if hot { over(self.read + self.written) } else { self.read + over(self.written) };
        [read, over(self.written), both]
    }
}

/// The share of a point's bytes that it writes.
fn written_share(point: &Point) -> f64 {
    let share = |written: f64, all: f64| if all > 0.0 { (written / all).min(1.0) } else { 0.0 };
    let all = point.work().memory.0 as f64;
    match point {
        Point::Stream(stream) => written_by(stream.stream),
        Point::Access(access) => access
            .access
            .mix()
            .map_or(0.0, |[read, written]| written as f64 / (read + written) as f64),
        Point::Gemm(p) => {
            let bits = p.dtype.output().bits() as f64;
            share(f64::from(p.m) * f64::from(p.n) * bits / 8.0, all)
        }
        Point::Grouped(p) => {
            let bits = p.dtype.output().bits() as f64;
            share(f64::from(p.m) * f64::from(p.n) * bits / 8.0, all)
        }
        Point::Attention(p) => {
            let rows = f64::from(p.batch) * f64::from(p.heads) * f64::from(p.queries);
            let bits = p.dtype.output().bits() as f64;
            share(rows * f64::from(p.dim_v) * bits / 8.0, all)
        }
        Point::Fused(p) => share(p.written().0 as f64, all),
        Point::Recurrence(p) => share(p.written().0 as f64, all),
        Point::Sparse(p) => share(p.written().0 as f64, all),
        Point::Transfer(_) => 0.5,
        _ => 0.0,
    }
}

fn written_by(stream: StreamOperation) -> f64 {
    1.0 - stream.arrays_read() as f64 / stream.arrays() as f64
}

impl Known<'_> {
    /// Units of this device that the point uses.
    pub fn units(&self, point: &Point) -> f64 {
        f64::from(point.units().unwrap_or(self.properties.units))
    }

    fn clock(&self) -> Option<f64> {
        self.conditions.clock.map(|Megahertz(clock)| clock * 1e6)
    }

    /// Units x operations per clock x clock.
    pub fn compute(&self, point: &Point) -> Option<FlopsPerSecond> {
        let dtype = point.dtype()?;
        let of_part = self.part.and_then(|part| part.flops_per_clock.get(&dtype));
        let per_clock = of_part.or_else(|| self.properties.flops_per_clock.get(&dtype))?;
        Some(FlopsPerSecond(self.units(point) * per_clock * self.clock()?))
    }

    /// Units x exponentials per clock x clock. Kernels may make a share of them by arithmetic, so
    /// this binds nobody: it is the limit of those that do not, and no floor.
    pub fn exps(&self, point: &Point) -> Option<f64> {
        Some(self.units(point) * self.properties.exps_per_clock? * self.clock()?)
    }

    /// The vendor's peak, less the units that this device lacks or that the point leaves alone.
    pub fn datasheet_compute(&self, point: &Point) -> Option<FlopsPerSecond> {
        let part = self.part?;
        let peak = *part.peaks.get(&point.dtype()?)?;
        let units = part.units.map_or(1.0, |all| self.units(point) / f64::from(all.max(1)));
        Some(peak * units.min(1.0))
    }

    /// Whether it is a slice or partition of a GPU, of which drivers tell the whole's pins.
    fn is_slice(&self) -> bool {
        self.properties.backend != "host" && self.properties.virtualised.is_some()
    }

    /// The rate at the memory's pins, as the device reports it; unknown of a slice.
    pub fn pins(&self) -> Option<BytesPerSecond> {
        self.all_pins().filter(|_| !self.is_slice())
    }

    fn all_pins(&self) -> Option<BytesPerSecond> {
        let transfers = self.properties.memory_mts? * 1e6;
        let modules = self.properties.memory_bus_bits?;
        // Two modules on one channel take turns.
        let channels = self.part.and_then(|part| part.memory_bus_bits);
        let bits =
            channels.map_or(modules, |one| modules.min(one * self.properties.sockets.max(1)));
        Some(BytesPerSecond(transfers * f64::from(bits) / 8.0))
    }

    fn sockets(&self) -> f64 {
        f64::from(self.properties.sockets.max(1))
    }

    pub fn datasheet_memory(&self) -> Option<BytesPerSecond> {
        Some(self.part?.memory_bandwidth? * self.sockets())
    }

    /// The most that memory can do by anything that is known. What a host's firmware says of its
    /// modules goes before the fastest that its part takes; a GPU may be overclocked.
    pub fn memory_most(&self) -> Option<BytesPerSecond> {
        let most = self.part.and_then(|part| part.memory_bandwidth_most);
        if self.is_slice() {
            return most.or(self.all_pins());
        }
        let is_told = self.properties.backend == "host" && self.properties.memory_mts.is_some();
        let most = most.filter(|_| !is_told).map(|rate| (rate * self.sockets()).0);
        let told = [self.pins(), self.datasheet_memory()];
        let told = told.into_iter().flatten().map(|rate| rate.0);
        told.chain(most).reduce(f64::max).map(BytesPerSecond)
    }

    /// What the units' first-level caches load and store each second.
    pub fn first_cache(&self, point: &Point) -> Option<[f64; 2]> {
        let part = self.part?;
        let rate = |per_clock: f64| Some(self.units(point) * per_clock * self.clock()?);
        Some([rate(part.cache_load_per_clock?)?, rate(part.cache_store_per_clock?)?])
    }

    /// How long the first-level caches take for what a point touches: loads and stores go at once.
    pub fn first_cache_time(&self, point: &Point, touched: &Touched) -> Option<f64> {
        let [load, store] = self.first_cache(point)?;
        Some((touched.read / load).max(touched.written / store))
    }

    /// The longest that any level of cache whose rate is known takes for what has to come from it
    /// or from beyond it.
    pub fn caches_time(&self, point: &Point, touched: &Touched) -> Option<f64> {
        let first = self.first_cache_time(point, touched);
        // What stays within the units asks nothing of the caches beyond them.
        if matches!(point, Point::Access(access) if access.access.on_chip()) {
            return first;
        }
        let levels = [self.beyond_core(point), self.second_cache(), self.memory_cache()];
        let beyond = levels.into_iter().flatten().map(|level| self.time_of(level, point, touched));
        first.into_iter().chain(beyond).reduce(f64::max)
    }

    /// How long a level of cache takes for what nearer caches do not hold.
    fn time_of(&self, level: (u32, [f64; 3]), point: &Point, touched: &Touched) -> f64 {
        let (below, [load, store, both]) = level;
        let [read, written, all] = touched.beyond(self.kept(point, below), self.conditions.hot);
        (read / load).max(written / store).max(all / both)
    }

    /// How long the cache that answers a stream or another access within it takes: the first one,
    /// but on GPUs the nearest one that all units share, since the kernels of streams load past
    /// their own unit's. None where the rate of that cache is not known.
    pub fn asked_cache_time(&self, point: &Point, touched: &Touched) -> Option<f64> {
        let on_chip = matches!(point, Point::Access(access) if access.access.on_chip());
        if self.properties.backend == "host" || on_chip {
            return self.first_cache_time(point, touched);
        }
        let is_beyond_second = self.kept(point, MEMORY_CACHE) < touched.read + touched.written;
        let memory_cache = self.memory_cache().filter(|_| is_beyond_second);
        let asked = if is_beyond_second { memory_cache } else { self.second_cache() }?;
        let levels = [Some(asked), self.second_cache()].into_iter().flatten();
        levels.map(|level| self.time_of(level, point, touched)).reduce(f64::max)
    }

    /// Ports of the cores of a host, and the level that lies beyond them.
    fn beyond_core(&self, point: &Point) -> Option<(u32, [f64; 3])> {
        if self.properties.backend != "host" {
            return None;
        }
        let per_clock = self.part.and_then(|part| part.core_per_clock).unwrap_or(CORE_PER_CLOCK);
        let way = self.units(point) * per_clock * self.clock()?;
        Some((OF_ONE_CORE + 1, [way, way, 2.0 * way]))
    }

    /// The second-level cache of a GPU, whose first-level caches keep nothing from one kernel to
    /// the next.
    fn second_cache(&self) -> Option<(u32, [f64; 3])> {
        let way = self.part?.l2_per_clock? * self.clock()?;
        Some((2, [way, way, 2.0 * way]))
    }

    /// The cache on the memory's side.
    fn memory_cache(&self) -> Option<(u32, [f64; 3])> {
        let both = self.part?.memory_cache_bandwidth?.0;
        Some((MEMORY_CACHE, [both, both, both]))
    }

    /// Bytes that caches nearer to the point's units than a level can keep.
    fn kept(&self, point: &Point, level: u32) -> f64 {
        let units = point.units().unwrap_or(self.properties.units);
        let nearer = self.properties.caches.iter().filter(|cache| cache.level < level);
        let all: f64 = nearer.map(|cache: &CacheLevel| cache.reached_by(units).0 as f64).sum();
        all.max(self.untold_caches(level)) / f64::from(self.conditions.copies.max(1))
    }

    /// Last-level caches that a virtual machine may have and does not tell of: many are told of
    /// some default, while their memory is cached by all that the socket has.
    fn untold_caches(&self, level: u32) -> f64 {
        let is_guest = self.properties.backend == "host" && self.properties.virtualised.is_some();
        let all = self.part.and_then(|part| part.last_cache_most);
        let all = all.filter(|_| self.is_bound && is_guest && level > OF_ONE_CORE + 1);
        all.map_or(0.0, |all| all.0 as f64 * self.sockets())
    }

    /// Bytes that have to come from memory or go to it.
    pub fn memory_bytes(&self, point: &Point, touched: &Touched) -> f64 {
        if matches!(point, Point::Access(access) if access.access.on_chip()) {
            return 0.0;
        }
        let [.., both] = touched.beyond(self.kept(point, u32::MAX), self.conditions.hot);
        both
    }

    /// Whether what a point touches stays in a cache from one iteration to the next.
    pub fn fits_cache(&self, point: &Point) -> bool {
        let touched = match point {
            Point::Stream(stream) => stream.working_set,
            Point::Access(access) if access.access.on_chip() => return true,
            _ => point.work().memory,
        };
        self.conditions.hot && touched <= self.properties.last_level_cache()
    }

    /// Whether a stream is so long that caches do not count: four times the last of them, as
    /// STREAM's run rules ask, less what arrays are cut by to whole elements.
    pub fn is_beyond_caches(&self, point: &Point) -> bool {
        let long = (self.properties.last_level_cache() * 4).0.saturating_sub(4096);
        match point {
            Point::Access(access) if access.access.on_chip() => false,
            Point::Stream(_) | Point::Access(_) => point.work().memory.0 >= long,
            // Cold ones take turns with copies that no cache holds together: what is written
            // leaves for memory as well.
            Point::Fused(_) | Point::Recurrence(_) => {
                !self.conditions.hot || point.work().memory.0 >= long
            }
            _ => false,
        }
    }
}
