//! Bandwidth by the STREAM operations: over memory, over fewer units, and over working sets from
//! the first cache to memory.

use super::{Rank, Unready, Workload, random};
use crate::{
    case::{Case, KernelName, Point, StreamOperation, StreamPoint},
    device::{Buffer, Device, DeviceError, Function, Launch},
    kernel::StreamParams,
    outcome::Check,
    spec::Properties,
    suite::Suite,
    units::Bytes,
};

/// A working set counts as memory's from this many last-level caches on (STREAM's run rule).
const CACHES_MIN: u64 = 4;

/// Arrays of one case start this far apart modulo a page, so that the same element of two arrays
/// never falls into the same set of a first-level cache (4 KiB aliasing).
const SKEW: u64 = 1024 + 256;

/// The scalar `s`: with it a triad's error is bounded by its operands.
const SCALE: f64 = 0.4;

/// Elements that pass through the host at once.
const CHUNK: usize = 1 << 16;

/// The working set that stands for memory: a power of two, four last-level caches at least.
pub fn memory_working_set(properties: &Properties) -> Bytes {
    let least = properties.last_level_cache() * CACHES_MIN;
    Bytes(least.max(Bytes::MIB * 128).0.next_power_of_two())
}

/// Sizes from half the first cache (or 16 KiB) to memory's, `per_octave` in each doubling, whole
/// KiB.
pub fn sweep(properties: &Properties, per_octave: u32) -> Vec<Bytes> {
    let first = properties.caches.first().map_or(32 << 10, |cache| cache.size.0);
    let (low, high) = ((first / 4).max(4 << 10), memory_working_set(properties).0);
    let per_octave = per_octave.max(1);
    let octaves = (high as f64 / low as f64).log2().ceil() as u32;
    let size = |step: u32| low as f64 * 2f64.powf(f64::from(step) / f64::from(per_octave));
    let mut sizes: Vec<Bytes> = (0..=octaves * per_octave)
        .map(|step| Bytes((size(step) / 1024.0).round() as u64 * 1024))
        .filter(|size| size.0 <= high)
        .collect();
    sizes.dedup();
    sizes
}

/// The cases of a suite.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.stream else { return Vec::new() };
    let properties = rank.device.properties();
    let kernels = |stream| rank.device.kernels(&operation(stream));
    let memory = memory_working_set(properties);
    let case = |stream, working_set, units, kernel: &KernelName| Case {
        kernel: kernel.clone(),
        point: Point::Stream(StreamPoint { stream, working_set, units }),
    };
    let mut plan = Vec::new();
    for &stream in &axes.memory {
        let kernels = kernels(stream).into_iter();
        plan.extend(kernels.map(|kernel| case(stream, memory, properties.units, &kernel)));
    }
    for &stream in &axes.scaling {
        let fewer = (0..32).map(|shift| 1u32 << shift).take_while(|&n| n < properties.units);
        if let Some(kernel) = first_choice(&kernels(stream), Place::Memory) {
            plan.extend(fewer.map(|units| case(stream, memory, units, &kernel)));
        }
    }
    for &stream in &axes.sweep {
        if let Some(kernel) = first_choice(&kernels(stream), Place::Cache) {
            let sizes = sweep(properties, axes.sweep_points_per_octave).into_iter();
            plan.extend(sizes.map(|size| case(stream, size, 1, &kernel)));
        }
    }
    let mut seen = std::collections::HashSet::new();
    plan.retain(|case| seen.insert(case.clone()));
    plan
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Memory,
    Cache,
}

/// The kernel of a sweep: the first that stores past the caches where the working set is in
/// memory, the first that does not where it may be in a cache.
fn first_choice(kernels: &[KernelName], place: Place) -> Option<KernelName> {
    let past = |kernel: &&KernelName| kernel.0.contains("_nt") == (place == Place::Memory);
    kernels.iter().find(past).or_else(|| kernels.first()).cloned()
}

/// Under which name a device lists the kernels of an operation.
fn operation(stream: StreamOperation) -> String {
    format!("stream/{stream}")
}

struct StreamWorkload<'d> {
    device: &'d dyn Device,
    function: Function,
    params: StreamParams,
    point: StreamPoint,
    /// All arrays, one behind the other.
    arrays: Buffer,
    offsets: [u64; 3],
    partial: Buffer,
}

/// Allocates the arrays and fills them with random data.
pub fn prepare<'r>(
    point: &StreamPoint,
    kernel: &KernelName,
    Rank { device, .. }: Rank<'r>,
) -> Result<Box<dyn Workload + 'r>, Unready> {
    let function = device.load(&operation(point.stream), kernel)?;
    let length = point.length();
    if length == 0 {
        return Err(Unready::Unsupported("the working set holds no element".into()));
    }
    let stride = (length * 8).next_multiple_of(4096) + SKEW;
    let count = point.stream.arrays();
    let arrays = device.allocate(Bytes(stride * count))?;
    let partial = device.allocate(Bytes(64 * u64::from(point.units)))?;
    let offsets = [0, stride.min(stride * (count - 1)), stride * (count - 1)];
    let at = |index: usize| arrays.address + offsets[index];
    let params = StreamParams {
        a: at(0),
        b: at(1),
        c: at(2),
        partial: partial.address,
        length,
        scale: SCALE,
    };
    let workload =
        StreamWorkload { device, function, params, point: *point, arrays, offsets, partial };
    for array in workload.inputs() {
        workload.fill(array, |at| random::uniform(array as u64, at))?;
    }
    Ok(Box::new(workload))
}

impl StreamWorkload<'_> {
    /// The arrays that are only read.
    fn inputs(&self) -> std::ops::Range<usize> {
        match self.point.stream {
            StreamOperation::Read => 0..1,
            StreamOperation::Dot => 0..2,
            StreamOperation::Write => 0..0,
            StreamOperation::Copy | StreamOperation::Scale => 1..2,
            StreamOperation::Add | StreamOperation::Triad => 1..3,
        }
    }

    fn reduces(&self) -> bool {
        matches!(self.point.stream, StreamOperation::Read | StreamOperation::Dot)
    }

    fn fill(&self, array: usize, value: impl Fn(u64) -> f64) -> Result<(), DeviceError> {
        let mut chunk = Vec::with_capacity(CHUNK);
        for start in (0..self.params.length).step_by(CHUNK) {
            let end = (start + CHUNK as u64).min(self.params.length);
            chunk.clear();
            chunk.extend((start..end).map(&value));
            let offset = Bytes(self.offsets[array] + start * 8);
            self.device.write(&self.arrays, offset, bytemuck::cast_slice(&chunk))?;
        }
        Ok(())
    }

    /// What element `at` of the output has to be, and the magnitude its rounding is relative to.
    fn expected(&self, at: u64) -> (f64, f64) {
        let (b, c) = (random::uniform(1, at), random::uniform(2, at));
        match self.point.stream {
            StreamOperation::Write => (SCALE, 0.0),
            StreamOperation::Copy => (b, 0.0),
            StreamOperation::Scale => (SCALE * b, (SCALE * b).abs()),
            StreamOperation::Add => (b + c, b.abs() + c.abs()),
            StreamOperation::Triad => (b + SCALE * c, b.abs() + (SCALE * c).abs()),
            StreamOperation::Read | StreamOperation::Dot => (0.0, 0.0),
        }
    }

    fn verify_map(&self) -> Result<Check, DeviceError> {
        let mut check = Check { tolerance: 2.0 * f64::EPSILON, ..Check::NONE };
        let mut bytes = vec![0u8; CHUNK * 8];
        for start in (0..self.params.length).step_by(CHUNK) {
            let count = (self.params.length - start).min(CHUNK as u64) as usize;
            let bytes = &mut bytes[..count * 8];
            self.device.read(&self.arrays, Bytes(self.offsets[0] + start * 8), bytes)?;
            for (at, found) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let (expected, magnitude) = self.expected(start + at as u64);
                let found = f64::from_le_bytes(*found);
                check.count((found - expected).abs(), magnitude);
            }
        }
        Ok(check)
    }

    /// Sums against compensated ones; the bound is that of summation in any order (Higham, 4.2),
    /// relative to the sum of magnitudes.
    fn verify_sum(&self) -> Result<Check, DeviceError> {
        let (mut sum, mut lost, mut magnitudes) = (0.0f64, 0.0f64, 0.0f64);
        for at in 0..self.params.length {
            let a = random::uniform(0, at);
            let term = match self.point.stream {
                StreamOperation::Dot => a * random::uniform(1, at),
                _ => a,
            };
            let next = sum + term;
            lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
            sum = next;
            magnitudes += term.abs();
        }
        let mut found = 0.0;
        for block in 0..self.point.units {
            let mut bytes = [0u8; 8];
            self.device.read(&self.partial, Bytes(64 * u64::from(block)), &mut bytes)?;
            found += f64::from_le_bytes(bytes);
        }
        let terms = self.params.length as f64;
        // A vectorised sum adds at most this many terms one after the other in each lane.
        let tolerance = terms.sqrt().max(64.0) * 4.0 * f64::EPSILON;
        let mut check = Check { tolerance, ..Check::NONE };
        check.count((found - (sum + lost)).abs(), magnitudes);
        Ok(check)
    }
}

impl Workload for StreamWorkload<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        self.device.launch(&Launch {
            function: &self.function,
            blocks: self.point.units,
            repeat,
            params: &self.params,
        })
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        for block in 0..self.point.units {
            let nan = f64::NAN.to_le_bytes();
            self.device.write(&self.partial, Bytes(64 * u64::from(block)), &nan)?;
        }
        if self.reduces() { Ok(()) } else { self.fill(0, |_| f64::NAN) }
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        if self.reduces() { self.verify_sum() } else { self.verify_map() }
    }
}
