//! The operation `access`: rows in random order, mixes of reads and writes, and what belongs to
//! each unit, its shared memory and its first-level cache. Only GPUs have kernels of it.
//!
//! What is read cannot be compared, so kernels add up what they read: words as integers, a gather's
//! weighed by the place in the order at which their row is read. A row left out, read twice or
//! taken for another changes the sum.

use super::{Prepared, Rank, Unready, Workload, stream};
use fizeau_device::{Buffer, Device, DeviceError, Function, Launch};
use fizeau_domain::{
    case::{Access, AccessPoint, Case, Point},
    kernel::{AccessParams, Operation},
    outcome::Check,
    spec::Properties,
    suite::Suite,
    units::Bytes,
};

/// Words after which operands repeat: the largest prime below 2^16.
const PERIOD: u64 = 65_521;

/// What units' shared memory is filled with, and read of it at a time, by kernels/access.
const SHARED_WORDS: u64 = 4096;
const TURN: Bytes = Bytes(16 << 10);
/// Turns of one iteration on one unit: 1 MiB, some ten microseconds.
const TURNS: u64 = 64;

/// The cases of a suite.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let Some(axes) = &suite.access else { return Vec::new() };
    let properties = rank.device.properties();
    let memory = stream::memory_working_set(properties);
    let units = properties.units;
    let mut cases = Vec::new();
    for &access in &axes.ways {
        let points: Vec<AccessPoint> = match access {
            Access::Gather => axes
                .rows
                .iter()
                .map(|&row| {
                    let working_set = gathered(Bytes(row), memory, properties);
                    AccessPoint { access, working_set, row: Bytes(row), units }
                })
                .collect(),
            Access::Mix3r1w | Access::Mix1r3w => {
                vec![AccessPoint { access, working_set: memory, row: Bytes(16), units }]
            }
            Access::Shared | Access::Distributed => {
                // Clusters are of two units.
                let units = if access == Access::Distributed { units / 2 * 2 } else { units };
                let working_set = TURN * TURNS * u64::from(units);
                vec![AccessPoint { access, working_set, row: Bytes(16), units }]
            }
            Access::FirstCache => first_cache_rows(properties)
                .map(|row| {
                    let working_set = TURN * TURNS * u64::from(units);
                    AccessPoint { access, working_set, row, units }
                })
                .collect(),
        };
        let points = points.into_iter().filter(|point| point.units > 0);
        for point in points.map(Point::Access) {
            let kernels = rank.device.kernels(Operation::Access(access)).into_iter();
            cases.extend(kernels.map(|kernel| Case { kernel, point }));
        }
    }
    cases
}

/// What a unit's first-level cache of a GPU holds: on NVIDIA's the unified data cache that shared
/// memory is a part of (CUDA C++ Programming Guide 13.0, table "Technical Specifications per
/// Compute Capability" and the sections of each capability), on AMD's the vector cache of a compute
/// unit (instruction set architecture guides of CDNA 2 to 4 and RDNA 3 and 4, chapter "Memory").
/// Where a target is not listed, the smallest of those that are.
fn first_cache(target: &str) -> Bytes {
    Bytes::KIB
        * match target {
            "sm_75" => 96,
            "sm_70" | "sm_86" | "sm_89" | "sm_120" | "sm_121" => 128,
            "sm_80" | "sm_87" => 192,
            "sm_90" | "sm_100" | "sm_103" => 256,
            "gfx942" | "gfx950" | "gfx1100" | "gfx1101" | "gfx1102" | "gfx1200" | "gfx1201" => 32,
            _ => 16,
        }
}

/// What each unit reads again and again of its first-level cache: powers of two from 8 KiB to half
/// of what the cache holds, so that shared memory and the lines of other data have their place.
fn first_cache_rows(properties: &Properties) -> impl Iterator<Item = Bytes> + use<> {
    let holds = first_cache(properties.own_target().unwrap_or_default());
    (13..30).map(|power| Bytes(1 << power)).take_while(move |row| row.0 * 2 <= holds.0)
}

/// Rows of a gather at most, but where its table would not be far larger than the caches: the host
/// draws their order, which takes a second.
const ROWS_MAX: u64 = 1 << 25;

/// The table of a gather: memory's working set, or less where that has more rows than can be drawn.
fn gathered(row: Bytes, memory: Bytes, properties: &Properties) -> Bytes {
    let far_beyond_caches = (properties.last_level_cache() * 8).0.next_power_of_two();
    Bytes((row.0 * ROWS_MAX).max(far_beyond_caches).min(memory.0))
}

struct Accessing<'d> {
    device: &'d dyn Device,
    function: Function,
    point: AccessPoint,
    params: AccessParams,
    operands: Buffer,
    _order: Buffer,
    partial: Buffer,
    expected: Expected,
}

/// What should come out.
enum Expected {
    /// The sum of all blocks.
    Sum(u64),
    /// The same sum of each block.
    Each(u64),
    /// Arrays behind those that are read, each of them this pattern.
    Arrays(Vec<u64>),
}

/// Random words, the same for the same seed.
fn words(seed: u64, count: u64) -> Vec<u64> {
    let mut random = oorandom::Rand64::new(u128::from(seed));
    (0..count).map(|_| random.rand_u64()).collect()
}

/// Makes a case ready.
pub fn prepare<'r>(
    point: &AccessPoint,
    kernel: &fizeau_domain::case::KernelName,
    Rank { device, .. }: Rank<'r>,
) -> Prepared<'r> {
    let row = point.row.0;
    let is_row = row.is_power_of_two() && (TURN.0 / 2..=TURN.0 * TURNS).contains(&row);
    if point.access == Access::FirstCache && !is_row {
        let size = format!("a unit reads a power of two from 8 KiB to 1 MiB, not {}", point.row);
        return Err(Unready::Unsupported(size));
    }
    let function = device.load(Operation::Access(point.access), kernel)?;
    let partial = device.allocate(Bytes(64 * u64::from(point.units) * BLOCKS_MAX))?;
    let made = match point.access {
        Access::Gather => gather(point, device)?,
        Access::Mix3r1w | Access::Mix1r3w => mix(point, device)?,
        Access::Shared | Access::Distributed => shared(device)?,
        Access::FirstCache => first(point, device)?,
    };
    let Operands { operands, order, rows, row, expected } = made;
    let params = AccessParams {
        a: operands.address,
        order: order.address,
        partial: partial.address,
        rows,
        row,
        row_shift: u64::from((point.row.0 / 16).max(1).ilog2()),
    };
    let point = *point;
    let _order = order;
    Ok(Box::new(Accessing { device, function, point, params, operands, _order, partial, expected }))
}

/// Blocks of a kernel for each unit, at most (kernels.toml).
const BLOCKS_MAX: u64 = 2;

struct Operands {
    operands: Buffer,
    order: Buffer,
    rows: u64,
    row: u64,
    expected: Expected,
}

fn gather(point: &AccessPoint, device: &dyn Device) -> Result<Operands, DeviceError> {
    let rows = point.rows();
    let row_words = point.row.0 / 8;
    let pattern = words(rows, PERIOD);
    let operands = device.allocate(stream::in_huge_pages(point.row * rows))?;
    device.fill(&operands, Bytes(0), &pattern, rows * row_words)?;
    let mut order: Vec<u32> = (0..rows as u32).collect();
    let mut random = oorandom::Rand64::new(7);
    for at in (1..order.len()).rev() {
        order.swap(at, random.rand_range(0..at as u64 + 1) as usize);
    }
    let numbers = device.allocate(Bytes(rows * 4))?;
    device.write(&numbers, Bytes(0), bytemuck::cast_slice(&order))?;
    let before = sums_before(&pattern);
    let sum = order.iter().zip(0u64..).fold(0u64, |sum, (&row, place)| {
        let of_row = sum_of(&before, u64::from(row) * row_words, row_words);
        sum.wrapping_add(of_row.wrapping_mul(2 * place + 1))
    });
    Ok(Operands { operands, order: numbers, rows, row: point.row.0, expected: Expected::Sum(sum) })
}

/// The sums of a pattern's first 0, 1, 2 .. words.
fn sums_before(pattern: &[u64]) -> Vec<u64> {
    let mut sums = vec![0u64];
    for &word in pattern {
        sums.push(sums[sums.len() - 1].wrapping_add(word));
    }
    sums
}

/// The sum of `count` words from a place on, of an array that repeats the pattern.
fn sum_of(before: &[u64], from: u64, count: u64) -> u64 {
    let period = before.len() as u64 - 1;
    let up_to = |end: u64| {
        let whole = before[period as usize].wrapping_mul(end / period);
        whole.wrapping_add(before[(end % period) as usize])
    };
    up_to(from + count).wrapping_sub(up_to(from))
}

fn mix(point: &AccessPoint, device: &dyn Device) -> Result<Operands, DeviceError> {
    let [read, written] = point.access.mix().unwrap_or([1, 1]);
    let length = point.working_set.0 / (read + written) / 16 * 2;
    let apart = Bytes((length * 8).next_multiple_of(4096) + 2048);
    let operands = device.allocate(stream::in_huge_pages(apart * (read + written)))?;
    let mut combined = vec![0u64; PERIOD as usize];
    for at in 0..read {
        let pattern = words(at + 1, PERIOD);
        device.fill(&operands, apart * at, &pattern, length)?;
        combined.iter_mut().zip(&pattern).for_each(|(all, word)| *all ^= word);
    }
    let order = device.allocate(Bytes(8))?;
    let expected = Expected::Arrays(combined);
    Ok(Operands { operands, order, rows: length, row: apart.0, expected })
}

fn shared(device: &dyn Device) -> Result<Operands, DeviceError> {
    let pattern = words(3, SHARED_WORDS);
    let operands = device.allocate(Bytes(SHARED_WORDS * 8))?;
    device.write(&operands, Bytes(0), bytemuck::cast_slice(&pattern))?;
    let all = pattern.iter().fold(0u64, |sum, &word| sum.wrapping_add(word));
    // Two turns read all of it.
    let expected = Expected::Each(all.wrapping_mul(TURNS / 2));
    let order = device.allocate(Bytes(8))?;
    Ok(Operands { operands, order, rows: TURNS, row: 16, expected })
}

fn first(point: &AccessPoint, device: &dyn Device) -> Result<Operands, DeviceError> {
    let row = point.row;
    let pattern = words(5, row.0 / 8);
    let operands = device.allocate(stream::in_huge_pages(row))?;
    device.write(&operands, Bytes(0), bytemuck::cast_slice(&pattern))?;
    let all = pattern.iter().fold(0u64, |sum, &word| sum.wrapping_add(word));
    let times = TURN.0 * TURNS / row.0;
    let expected = Expected::Each(all.wrapping_mul(times));
    let order = device.allocate(Bytes(8))?;
    Ok(Operands { operands, order, rows: TURNS, row: row.0, expected })
}

impl Accessing<'_> {
    /// Where the arrays that are written stand, and how many there are.
    fn written(&self) -> impl Iterator<Item = Bytes> + use<> {
        let [read, written] = self.point.access.mix().unwrap_or([0, 0]);
        let apart = Bytes(self.params.row);
        (read..read + written).map(move |at| apart * at)
    }

    /// The sums that blocks left: nothing for those that there were not.
    fn sums(&self) -> Result<Vec<u64>, DeviceError> {
        let mut bytes = vec![0u8; self.partial.size.0 as usize];
        self.device.read(&self.partial, Bytes(0), &mut bytes)?;
        let first =
            |place: &[u8]| place[..8].iter().rev().fold(0, |all, &b| all << 8 | u64::from(b));
        Ok(bytes.chunks_exact(64).map(first).filter(|&sum| sum != 0).collect())
    }
}

impl Workload for Accessing<'_> {
    fn enqueue(&mut self, repeat: u32) -> Result<(), DeviceError> {
        let (function, params) = (&self.function, &self.params);
        self.device.launch(&Launch {
            function,
            blocks: self.point.units,
            repeat,
            params: (*params).into(),
        })
    }

    fn poison(&mut self) -> Result<(), DeviceError> {
        let zeros = vec![0u8; self.partial.size.0 as usize];
        self.device.write(&self.partial, Bytes(0), &zeros)?;
        self.written().try_for_each(|at| {
            self.device.fill(&self.operands, at, &[0x5a; 1024], self.params.rows)
        })
    }

    fn verify(&mut self) -> Result<Check, DeviceError> {
        let mut check = Check::NONE;
        let mut equal =
            |got: u64, wanted: u64| check.count(f64::from(u8::from(got != wanted)), 0.0);
        match &self.expected {
            Expected::Sum(sum) => {
                equal(self.sums()?.iter().fold(0, |all: u64, &sum| all.wrapping_add(sum)), *sum);
            }
            Expected::Each(sum) => {
                let sums = self.sums()?;
                equal(sums.len() as u64, u64::from(self.point.units));
                sums.iter().for_each(|&got| equal(got, *sum));
            }
            Expected::Arrays(pattern) => {
                for at in self.written() {
                    let words = self.params.rows;
                    let wrong = differing(self.device, &self.operands, at, pattern, words)?;
                    check.compared += words;
                    check.wrong += wrong;
                    check.error = check.error.max(wrong as f64);
                }
            }
        }
        Ok(check)
    }
}

/// How many words of an array differ from a pattern that it should repeat: the device says, or all
/// of them are read.
pub(super) fn differing(
    device: &dyn Device,
    buffer: &Buffer,
    offset: Bytes,
    pattern: &[u64],
    words: u64,
) -> Result<u64, DeviceError> {
    if let Some(count) = device.differing(buffer, offset, pattern, words)? {
        return Ok(count);
    }
    let period = pattern.len() as u64;
    let mut got = vec![0u64; pattern.len()];
    let mut wrong = 0;
    for turn in 0..words.div_ceil(period) {
        let count = period.min(words - turn * period) as usize;
        let at = offset + Bytes(turn * period * 8);
        device.read(buffer, at, bytemuck::cast_slice_mut(&mut got[..count]))?;
        wrong += got[..count].iter().zip(pattern).filter(|(got, word)| got != word).count() as u64;
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_ranges_are_those_of_their_words() {
        let pattern = words(1, 7);
        let array: Vec<u64> = pattern.iter().cycle().take(40).copied().collect();
        let before = sums_before(&pattern);
        for (from, count) in [(0, 0), (0, 7), (3, 9), (13, 27), (39, 1)] {
            let wanted = array[from..from + count].iter().fold(0u64, |s, &w| s.wrapping_add(w));
            assert_eq!(sum_of(&before, from as u64, count as u64), wanted);
        }
    }
}
