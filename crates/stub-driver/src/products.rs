//! Products of the vendors' libraries, by their definition: operands and sizes stand in parameters
//! as those of our own kernels do (kernels/include/params.h).

use crate::memory::Memory;

/// Does a product of elements of a type that need no scales; nothing where there is no such type, or
/// where it reached beyond its memory.
pub fn run(dtype: &str, params: &[u8], memory: &mut Memory) -> Option<()> {
    let params = Parameters(params);
    match dtype {
        "f32" => gemm(params, memory, |x: f32| f64::from(x), |x| x as f32),
        "f64" => gemm(params, memory, |x: f64| x, |x| x),
        "bf16" => gemm(params, memory, widened, narrowed),
        _ => None,
    }
}

/// The bytes that a launch was given.
#[derive(Clone, Copy)]
pub struct Parameters<'p>(pub &'p [u8]);

impl Parameters<'_> {
    /// The word of 64 bits at an offset.
    pub fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }

    /// The word of 32 bits at an offset.
    pub fn u32(self, at: usize) -> Option<u64> {
        Some(u64::from(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?)))
    }
}

/// A product of bytes by what they stand for, B column by column, times a factor.
pub fn product_of_bytes(
    params: &[u8],
    memory: &mut Memory,
    value: impl Fn(u8) -> f64,
    factor: f64,
) -> Option<()> {
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
    memory.store(params.u64(16)?, &c)
}

/// A product by its definition.
fn gemm<I: Copy, O: Copy>(
    params: Parameters<'_>,
    memory: &mut Memory,
    widen: impl Fn(I) -> f64,
    narrow: impl Fn(f64) -> O,
) -> Option<()> {
    let sizes = [params.u32(24)?, params.u32(28)?, params.u32(32)?];
    let places = [params.u64(0)?, params.u64(8)?, params.u64(16)?];
    multiply(places, sizes, memory, widen, narrow)
}

fn multiply<I: Copy, O: Copy>(
    [a, b, c]: [u64; 3],
    [m, n, k]: [u64; 3],
    memory: &mut Memory,
    widen: impl Fn(I) -> f64,
    narrow: impl Fn(f64) -> O,
) -> Option<()> {
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
    memory.store(c, &made)
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
}
