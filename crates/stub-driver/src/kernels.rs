//! The kernels that tests launch, done by the host: what they leave is right, how long they say
//! they took is made up. Parameters are read by the offsets of kernels/include/params.h, written
//! down here a second time: a slip on either side shows as a wrong result.

use crate::{attention, check, memory::Memory, scaled};

/// What a launch costs, what memory moves and what arithmetic does in a nanosecond.
pub const LAUNCH: f64 = 2_000.0;
const BYTES: f64 = 100.0;
pub const FLOPS: f64 = 100.0;

/// The clock that [`clock`] lets be seen, in cycles a nanosecond.
const CLOCK: f64 = 1.0;

/// Whether there is an entry of this name.
pub fn knows(name: &str) -> bool {
    let other = [
        "latency_chase",
        "latency_probe",
        "latency_side",
        "util_clock",
        "util_hold",
        "util_fill",
        "util_compare",
        "transfer_copy",
        "launch_count",
        "access_gather",
        "access_mix_3r1w",
        "access_mix_1r3w",
        "access_shared",
        "access_distributed",
    ]
    .contains(&name);
    other
        || check::kind(name).is_some()
        || attention::dtypes(name).is_some()
        || stream(name).is_some()
        || product(name).is_some()
        || grouped(name).is_some()
        || name.starts_with("compute_")
}

/// Does what an entry does; the nanoseconds it says it took, or nothing where it reached beyond
/// its memory or was given parameters of another length.
pub fn run(name: &str, params: &[u8], blocks: u64, memory: &mut Memory) -> Result<f64, ()> {
    let params = Parameters(params);
    if let Some(dtypes) = attention::dtypes(name) {
        // Tensor maps may stand behind its 136 bytes.
        let done = attention::run(params, dtypes, memory);
        return done.map(|done| LAUNCH + 2.0 * done / FLOPS).ok_or(());
    }
    if let Some(dtype) = grouped(name) {
        return products(dtype, params, memory).ok_or(());
    }
    if check::kind(name).is_some() {
        return check::run(name, params, blocks, memory).ok_or(());
    }
    let took = match (name, product(name)) {
        ("latency_chase", _) => chase(params, memory),
        ("latency_probe", _) => probe(params, memory),
        ("latency_side", _) => side(params, memory),
        (counting, _) if counting.starts_with("compute_") => compute(params, blocks, memory),
        ("util_clock", _) => clock(params, blocks, memory),
        ("util_hold", _) => hold(params, memory),
        ("util_fill", _) => fill(params, memory),
        ("util_compare", _) => compare(params, memory),
        ("transfer_copy", _) => transfer(params, memory),
        ("launch_count", _) => count(params, memory),
        ("access_gather", _) => gather(params, memory),
        ("access_mix_3r1w", _) => mix(params, memory, 3, 1),
        ("access_mix_1r3w", _) => mix(params, memory, 1, 3),
        ("access_shared" | "access_distributed", _) => shared(params, blocks, memory),
        (_, Some("f32" | "tf32")) => gemm(params, memory, |x: f32| f64::from(x), |x| x as f32),
        (_, Some("f64")) => gemm(params, memory, |x: f64| x, |x| x),
        (_, Some("bf16")) => gemm(params, memory, widened, narrowed),
        (_, Some(dtype)) if scaled::format(dtype).is_some() => {
            scaled::format(dtype).and_then(|format| scaled::product(params, format, memory))
        }
        (_, Some("int8")) => gemm(params, memory, |x: i8| f64::from(x), |x| x as i32),
        _ => stream(name).and_then(|operation| run_stream(operation, params, blocks, memory)),
    };
    took.ok_or(())
}

/// The bytes that a launch was given.
#[derive(Clone, Copy)]
pub struct Parameters<'p>(&'p [u8]);

impl Parameters<'_> {
    /// Itself, where it is that long.
    pub fn sized(self, length: usize) -> Option<Self> {
        (self.0.len() == length).then_some(self)
    }

    /// The word of 64 bits at an offset.
    pub fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }

    /// The word of 32 bits at an offset.
    pub fn u32(self, at: usize) -> Option<u64> {
        Some(u64::from(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?)))
    }
}

/// The operation of a stream's entry: `stream_copy`, `stream_copy_nt`, `stream_copy_nt_once`.
fn stream(name: &str) -> Option<&str> {
    let operation = name.strip_prefix("stream_")?.split('_').next()?;
    let known = ["read", "write", "copy", "scale", "add", "triad", "dot"];
    known.into_iter().find(|&known| known == operation)
}

/// The element type of a product's entry: `gemm_bf16`, `gemm_bf16_mma`.
fn product(name: &str) -> Option<&str> {
    let dtype = name.strip_prefix("gemm_")?.split('_').next()?;
    ["f32", "tf32", "f64", "bf16", "int8", "mxfp8", "mxfp4", "nvfp4", "fp8block"]
        .into_iter()
        .find(|&known| known == dtype)
}

/// The element type of the entry of products for groups: `grouped_bf16`, `grouped_bf16_mma`.
fn grouped(name: &str) -> Option<&str> {
    let dtype = name.strip_prefix("grouped_")?.split('_').next()?;
    ["f32", "bf16"].into_iter().find(|&known| known == dtype)
}

fn run_stream(
    operation: &str,
    params: Parameters<'_>,
    blocks: u64,
    memory: &mut Memory,
) -> Option<f64> {
    // Where the kernel repeats, how often stands behind.
    let (params, repeat) = match params.sized(52) {
        Some(params) => (params, params.u32(48)?),
        None => (params.sized(48)?, 1),
    };
    let [a, b, c, partial, length] = [0, 8, 16, 24, 32].map(|at| params.u64(at));
    let (a, b, c, partial, length) = (a?, b?, c?, partial?, length?);
    let scale = f64::from_bits(params.u64(40)?);
    let mut load = |address| memory.load::<f64>(address, length);
    let zip = |one: Vec<f64>, other: Vec<f64>, f: fn(f64, f64, f64) -> f64| -> Vec<f64> {
        one.iter().zip(&other).map(|(&one, &other)| f(one, other, scale)).collect()
    };
    let (result, arrays): (Vec<f64>, u64) = match operation {
        "write" => (vec![scale; length as usize], 1),
        "read" => (load(a)?, 1),
        "copy" => (load(b)?, 2),
        "scale" => (load(b)?.iter().map(|b| scale * b).collect(), 2),
        "add" => (zip(load(b)?, load(c)?, |b, c, _| b + c), 3),
        "triad" => (zip(load(b)?, load(c)?, |b, c, s| s.mul_add(c, b)), 3),
        _ => (zip(load(a)?, load(b)?, |a, b, _| a * b), 2),
    };
    if matches!(operation, "read" | "dot") {
        for block in 0..blocks {
            let [from, end] = [block, block + 1].map(|edge| (length * edge / blocks) as usize);
            memory.store(partial + 64 * block, &[result[from..end].iter().sum::<f64>()])?;
        }
    } else {
        memory.store(a, &result)?;
    }
    Some(LAUNCH + (length * 8 * arrays * repeat) as f64 / BYTES)
}

/// Target, pattern, words of both.
fn fill(params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(32)?;
    let (length, period) = (params.u64(16)?, params.u64(24)?);
    let pattern = memory.load::<u64>(params.u64(8)?, period)?;
    let words: Vec<u64> = pattern.iter().cycle().take(length as usize).copied().collect();
    memory.store(params.u64(0)?, &words)?;
    Some(LAUNCH + (length * 8) as f64 / BYTES)
}

/// Values, pattern, words of both, where to count.
fn compare(params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(40)?;
    let (length, period) = (params.u64(16)?, params.u64(24)?);
    let values = memory.load::<u64>(params.u64(0)?, length)?;
    let pattern = memory.load::<u64>(params.u64(8)?, period)?;
    let differing = values.iter().zip(pattern.iter().cycle()).filter(|(a, b)| a != b).count();
    let at = params.u64(32)?;
    let before = memory.load::<u64>(at, 1)?[0];
    memory.store(at, &[before + differing as u64])?;
    Some(LAUNCH + (length * 8) as f64 / BYTES)
}

/// To, from, bytes; whose engine and which lane are the host's.
fn transfer(params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(32)?;
    let length = params.u64(16)?;
    let words = memory.load::<u64>(params.u64(8)?, length / 8)?;
    memory.store(params.u64(0)?, &words)?;
    // A link is slower than memory.
    Some(LAUNCH + length as f64 / (BYTES / 5.0))
}

/// The word to count in; how many in a graph is the host's.
fn count(params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let at = params.sized(16)?.u64(0)?;
    let before = memory.load::<u64>(at, 1)?[0];
    memory.store(at, &[before + 1])?;
    Some(LAUNCH)
}

/// Table, order, sums, rows, bytes of a row, its shift.
fn gather(params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(48)?;
    let (rows, row) = (params.u64(24)?, params.u64(32)?);
    if row != 16 << params.u64(40)? {
        return None;
    }
    let order = memory.load::<u32>(params.u64(8)?, rows)?;
    let table = memory.bytes(params.u64(0)?, (rows * row) as usize)?;
    let of_row = |at: u32| -> u64 {
        let words = table[at as usize * row as usize..][..row as usize].chunks_exact(8);
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b));
        words.map(word).fold(0, |sum, word| sum.wrapping_add(word))
    };
    let sum = order
        .iter()
        .zip(0u64..)
        .fold(0u64, |sum, (&at, place)| sum.wrapping_add(of_row(at).wrapping_mul(2 * place + 1)));
    memory.store(params.u64(16)?, &[sum])?;
    Some(LAUNCH + (rows * row) as f64 / BYTES)
}

/// Arrays that are read and those that are written, words of each, bytes from one to the next.
fn mix(params: Parameters<'_>, memory: &mut Memory, read: u64, written: u64) -> Option<f64> {
    let params = params.sized(48)?;
    let (at, length, apart) = (params.u64(0)?, params.u64(24)?, params.u64(32)?);
    let mut combined = vec![0u64; length as usize];
    for array in 0..read {
        let words = memory.load::<u64>(at + array * apart, length)?;
        combined.iter_mut().zip(words).for_each(|(all, word)| *all ^= word);
    }
    for array in read..read + written {
        memory.store(at + array * apart, &combined)?;
    }
    Some(LAUNCH + (length * 8 * (read + written)) as f64 / BYTES)
}

/// What shared memory is filled with, sums, turns; then how often.
fn shared(params: Parameters<'_>, blocks: u64, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(52)?;
    let (turns, repeat) = (params.u64(24)?, params.u32(48)?);
    let words = memory.load::<u64>(params.u64(0)?, 4096)?;
    let all = words.iter().fold(0u64, |sum, &word| sum.wrapping_add(word));
    for block in 0..blocks {
        memory.store(params.u64(16)? + 64 * block, &[all.wrapping_mul(turns / 2)])?;
    }
    Some(LAUNCH + (turns * repeat * 16_384) as f64 / BYTES)
}

/// The cell's address, then how many loads.
fn chase(params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(12)?;
    let (position, repeat) = (params.u64(0)?, params.u32(8)?);
    let mut at = memory.load::<u64>(position, 1)?[0];
    for _ in 0..repeat {
        at = u64::from_le_bytes(memory.bytes(at, 8)?.try_into().ok()?);
    }
    memory.store(position, &[at])?;
    Some(LAUNCH + repeat as f64 * 100.0)
}

/// What an operation on a line takes: every second 256 bytes are far. The chip's only unit is 3.
fn distance(address: u64) -> u64 {
    if (address / 256).is_multiple_of(2) { 200 } else { 300 }
}
const UNIT: u64 = 3;

/// Lines of zeros, how many, where cycles are left, where the unit.
fn probe(params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(32)?;
    let (cells, lines) = (params.u64(0)?, params.u64(8)?);
    if memory.load::<u64>(cells, 8 * lines)?.iter().any(|&word| word != 0) {
        return None;
    }
    let taken: Vec<u64> = (0..lines).map(|line| distance(cells + 64 * line)).collect();
    memory.store(params.u64(16)?, &taken)?;
    memory.store(params.u64(24)?, &[UNIT])?;
    Some(LAUNCH + taken.iter().sum::<u64>() as f64)
}

/// As a chase, by operations whose time is told by the line.
fn side(params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(12)?;
    let (position, repeat) = (params.u64(0)?, params.u32(8)?);
    let mut at = memory.load::<u64>(position, 1)?[0];
    let mut took = 0;
    for _ in 0..repeat {
        took += distance(at);
        at = u64::from_le_bytes(memory.bytes(at, 8)?.try_into().ok()?);
    }
    memory.store(position, &[at, UNIT])?;
    Some(LAUNCH + took as f64)
}

/// The sums' address and the operations of a block; then how often, where the kernel repeats.
fn compute(params: Parameters<'_>, blocks: u64, memory: &mut Memory) -> Option<f64> {
    let repeat = match params.sized(20) {
        Some(params) => params.u32(16)?,
        None => params.sized(16).map(|_| 1)?,
    };
    let (partial, flops) = (params.u64(0)?, params.u64(8)?);
    for block in 0..blocks {
        memory.store(partial + 64 * block, &[flops as f64 / 2.0])?;
    }
    Some(LAUNCH + (flops * repeat) as f64 / FLOPS)
}

/// Cycles and nanoseconds of each block.
fn clock(params: Parameters<'_>, blocks: u64, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(16)?;
    let (counted, cycles) = (params.u64(0)?, params.u64(8)?);
    let nanoseconds = (cycles as f64 / CLOCK) as u64;
    for block in 0..blocks {
        memory.store(counted + 64 * block, &[cycles, nanoseconds])?;
    }
    Some(nanoseconds as f64)
}

/// Work is done when it is launched: a gate has to be found closed, and holds nothing.
fn hold(params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let params = params.sized(24)?;
    let released = memory.load::<u32>(params.u64(0)?, 1)?[0];
    memory.store(params.u64(16)?, &[0u64])?;
    (released == 0 && params.u64(8)? > 0).then_some(0.0)
}

/// A product of bytes by what they stand for, B column by column, times a factor.
pub fn product_of_bytes(
    params: &[u8],
    memory: &mut Memory,
    value: impl Fn(u8) -> f64,
    factor: f64,
) -> Option<f64> {
    let params = Parameters(params);
    let [m, n, k] = [24, 28, 32].map(|at| params.u32(at));
    let (m, n, k) = (m?, n?, k?);
    let (a, b) = (memory.load(params.u64(0)?, m * k)?, memory.load(params.u64(8)?, k * n)?);
    let sum = |row: &[u8], column: &[u8]| -> f64 {
        row.iter().zip(column).map(|(&a, &b)| value(a) * value(b)).sum()
    };
    let columns = || b.chunks_exact(k as usize);
    let rows = a.chunks_exact(k as usize);
    let c: Vec<u16> = rows
        .flat_map(|row| columns().map(move |column| (row, column)))
        .map(|(row, column)| narrowed(factor * sum(row, column)))
        .collect();
    memory.store(params.u64(16)?, &c)?;
    Some(LAUNCH + (2 * m * n * k) as f64 / FLOPS)
}

/// A product by its definition. Tensor maps may stand behind its 56 bytes, and are not looked at.
fn gemm<I: Copy, O: Copy>(
    params: Parameters<'_>,
    memory: &mut Memory,
    widen: impl Fn(I) -> f64,
    narrow: impl Fn(f64) -> O,
) -> Option<f64> {
    let sizes = [params.u32(24)?, params.u32(28)?, params.u32(32)?];
    let places = [params.u64(0)?, params.u64(8)?, params.u64(16)?];
    multiply(places, sizes, memory, widen, narrow)
}

/// One product for each group. Tensor maps may stand behind its 56 bytes.
fn products(dtype: &str, params: Parameters<'_>, memory: &mut Memory) -> Option<f64> {
    let [a, b, c, firsts] = [params.u64(0)?, params.u64(8)?, params.u64(16)?, params.u64(24)?];
    let (n, k, groups) = (params.u32(36)?, params.u32(40)?, params.u32(44)?);
    let firsts: Vec<u32> = memory.load(firsts, groups + 1)?;
    let size = if dtype == "f32" { 4 } else { 2 };
    let mut took = LAUNCH;
    for (group, pair) in firsts.windows(2).enumerate() {
        let (first, rows) = (u64::from(pair[0]), u64::from(pair[1].checked_sub(pair[0])?));
        let places = [a + first * k * size, b + group as u64 * k * n * size, c + first * n * size];
        let sizes = [rows, n, k];
        took += match (rows, dtype) {
            (0, _) => 0.0,
            (_, "f32") => {
                multiply(places, sizes, memory, |x: f32| f64::from(x), |x| x as f32)? - LAUNCH
            }
            _ => multiply(places, sizes, memory, widened, narrowed)? - LAUNCH,
        };
    }
    Some(took)
}

fn multiply<I: Copy, O: Copy>(
    [a, b, c]: [u64; 3],
    [m, n, k]: [u64; 3],
    memory: &mut Memory,
    widen: impl Fn(I) -> f64,
    narrow: impl Fn(f64) -> O,
) -> Option<f64> {
    let load = |memory: &mut Memory, at, count| -> Option<Vec<f64>> {
        Some(memory.load::<I>(at, count)?.into_iter().map(&widen).collect())
    };
    let (a, b) = (load(memory, a, m * k)?, load(memory, b, k * n)?);
    let row = |row: usize| {
        let mut sums = vec![0.0; n as usize];
        for (at, factor) in a[row * k as usize..][..k as usize].iter().enumerate() {
            for (sum, b) in sums.iter_mut().zip(&b[at * n as usize..]) {
                *sum += factor * b;
            }
        }
        sums
    };
    let made: Vec<O> = (0..m as usize).flat_map(row).map(narrow).collect();
    memory.store(c, &made)?;
    Some(LAUNCH + (2 * m * n * k) as f64 / FLOPS)
}

/// bfloat16 is the upper half of an `f32`.
pub fn widened(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// To nearest, ties to even.
pub fn narrowed(value: f64) -> u16 {
    let bits = (value as f32).to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfloat16_goes_there_and_back() {
        for value in [0.0, 1.0, -2.5, 3.140625] {
            assert_eq!(widened(narrowed(value)), value);
        }
        // Half way between two neighbours: to the even one.
        assert_eq!(narrowed(1.0 + 1.0 / 256.0), narrowed(1.0));
        assert_eq!(narrowed(1.0 + 3.0 / 256.0), narrowed(1.0 + 4.0 / 256.0));
    }

    #[test]
    fn parameters_of_another_length_and_foreign_addresses_are_refused() {
        let mut memory = Memory::default();
        assert_eq!(run("stream_copy", &[0; 40], 1, &mut memory), Err(()));
        let mut params = [0u8; 48];
        params[32] = 1;
        assert_eq!(run("stream_copy", &params, 1, &mut memory), Err(()));
        assert!(knows("stream_triad_nt_once") && !knows("stream_sort") && !knows("attention"));
    }
}
