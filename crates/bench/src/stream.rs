//! The operation `stream`: the bandwidth of memory and caches.
//!
//! Three families of cases. *Memory*: a working set of four times the last-level cache, all units,
//! every kernel. *Scaling*: the same with 1, 2, 4 .. units. *Sweep*: working sets from half the
//! first cache up to memory on one unit, so that each cache shows as a step; its kernel is one that
//! stores through the caches.
//!
//! Every element of the output is compared with the same operation done in `f64` on the host.
//! Assignments round at most once, or twice where a product is not fused with its sum; a sum of
//! products is compared with a compensated one. `read` adds up the bits of what it reads as
//! integers, exactly: additions of `f64` take longer than memory on GPUs that have few units for
//! them.

use super::{
    Prepared, Rank, Unready, Workload,
    verify::{self, Expected, Pattern},
};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{Case, KernelName, Point, StreamOperation, StreamPoint},
    kernel::{Operation, StreamParams},
    outcome::Check,
    spec::Properties,
    suite::Suite,
    units::Bytes,
};

/// The scalar `s`: no power of two, so that every product rounds.
const SCALE: f64 = 0.7;

/// The first cache where its size is unknown: the smallest in use.
const FIRST_CACHE_MIN: Bytes = Bytes(32 << 10);

/// From the end of one array (a whole page) to the start of the next, so that no two arrays are at
/// the same place in their pages: a load that follows a store to an address with the same low 12
/// bits waits for it ("4K aliasing", Intel's optimisation manual), and the sets of a cache are
/// shared evenly. A multiple of 128 bytes, the longest line of a cache: 32 lanes that load 16 bytes
/// each then touch 4 lines, not 5.
const SKEW: Bytes = Bytes(1280);

/// The cases of a suite.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.stream else { return Vec::new() };
    let properties = rank.device.properties();
    let kernels = |stream| rank.device.kernels(Operation::Stream(stream));
    let memory = memory_working_set(properties);
    let units = properties.units;
    let case = |stream, working_set, units, kernel| Case {
        kernel,
        point: Point::Stream(StreamPoint { stream, working_set, units }),
    };
    let mut cases = Vec::new();
    for &stream in &axes.memory {
        cases.extend(kernels(stream).into_iter().map(|kernel| case(stream, memory, units, kernel)));
    }
    for &stream in &axes.scaling {
        if let Some(best) = kernels(stream).first() {
            let counts = scaling(units).into_iter();
            cases.extend(counts.map(|count| case(stream, memory, count, best.clone())));
        }
    }
    for &stream in &axes.sweep {
        if let Some(cached) = kernels(stream).iter().find(|kernel| !stores_past_caches(kernel)) {
            for units in axes.sweep_units.iter().map(|wanted| wanted.of(properties)) {
                let start = sweep_start(properties, units);
                let sizes = sweep(start, memory, axes.sweep_points_per_octave).into_iter();
                cases.extend(sizes.map(|size| case(stream, size, units, cached.clone())));
            }
        }
    }
    let cache = half_of_last_cache(properties);
    for (&stream, working_set) in axes.last_cache.iter().flat_map(|one| Some(one).zip(cache)) {
        let cached = kernels(stream).into_iter().filter(|kernel| !stores_past_caches(kernel));
        cases.extend(cached.map(|kernel| case(stream, working_set, units, kernel)));
    }
    let mut seen = std::collections::HashSet::new();
    cases.retain(|case| seen.insert(case.clone()));
    cases
}

/// Half of the last-level cache in whole KiB, where there is one.
fn half_of_last_cache(properties: &Properties) -> Option<Bytes> {
    let half = Bytes(properties.last_level_cache().0 / 2 / 1024 * 1024);
    (half.0 > 0).then_some(half)
}

/// Where a sweep starts: half of the first cache of each unit, or of each die where a die's units
/// share it; a sixteenth of a first cache that all units share, which holds enough for each.
fn sweep_start(properties: &Properties, units: u32) -> Bytes {
    match properties.caches.first() {
        Some(first) if first.shared_by > 1 && first.shared_by >= properties.units => {
            Bytes(first.size.0 / 16)
        }
        Some(first) if first.level > 1 => {
            Bytes(first.size.0 / 2) * u64::from(units.div_ceil(first.shared_by.max(1)))
        }
        Some(first) => Bytes(first.size.0 / 2) * u64::from(units),
        None => Bytes(FIRST_CACHE_MIN.0 / 2) * u64::from(units),
    }
}

/// Whether a kernel, by its name, stores past the caches.
fn stores_past_caches(kernel: &KernelName) -> bool {
    kernel.0.split('_').any(|word| word == "nt")
}

/// Blocks of a kernel for each unit, at most (kernels/amd.toml).
const BLOCKS_MAX: u64 = 4;

/// Whether a device is a GPU, by its backend.
pub fn is_gpu(properties: &Properties) -> bool {
    matches!(properties.backend.as_str(), "cuda" | "hip")
}

/// The least working set that stands for a GPU's memory: a launch of 0.4 ms and more on the fastest
/// of 2026, of which ramp-up and tail of some 5 us are about 1 %.
const GPU_MEMORY: Bytes = Bytes(2 << 30);

/// The working set that stands for memory, a power of two.
///
/// On the host it is four times the last-level cache, as STREAM's rules ask, and never less than
/// 128 MiB. A GPU's caches replace lines at random and keep some of a stream that is not much
/// larger than they are, so there it is sixteen times, 2 GiB at least, but no more than a sixteenth
/// of the memory where four times the cache is less than that.
pub fn memory_working_set(properties: &Properties) -> Bytes {
    let cache = properties.last_level_cache();
    let least = (cache * 4).0.max(128 << 20).next_power_of_two();
    if !is_gpu(properties) {
        return Bytes(least);
    }
    let wanted = (cache * 16).0.max(GPU_MEMORY.0).next_power_of_two();
    let allowed = 1 << (properties.memory.0 / 16).max(1).ilog2();
    Bytes(wanted.min(allowed).max(least))
}

/// 1, 2, 4 .. and all.
fn scaling(units: u32) -> Vec<u32> {
    let mut counts: Vec<u32> =
        (0..32).map(|power| 1 << power).take_while(|&count| count < units).collect();
    counts.push(units.max(1));
    counts
}

/// Working sets from `start` to `end`, `points` in each doubling, in whole KiB.
pub(super) fn sweep(start: Bytes, end: Bytes, points_per_octave: u32) -> Vec<Bytes> {
    let step = |index: u32| f64::from(index) / f64::from(points_per_octave.max(1));
    let mut sizes: Vec<Bytes> = (0..)
        .map(|index| (start.0.max(1024) as f64 * step(index).exp2()).round() as u64)
        .take_while(|&size| size < end.0)
        // To a 64th of an octave: the ids stay readable, and no cache has finer steps.
        .map(|size| Bytes(size.next_multiple_of((size.next_power_of_two() / 128).max(1024))))
        .collect();
    sizes.push(end);
    sizes.dedup();
    sizes
}

/// What to allocate for operands of a size: as much at least as the host maps in huge pages. Those
/// are physically contiguous and translated at once, so that a small working set meets the caches
/// and nothing else.
pub(super) fn in_huge_pages(size: Bytes) -> Bytes {
    Bytes(size.0.max(2 << 20))
}

/// Makes a case ready.
pub fn prepare<'r>(point: &StreamPoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    if point.length() == 0 {
        return Err(Unready::Unsupported("the working set holds no element".into()));
    }
    Ok(Box::new(Stream::new(point, kernel, rank.device)?))
}

/// A stream made ready.
struct Stream<'r> {
    device: &'r dyn Device,
    function: Function,
    point: StreamPoint,
    params: StreamParams,
    arrays: Buffer,
    partial: Buffer,
    expected: Reference,
}

/// What should come out.
enum Reference {
    /// In the array `a`.
    Array(Expected),
    /// As a sum: its value, and that of its terms without their signs.
    Sum(f64, f64),
    /// As a sum of all elements' bits, modulo 2^64.
    Words(u64),
}

impl<'r> Stream<'r> {
    fn new(
        point: &StreamPoint,
        kernel: &KernelName,
        device: &'r dyn Device,
    ) -> Result<Stream<'r>, DeviceError> {
        let function = device.load(Operation::Stream(point.stream), kernel)?;
        let (count, length) = (point.stream.arrays(), point.length());
        let stride = Bytes((length * 8).next_multiple_of(4096)) + SKEW;
        let size = stride * (count - 1) + Bytes(length * 8);
        let arrays = device.allocate(in_huge_pages(size))?;
        let partial = device.allocate(Bytes(64 * u64::from(point.units) * BLOCKS_MAX))?;
        let at = |place: u64| if place < count { arrays.address + stride.0 * place } else { 0 };
        let params = StreamParams {
            a: at(0),
            b: at(1),
            c: at(2),
            partial: partial.address,
            length,
            scale: SCALE,
        };
        let patterns = [1, 2, 3].map(Pattern::random);
        for (place, pattern) in (0..count).zip(&patterns) {
            pattern.fill(device, &arrays, stride * place, length)?;
        }
        let expected = reference(point.stream, length, &patterns);
        Ok(Stream { device, function, point: *point, params, arrays, partial, expected })
    }
}

/// The operation itself, on the arrays' patterns.
fn reference(stream: StreamOperation, length: u64, [a, b, c]: &[Pattern; 3]) -> Reference {
    let array = |values: Pattern, magnitudes: Pattern, tolerance| {
        Reference::Array(Expected { values, magnitudes, tolerance })
    };
    let exact = |values: Pattern| array(values.clone(), values.map(f64::abs), 0.0);
    let sum = |terms: Pattern| Reference::Sum(terms.sum(length), terms.map(f64::abs).sum(length));
    match stream {
        StreamOperation::Read => Reference::Words(a.sum_of_bits(length)),
        StreamOperation::Dot => sum(a.with(b, |a, b| a * b)),
        StreamOperation::Write => exact(Pattern::of(SCALE)),
        StreamOperation::Copy => exact(b.clone()),
        StreamOperation::Scale => exact(b.map(|b| SCALE * b)),
        StreamOperation::Add => exact(b.with(c, |b, c| b + c)),
        // Rounded once or twice, both sides: two unit roundoffs and a little of the terms.
        StreamOperation::Triad => array(
            b.with(c, |b, c| SCALE.mul_add(c, b)),
            b.with(c, |b, c| b.abs() + (SCALE * c).abs()),
            2.0 * f64::EPSILON,
        ),
    }
}

impl Stream<'_> {
    /// What blocks left, as bits.
    fn sums(&self) -> Result<Vec<u64>, DeviceError> {
        let blocks = u64::from(self.point.units) * BLOCKS_MAX;
        let sum = |block| {
            let mut bytes = [0; 8];
            self.device.read(&self.partial, Bytes(64 * block), &mut bytes)?;
            Ok(u64::from_ne_bytes(bytes))
        };
        (0..blocks).map(sum).collect()
    }
}

impl Workload for Stream<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        self.device.launch(&Launch {
            function: &self.function,
            blocks: self.point.units,
            repeat,
            params: self.params.into(),
        })
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        match self.expected {
            Reference::Array(_) => {
                let nothing = Pattern::of(f64::NAN);
                nothing.fill(self.device, &self.arrays, Bytes(0), self.params.length)
            }
            Reference::Sum(..) | Reference::Words(_) => {
                // Every kernel has a block for each unit at least; what those beyond leave out is
                // missing in the sum.
                let units = u64::from(self.point.units);
                (0..units * BLOCKS_MAX).try_for_each(|block| {
                    let nothing = if block < units { f64::NAN } else { 0.0 };
                    self.device.write(&self.partial, Bytes(64 * block), &nothing.to_ne_bytes())
                })
            }
        }
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let length = self.params.length;
        match &self.expected {
            Reference::Array(expected) => {
                expected.compare(self.device, &self.arrays, Bytes(0), length)
            }
            &Reference::Sum(wanted, magnitude) => {
                let sums: Vec<f64> = self.sums()?.into_iter().map(f64::from_bits).collect();
                let tolerance = verify::sum_tolerance(length);
                Ok(verify::compare_one(verify::sum(&sums), wanted, magnitude, tolerance))
            }
            &Reference::Words(wanted) => {
                let got = self.sums()?.into_iter().fold(0, u64::wrapping_add);
                let mut check = Check::NONE;
                check.count(f64::from(u8::from(got != wanted)), 0.0);
                Ok(check)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_domain::spec::CacheLevel;

    #[test]
    fn sweeps_go_from_end_to_end_in_whole_kibibytes() {
        let sizes = sweep(Bytes::KIB * 24, Bytes::MIB * 256, 2);
        assert_eq!(sizes[..3], [Bytes::KIB * 24, Bytes::KIB * 34, Bytes::KIB * 48]);
        assert_eq!(sizes.last(), Some(&(Bytes::MIB * 256)));
        assert!(sizes.is_sorted() && sizes.iter().all(|size| size.0 % 1024 == 0), "{sizes:?}");
        let doublings = sweep(Bytes::KIB * 4, Bytes::MIB, 1);
        assert_eq!(doublings, Vec::from_iter((12..=20).map(|shift| Bytes(1 << shift))));
    }

    #[test]
    fn a_sweep_of_dies_starts_within_their_caches_and_ends_far_beyond_the_last() {
        let cache =
            |level, size: Bytes, shared_by| CacheLevel { level, size, shared_by, line: Bytes(128) };
        let caches = vec![cache(2, Bytes::MIB * 4, 38), cache(3, Bytes::MIB * 256, 304)];
        let backend = "hip".into();
        let dies = Properties { backend, units: 304, caches, ..Properties::default() };
        assert_eq!(sweep_start(&dies, 304), Bytes::MIB * 16);
        assert_eq!(sweep_start(&dies, 1), Bytes::MIB * 2);
        let caches = vec![cache(2, Bytes::MIB * 8, 104)];
        let one = Properties { units: 104, caches, ..dies };
        assert_eq!(sweep_start(&one, 104), Bytes::KIB * 512);
    }

    #[test]
    fn memory_is_far_larger_than_caches_and_a_small_part_of_itself() {
        let with = |backend: &str, cache: Bytes, memory: Bytes| {
            let level = CacheLevel { level: 2, size: cache, shared_by: 100, line: Bytes(128) };
            let backend = backend.to_owned();
            let caches = vec![level];
            let given = Properties { backend, units: 100, caches, memory, ..Properties::default() };
            memory_working_set(&given).0 >> 20
        };
        let gib = |count: u64| Bytes(count << 30);
        // H200, B200, MI300X with its Infinity Cache.
        assert_eq!(with("cuda", Bytes::MIB * 60, gib(141)), 2048);
        assert_eq!(with("cuda", Bytes::MIB * 126, gib(180)), 2048);
        assert_eq!(with("hip", Bytes::MIB * 256, gib(192)), 4096);
        // A card of 24 GiB with 72 MiB of cache: a sixteenth of its memory.
        assert_eq!(with("cuda", Bytes::MIB * 72, gib(24)), 1024);
        // Whatever the memory, four times the cache.
        assert_eq!(with("cuda", Bytes::MIB * 72, gib(2)), 512);
        assert_eq!(with("host", Bytes::MIB * 32, gib(24)), 128);
    }

    #[test]
    fn arrays_begin_where_lines_do_but_apart_in_their_pages() {
        assert!(SKEW.0.is_multiple_of(128) && SKEW.0 < 4096 / 3);
    }

    #[test]
    fn units_double_up_to_all() {
        assert_eq!(scaling(1), [1]);
        assert_eq!(scaling(6), [1, 2, 4, 6]);
        assert_eq!(scaling(8), [1, 2, 4, 8]);
    }

    #[test]
    fn stores_past_caches_show_in_names() {
        let past = |name: &str| stores_past_caches(&KernelName(name.into()));
        assert!(past("avx512_nt") && past("avx2_nt_4s") && !past("avx512_4s") && !past("sent"));
    }
}
