//! AVX-VNNI, the int8 dot product of CPUs without AVX-512 (Intel's Core since the 12th generation):
//! 6 x 2 vectors of sums in 16 registers. Few rows, which memory bounds, are AVX2's.

use super::{
    avx2,
    grouped::all,
    tile::{Into, Tile},
};
use crate::host::kernel::HostKernel;
use fizeau_domain::dtype::Dtype;
use std::arch::x86_64::*;

/// For int8; none if the CPU lacks the instruction.
pub(super) fn kernels() -> Vec<HostKernel> {
    let has = is_x86_feature_detected!("avxvnni")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma");
    if !has {
        return Vec::new();
    }
    all::<Int8>(Dtype::Int8, "avxvnni", avx2::one::<avx2::Int8, Int8>).into()
}

/// Words along k that A is fetched ahead.
const AHEAD: usize = 16;
/// Sums in a vector.
const LANES: usize = 8;
const ROWS: usize = 6;

/// The instruction takes A without a sign, so A goes in with 128 added to each element, and the
/// sums start from what that adds to them.
struct Int8;

impl Tile for Int8 {
    type Input = i8;
    type Word = u32;
    type Sum = i32;
    type Output = i32;

    const GROUP: usize = 4;
    const ROWS: usize = ROWS;
    const COLUMNS: usize = 2 * LANES;
    const DEPTH_MAX: usize = 512;
    const HEIGHT_MAX: usize = 144;
    const WIDTH_MAX: usize = 2048;
    const STARTS_AT_ZERO: bool = false;

    #[inline(always)]
    fn word_a(element: impl Fn(usize) -> i8) -> u32 {
        Self::word_b(element) ^ 0x8080_8080
    }
    #[inline(always)]
    fn word_b(element: impl Fn(usize) -> i8) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|place| element(place) as u8))
    }
    #[inline(always)]
    fn start(sum: i32, word: u32) -> i32 {
        word.to_le_bytes().iter().fold(sum, |sum, &byte| sum - 128 * i32::from(byte as i8))
    }
    #[inline(always)]
    fn output(sum: i32) -> i32 {
        sum
    }

    #[target_feature(enable = "avx2,avxvnni")]
    unsafe fn multiply(
        depth: usize,
        mut a: *const u32,
        mut b: *const u32,
        c: *mut i32,
        stride: usize,
        into: Into,
    ) {
        // SAFETY: the caller's promise on `a`, `b` and `c`.
        unsafe {
            let load = |from: *const u32| _mm256_loadu_si256(from.cast());
            let mut sums = [[load(b), load(b.add(LANES))]; ROWS];
            for row in 0..ROWS {
                // C comes from memory while the sums are made.
                _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(row * stride).cast());
            }
            for _ in 0..depth {
                b = b.add(2 * LANES);
                let words = [load(b), load(b.add(LANES))];
                _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(AHEAD * ROWS).cast());
                for (row, sums) in sums.iter_mut().enumerate() {
                    let word = _mm256_set1_epi32(*a.add(row) as i32);
                    for (sum, words) in sums.iter_mut().zip(words) {
                        *sum = _mm256_dpbusd_avx_epi32(*sum, word, words);
                    }
                }
                a = a.add(ROWS);
            }
            for (row, sums) in sums.into_iter().enumerate() {
                for (vector, sum) in sums.into_iter().enumerate() {
                    let c = c.add(row * stride + vector * LANES);
                    let sum = match into {
                        Into::Add => _mm256_add_epi32(load(c.cast()), sum),
                        Into::Replace => sum,
                    };
                    _mm256_storeu_si256(c.cast(), sum);
                }
            }
        }
    }
}
