//! Weights of 8 and 4 bits that are widened and multiplied with few rows of bf16: B is read once,
//! column by column, and each column is multiplied with all rows while the first cache has it.
//!
//! A is packed first, as `f32` and in the order in which vectors of weights are widened. The
//! formats are those of `kernels/include/weights.h`.

use super::product::{Scratch, Share, cut};
use crate::host::{kernel::HostKernel, pool::Block};
use fizeau_domain::{
    case::Layout,
    dtype::Dtype,
    kernel::{GemmParams, Operation},
};
use half::bf16;
#[cfg(target_arch = "x86_64")]
use {crate::host::kernel::inlined, std::arch::x86_64::*};

/// Weights along k that are widened at once, to eight vectors of eight.
const STEP: usize = 64;
const LANES: usize = 8;
const VECTORS: usize = STEP / LANES;

/// Columns of a thread's part are whole multiples of this: a cache line of C.
const GRANULE: usize = 32;

/// Weights along k that share a scale of int4, or a word of scales of mxfp4.
const GROUP: usize = 128;

/// 2^60. Bits of e4m3 at their places in an `f32` are 2^-120 of their value: half of that is made
/// up for in A, so that no product is too small, and half in C.
const HALF_OF_E4M3: f32 = (1u64 << 60) as f32;

/// All that this CPU can run.
pub(super) fn kernels() -> Vec<HostKernel> {
    fn of<I: Instructions + 'static>() -> [HostKernel; 3] {
        let gemm = |dtype| Operation::Gemm(dtype, Layout::Nn);
        [
            HostKernel::new(gemm(Dtype::Bf16Fp8), I::NAME, &[], I::run::<Fp8>),
            HostKernel::new(gemm(Dtype::Bf16Int4), I::NAME, &[], I::run::<Int4>),
            HostKernel::new(gemm(Dtype::Bf16Mxfp4), I::NAME, &[], I::run::<Mxfp4>),
        ]
    }
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        kernels.extend(of::<Avx2>());
    }
    kernels.extend(of::<Portable>());
    kernels
}

/// Operations on vectors of `f32`, by one instruction set.
trait Instructions {
    const NAME: &str;
    /// Rows of A that a column's weights are multiplied with at once, once they are widened.
    const ROWS: usize;
    type Vector: Copy;

    fn run<F: Format>(block: &Block<'_>);
    unsafe fn zero() -> Self::Vector;
    unsafe fn load(from: *const f32) -> Self::Vector;
    unsafe fn fused(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// Four lanes of the first value, four of the second.
    unsafe fn halves(values: [f32; 2]) -> Self::Vector;
    unsafe fn sum(vector: Self::Vector) -> f32;
    /// 32 bytes of nibbles, by the values that the 16 have.
    unsafe fn widen_nibbles(from: *const u8, values: &[f32; 16]) -> [Self::Vector; VECTORS];
    /// 64 bytes of e4m3, to 2^-120 of their values.
    unsafe fn widen_bytes(from: *const u8) -> [Self::Vector; VECTORS];
}

/// How weights are kept.
trait Format {
    /// Bytes of [`STEP`] weights.
    const BYTES: usize;
    /// A power of two that multiplies A when it is packed, and C at the end.
    const FACTOR: f32 = 1.0;
    /// # Safety
    ///
    /// [`Format::BYTES`] can be read, and the CPU has the instructions.
    unsafe fn widen<I: Instructions>(from: *const u8) -> [I::Vector; VECTORS];
    /// The index within a step of the weight that a lane of a vector holds.
    fn place(vector: usize, lane: usize) -> usize;
    /// The scales of the halves of a step.
    ///
    /// # Safety
    ///
    /// The parameters describe operands that live.
    unsafe fn scales(params: &GemmParams, column: usize, k: usize) -> [f32; 2];
    /// The scale of a column.
    ///
    /// # Safety
    ///
    /// As above.
    #[inline(always)]
    unsafe fn scale(_: &GemmParams, _column: usize) -> f32 {
        1.0
    }
}

struct Int4;
struct Mxfp4;
struct Fp8;

/// The byte of 32 that a lane has after bytes were interleaved in halves of 16: four vectors, of
/// the lower and the upper bytes of each half, those at even and at odd places.
fn byte_of(vector: usize, lane: usize) -> usize {
    lane / 4 * 16 + vector / 2 % 2 * 8 + lane % 4 * 2 + vector % 2
}

/// Vectors of the lower nibbles, then of the upper; even weights are the lower four of a word.
fn place_of_nibble(vector: usize, lane: usize) -> usize {
    let byte = byte_of(vector, lane);
    let nibble = byte % 4 * 2 + vector / 4;
    byte / 4 * 8 + nibble % 4 * 2 + nibble / 4
}

impl Format for Int4 {
    const BYTES: usize = STEP / 2;
    #[inline(always)]
    unsafe fn widen<I: Instructions>(from: *const u8) -> [I::Vector; VECTORS] {
        const VALUES: [f32; 16] = [
            -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,
        ];
        // SAFETY: the caller's promise.
        unsafe { I::widen_nibbles(from, &VALUES) }
    }
    #[inline(always)]
    fn place(vector: usize, lane: usize) -> usize {
        place_of_nibble(vector, lane)
    }
    #[inline(always)]
    unsafe fn scales(params: &GemmParams, column: usize, k: usize) -> [f32; 2] {
        let at = k / GROUP * params.n as usize + column;
        // SAFETY: the caller's promise.
        [unsafe { (params.scales_b as *const bf16).add(at).read() }.to_f32(); 2]
    }
}

impl Format for Mxfp4 {
    const BYTES: usize = STEP / 2;
    #[inline(always)]
    unsafe fn widen<I: Instructions>(from: *const u8) -> [I::Vector; VECTORS] {
        const VALUES: [f32; 16] = [
            0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
        ];
        // SAFETY: the caller's promise.
        unsafe { I::widen_nibbles(from, &VALUES) }
    }
    #[inline(always)]
    fn place(vector: usize, lane: usize) -> usize {
        place_of_nibble(vector, lane)
    }
    #[inline(always)]
    unsafe fn scales(params: &GemmParams, column: usize, k: usize) -> [f32; 2] {
        let at = (k / GROUP * params.n as usize + column) * 4 + k % GROUP / 32;
        // SAFETY: the caller's promise; the words of scales are of whole groups.
        let both = unsafe { (params.scales_b as *const [u8; 2]).byte_add(at).read() };
        both.map(|exponent| f32::from_bits((u32::from(exponent) << 23).max(1 << 22)))
    }
}

impl Format for Fp8 {
    const BYTES: usize = STEP;
    const FACTOR: f32 = HALF_OF_E4M3;
    #[inline(always)]
    unsafe fn widen<I: Instructions>(from: *const u8) -> [I::Vector; VECTORS] {
        // SAFETY: the caller's promise.
        unsafe { I::widen_bytes(from) }
    }
    #[inline(always)]
    fn place(vector: usize, lane: usize) -> usize {
        vector / 4 * 32 + byte_of(vector, lane)
    }
    #[inline(always)]
    unsafe fn scales(_: &GemmParams, _: usize, _: usize) -> [f32; 2] {
        [1.0; 2]
    }
    #[inline(always)]
    unsafe fn scale(params: &GemmParams, column: usize) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { (params.scales_b as *const f32).add(column).read() }
    }
}

/// A thread's columns of C.
///
/// # Safety
///
/// The parameters describe operands that live, and the CPU has the instructions.
#[inline(always)]
unsafe fn product<I: Instructions, F: Format>(params: &GemmParams, share: Share) {
    let [m, n, k] = [params.m, params.n, params.k].map(|length| length as usize);
    let columns = cut(n, GRANULE, share.index, share.count);
    if columns.is_empty() {
        return;
    }
    let steps = k.div_ceil(STEP);
    let scratch = Scratch::take(m * steps * STEP * size_of::<f32>());
    let [packed] = scratch.areas([0]);
    let packed = packed as *mut f32;
    for _ in 0..share.repeat {
        // SAFETY: rows and columns lie within the operands, and the packed rows in the scratch.
        unsafe {
            pack::<F>(params, packed);
            for column in columns.clone() {
                let mut row = 0;
                while row < m {
                    let rows = packed.add(row * steps * STEP);
                    if I::ROWS > 1 && m - row >= I::ROWS {
                        multiply::<I, F, 4>(params, rows, row, column);
                        row += 4;
                    } else {
                        multiply::<I, F, 1>(params, rows, row, column);
                        row += 1;
                    }
                }
            }
        }
    }
}

/// # Safety
///
/// As [`product`]; there is room for m rows of whole steps.
unsafe fn pack<F: Format>(params: &GemmParams, packed: *mut f32) {
    let [m, k] = [params.m, params.k].map(|length| length as usize);
    let steps = k.div_ceil(STEP);
    for row in 0..m {
        // SAFETY: the caller's promise.
        let from = unsafe { (params.a as *const bf16).add(row * k) };
        for at in 0..steps * STEP {
            let of = at / STEP * STEP + F::place(at / LANES % VECTORS, at % LANES);
            // SAFETY: as above.
            unsafe {
                let value = if of < k { from.add(of).read().to_f32() * F::FACTOR } else { 0.0 };
                packed.add(row * steps * STEP + at).write(value);
            }
        }
    }
}

/// One column times `R` packed rows, of which the first is row `first` of C.
///
/// # Safety
///
/// As [`product`].
#[inline(always)]
unsafe fn multiply<I: Instructions, F: Format, const R: usize>(
    params: &GemmParams,
    rows: *const f32,
    first: usize,
    column: usize,
) {
    let [n, k] = [params.n, params.k].map(|length| length as usize);
    let steps = k.div_ceil(STEP);
    let bytes = k * F::BYTES / STEP;
    // SAFETY: the caller's promise. What is beyond the last row is read from a copy.
    unsafe {
        let weights = (params.b as *const u8).add(column * bytes);
        let mut totals = [I::zero(); R];
        let mut rest = [0u8; STEP];
        for step in 0..steps {
            let mut from = weights.add(step * F::BYTES);
            let left = bytes - step * F::BYTES;
            if left < F::BYTES {
                std::ptr::copy_nonoverlapping(from, rest.as_mut_ptr(), left);
                from = rest.as_ptr();
            }
            let widened = F::widen::<I>(from);
            let mut parts = [I::zero(); R];
            for (vector, weights) in widened.into_iter().enumerate() {
                for (row, part) in parts.iter_mut().enumerate() {
                    let a = I::load(rows.add((row * steps + step) * STEP + vector * LANES));
                    *part = I::fused(weights, a, *part);
                }
            }
            let scale = I::halves(F::scales(params, column, step * STEP));
            for (total, part) in totals.iter_mut().zip(parts) {
                *total = I::fused(part, scale, *total);
            }
        }
        let scale = F::scale(params, column) * F::FACTOR;
        for (row, total) in totals.into_iter().enumerate() {
            let sum = bf16::from_f32(I::sum(total) * scale);
            (params.c as *mut bf16).add((first + row) * n + column).write(sum);
        }
    }
}

/// Plain Rust, for any CPU.
struct Portable;

impl Instructions for Portable {
    const NAME: &str = "portable";
    const ROWS: usize = 1;
    type Vector = [f32; LANES];

    fn run<F: Format>(block: &Block<'_>) {
        // SAFETY: whoever launches passes operands that live; plain Rust runs anywhere.
        unsafe { product::<Portable, F>(block.params(), Share::of(block)) }
    }
    #[inline(always)]
    unsafe fn zero() -> Self::Vector {
        [0.0; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::Vector {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<Self::Vector>().read() }
    }
    #[inline(always)]
    unsafe fn fused(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }
    #[inline(always)]
    unsafe fn halves(values: [f32; 2]) -> Self::Vector {
        std::array::from_fn(|lane| values[lane / (LANES / 2)])
    }
    #[inline(always)]
    unsafe fn sum(vector: Self::Vector) -> f32 {
        vector.iter().sum()
    }
    #[inline(always)]
    unsafe fn widen_nibbles(from: *const u8, values: &[f32; 16]) -> [Self::Vector; VECTORS] {
        // SAFETY: the caller's promise.
        let bytes = unsafe { from.cast::<[u8; 32]>().read() };
        std::array::from_fn(|vector| {
            let shift = vector / 4 * 4;
            std::array::from_fn(|lane| {
                values[usize::from(bytes[byte_of(vector, lane)] >> shift & 15)]
            })
        })
    }
    #[inline(always)]
    unsafe fn widen_bytes(from: *const u8) -> [Self::Vector; VECTORS] {
        // SAFETY: the caller's promise.
        let bytes = unsafe { from.cast::<[u8; STEP]>().read() };
        std::array::from_fn(|vector| {
            std::array::from_fn(|lane| {
                let bits = u32::from(bytes[Fp8::place(vector, lane)]);
                f32::from_bits((bits & 0x80) << 24 | (bits & 0x7f) << 20)
            })
        })
    }
}

/// AVX2 with fused multiply-add.
#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Instructions for Avx2 {
    const NAME: &str = "avx2";
    const ROWS: usize = 4;
    type Vector = __m256;

    fn run<F: Format>(block: &Block<'_>) {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn one<F: Format>(params: &GemmParams, share: Share) {
            // SAFETY: the caller's promise.
            unsafe { product::<Avx2, F>(params, share) }
        }
        // SAFETY: whoever launches passes operands that live; the CPU was asked above.
        unsafe { one::<F>(block.params(), Share::of(block)) }
    }
    inlined! {
        fn zero() -> __m256 = _mm256_setzero_ps();
        fn load(from: *const f32) -> __m256 = _mm256_loadu_ps(from);
        fn fused(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fn halves([low, high]: [f32; 2]) -> __m256 =
            _mm256_setr_m128(_mm_set1_ps(low), _mm_set1_ps(high));
    }
    #[inline(always)]
    unsafe fn sum(vector: __m256) -> f32 {
        let mut lanes = [0.0; LANES];
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), vector) };
        lanes.iter().sum()
    }
    inlined! {
        fn widen_nibbles(from: *const u8, values: &[f32; 16]) -> [__m256; VECTORS] =
            widen_nibbles(from, values);
        fn widen_bytes(from: *const u8) -> [__m256; VECTORS] = widen_bytes(from);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn widen_nibbles(from: *const u8, values: &[f32; 16]) -> [__m256; VECTORS] {
    // As bf16, all of them whole in its two bytes.
    let byte = |which: usize| values.map(|value| value.to_le_bytes()[which]);
    // SAFETY: the caller's promise.
    unsafe {
        let table = |which| {
            let bytes: [u8; 16] = byte(which);
            _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast()))
        };
        let (lower, upper) = (table(2), table(3));
        let all = _mm256_loadu_si256(from.cast());
        let mask = _mm256_set1_epi8(15);
        let halves = |nibbles: __m256i| {
            let (low, high) =
                (_mm256_shuffle_epi8(lower, nibbles), _mm256_shuffle_epi8(upper, nibbles));
            [_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)]
        };
        let [a, b] = halves(_mm256_and_si256(all, mask));
        let [c, d] = halves(_mm256_and_si256(_mm256_srli_epi16::<4>(all), mask));
        floats([a, b, c, d])
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn widen_bytes(from: *const u8) -> [__m256; VECTORS] {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = _mm256_setzero_si256();
        let placed = |spread: __m256i| {
            let sign = _mm256_and_si256(spread, _mm256_set1_epi16(i16::MIN));
            let rest = _mm256_and_si256(spread, _mm256_set1_epi16(0x7f00));
            _mm256_or_si256(sign, _mm256_srli_epi16::<4>(rest))
        };
        let halves = |bytes: __m256i| {
            [_mm256_unpacklo_epi8(zero, bytes), _mm256_unpackhi_epi8(zero, bytes)].map(placed)
        };
        let [a, b] = halves(_mm256_loadu_si256(from.cast()));
        let [c, d] = halves(_mm256_loadu_si256(from.add(32).cast()));
        floats([a, b, c, d])
    }
}

/// Widens bf16: of each input vector first the elements at even places, then those at odd places.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
fn floats(halves: [__m256i; 4]) -> [__m256; VECTORS] {
    let [a, b, c, d] = halves.map(|pairs| {
        let odd = _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff_0000_u32 as i32));
        [_mm256_slli_epi32::<16>(pairs), odd].map(|bits| _mm256_castsi256_ps(bits))
    });
    [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_each_weight_of_a_step_once() {
        for place in [Int4::place, Fp8::place] {
            let mut all: Vec<usize> = (0..STEP).map(|at| place(at / LANES, at % LANES)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..STEP).collect::<Vec<_>>());
        }
    }
}
