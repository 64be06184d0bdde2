//! The vector variants of x86-64: a step is one vector of AVX-512 or two of AVX2.

use super::rows::{Bodies, E4M3_MOST, EXP2, EXP2_LEAST, Part, Rows, Step, bodies};
use crate::host::kernel::inlined;
use std::{arch::x86_64::*, f32::consts::LOG2_E};

type Variant = (&'static str, &'static [&'static str], Bodies);

/// Half of 2^-9, the step of the smallest numbers of e4m3, is half a unit in the last place of
/// this.
const SMALL: f32 = 16_384.0;

/// To the nearest integer.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// The least number of e4m3 that is not subnormal.
const NORMAL: f32 = 0.015_625;

impl Step for __m512 {
    inlined! {
        fn all(value: f32) -> Self = _mm512_set1_ps(value);
        fn load(from: *const u16) -> Self = {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        };
        fn plus(self, other: Self) -> Self = _mm512_add_ps(self, other);
        fn times(self, other: Self) -> Self = _mm512_mul_ps(self, other);
        fn times_plus(self, factor: Self, term: Self) -> Self =
            _mm512_fmadd_ps(self, factor, term);
        fn larger_size(self, other: Self) -> Self =
            _mm512_max_ps(_mm512_abs_ps(self), _mm512_abs_ps(other));
        fn sum(self) -> f32 = _mm512_reduce_add_ps(self);
        fn largest(self) -> f32 = _mm512_reduce_max_ps(self);
        fn rounded(self) -> Self = {
            let bits = _mm512_castps_si512(self);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
            let up = _mm512_add_epi32(bits, half);
            _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32(!0xffff)))
        };
        fn silu(self) -> Self = {
            let x = _mm512_mul_ps(_mm512_abs_ps(self), _mm512_set1_ps(-LOG2_E));
            let whole = _mm512_roundscale_ps::<NEAREST>(x);
            let rest = _mm512_sub_ps(x, whole);
            let mut power = _mm512_set1_ps(EXP2[5]);
            for at in (0..5).rev() {
                power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(EXP2[at]));
            }
            let power = _mm512_scalef_ps(power, whole);
            let one = _mm512_set1_ps(1.0);
            let below = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self, _mm512_setzero_ps());
            let above = _mm512_mask_blend_ps(below, one, power);
            let sum = _mm512_add_ps(one, power);
            // A step of Newton's method: from 2^-14 to below 2^-23.
            let guess = _mm512_rcp14_ps(sum);
            let left = _mm512_fnmadd_ps(sum, guess, _mm512_set1_ps(2.0));
            _mm512_mul_ps(_mm512_mul_ps(self, above), _mm512_mul_ps(guess, left))
        };
        fn prefetch(from: *const u16) = _mm_prefetch::<_MM_HINT_T1>(from.cast());
    }

    #[inline(always)]
    unsafe fn store<const PAST: bool>(self, to: *mut u16) {
        // SAFETY: the caller's promise.
        unsafe {
            let upper = _mm512_srli_epi32::<16>(_mm512_castps_si512(self));
            let packed = _mm512_cvtepi32_epi16(upper);
            if PAST {
                _mm256_stream_si256(to.cast(), packed);
            } else {
                _mm256_storeu_si256(to.cast(), packed);
            }
        }
    }

    #[inline(always)]
    unsafe fn store_e4m3<const PAST: bool>(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let size = _mm512_min_ps(_mm512_abs_ps(self), _mm512_set1_ps(E4M3_MOST));
            let bits = _mm512_castps_si512(size);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<20>(bits), _mm512_set1_epi32(1));
            let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7_ffff));
            let up = _mm512_srli_epi32::<20>(_mm512_add_epi32(bits, half));
            let normal = _mm512_sub_epi32(up, _mm512_set1_epi32(120 << 3));
            let small = _mm512_castps_si512(_mm512_add_ps(size, _mm512_set1_ps(SMALL)));
            let small = _mm512_sub_epi32(small, _mm512_castps_si512(_mm512_set1_ps(SMALL)));
            let is_small = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(size, _mm512_set1_ps(NORMAL));
            let code = _mm512_mask_blend_epi32(is_small, normal, small);
            let sign = _mm512_srli_epi32::<24>(_mm512_castps_si512(self));
            let sign = _mm512_and_si512(sign, _mm512_set1_epi32(0x80));
            let packed = _mm512_cvtepi32_epi8(_mm512_or_si512(code, sign));
            if PAST {
                _mm_stream_si128(to.cast(), packed);
            } else {
                _mm_storeu_si128(to.cast(), packed);
            }
        }
    }
}

/// A step of AVX2.
#[derive(Clone, Copy)]
struct Pair([__m256; 2]);

/// A function of each half.
macro_rules! halves {
    (|$($half:ident = $whole:ident),+| $value:expr) => {
        Pair([
            { $(let $half = $whole.0[0];)+ $value },
            { $(let $half = $whole.0[1];)+ $value },
        ])
    };
}

/// The code of numbers in e4m3, each in 32 bits.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn codes(value: __m256) -> __m256i {
    let no_sign = _mm256_set1_epi32(0x7fff_ffff);
    let size = _mm256_and_ps(value, _mm256_castsi256_ps(no_sign));
    let size = _mm256_min_ps(size, _mm256_set1_ps(E4M3_MOST));
    let bits = _mm256_castps_si256(size);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<20>(bits), _mm256_set1_epi32(1));
    let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7_ffff));
    let up = _mm256_srli_epi32::<20>(_mm256_add_epi32(bits, half));
    let normal = _mm256_sub_epi32(up, _mm256_set1_epi32(120 << 3));
    let small = _mm256_castps_si256(_mm256_add_ps(size, _mm256_set1_ps(SMALL)));
    let small = _mm256_sub_epi32(small, _mm256_castps_si256(_mm256_set1_ps(SMALL)));
    let is_small = _mm256_cmp_ps::<_CMP_LT_OQ>(size, _mm256_set1_ps(NORMAL));
    let code = _mm256_blendv_epi8(normal, small, _mm256_castps_si256(is_small));
    let sign = _mm256_srli_epi32::<24>(_mm256_castps_si256(value));
    _mm256_or_si256(code, _mm256_and_si256(sign, _mm256_set1_epi32(0x80)))
}

/// `x / (1 + exp(-x))`
#[inline]
#[target_feature(enable = "avx2,fma")]
fn silu(value: __m256) -> __m256 {
    let no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fff_ffff));
    let x = _mm256_mul_ps(_mm256_and_ps(value, no_sign), _mm256_set1_ps(-LOG2_E));
    // Below 2^-125 it counts as that: beside the one nothing is left of either.
    let within = _mm256_max_ps(x, _mm256_set1_ps(EXP2_LEAST));
    let whole = _mm256_round_ps::<NEAREST>(within);
    let rest = _mm256_sub_ps(within, whole);
    let mut power = _mm256_set1_ps(EXP2[5]);
    for at in (0..5).rev() {
        power = _mm256_fmadd_ps(power, rest, _mm256_set1_ps(EXP2[at]));
    }
    let exponent = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(whole));
    let power = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(power), exponent));
    let one = _mm256_set1_ps(1.0);
    // The sign of a negative number chooses.
    let above = _mm256_blendv_ps(one, power, value);
    _mm256_div_ps(_mm256_mul_ps(value, above), _mm256_add_ps(one, power))
}

/// The lower 128 bits and the upper ones.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn split(vector: __m256) -> [__m128; 2] {
    [_mm256_castps256_ps128(vector), _mm256_extractf128_ps::<1>(vector)]
}

impl Step for Pair {
    inlined! {
        fn all(value: f32) -> Self = Pair([_mm256_set1_ps(value); 2]);
        fn load(from: *const u16) -> Self = {
            let half = |at: usize| {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.add(at).cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
            };
            Pair([half(0), half(8)])
        };
        fn plus(self, other: Self) -> Self = halves!(|a = self, b = other| _mm256_add_ps(a, b));
        fn times(self, other: Self) -> Self = halves!(|a = self, b = other| _mm256_mul_ps(a, b));
        fn times_plus(self, factor: Self, term: Self) -> Self =
            halves!(|a = self, b = factor, c = term| _mm256_fmadd_ps(a, b, c));
        fn larger_size(self, other: Self) -> Self = {
            let no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fff_ffff));
            halves!(|a = self, b = other| {
                _mm256_max_ps(_mm256_and_ps(a, no_sign), _mm256_and_ps(b, no_sign))
            })
        };
        fn sum(self) -> f32 = {
            let [low, high] = split(_mm256_add_ps(self.0[0], self.0[1]));
            let four = _mm_add_ps(low, high);
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        };
        fn largest(self) -> f32 = {
            let [low, high] = split(_mm256_max_ps(self.0[0], self.0[1]));
            let four = _mm_max_ps(low, high);
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        };
        fn rounded(self) -> Self = halves!(|a = self| {
            let bits = _mm256_castps_si256(a);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
            let up = _mm256_add_epi32(bits, half);
            _mm256_castsi256_ps(_mm256_and_si256(up, _mm256_set1_epi32(!0xffff)))
        });
        fn silu(self) -> Self = halves!(|a = self| silu(a));
        fn prefetch(from: *const u16) = _mm_prefetch::<_MM_HINT_T1>(from.cast());
    }

    #[inline(always)]
    unsafe fn store<const PAST: bool>(self, to: *mut u16) {
        // SAFETY: the caller's promise.
        unsafe {
            let [low, high] = self.0.map(|half| _mm256_srli_epi32::<16>(_mm256_castps_si256(half)));
            // Within each 128 bits; then the quarters in their order.
            let packed = _mm256_packus_epi32(low, high);
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
            if PAST {
                _mm256_stream_si256(to.cast(), packed);
            } else {
                _mm256_storeu_si256(to.cast(), packed);
            }
        }
    }

    #[inline(always)]
    unsafe fn store_e4m3<const PAST: bool>(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let [low, high] = [codes(self.0[0]), codes(self.0[1])];
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
            let lower = _mm256_castsi256_si128(words);
            let packed = _mm_packus_epi16(lower, _mm256_extracti128_si256::<1>(words));
            if PAST {
                _mm_stream_si128(to.cast(), packed);
            } else {
                _mm_storeu_si128(to.cast(), packed);
            }
        }
    }
}

/// # Safety
///
/// As for [`super::rows::Body`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn avx512<R: Rows>(part: &mut Part<'_>) {
    // SAFETY: the caller's promise. Stores past the caches are not ordered with what follows.
    unsafe { R::run::<__m512>(part) };
    _mm_sfence();
}

/// # Safety
///
/// As for [`super::rows::Body`].
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<R: Rows>(part: &mut Part<'_>) {
    // SAFETY: the caller's promise. Stores past the caches are not ordered with what follows.
    unsafe { R::run::<Pair>(part) };
    _mm_sfence();
}

/// Best for memory first.
pub(super) fn variants() -> Vec<Variant> {
    let of_avx512: &[&str] = &["avx512f", "avx512bw", "avx512vl"];
    vec![
        ("avx512_nt", of_avx512, bodies!(avx512, past true)),
        ("avx512", of_avx512, bodies!(avx512, past false)),
        ("avx2_nt", &["avx2", "fma"], bodies!(avx2, past true)),
        ("avx2", &["avx2", "fma"], bodies!(avx2, past false)),
    ]
}
