//! The vector variants of x86-64: a step is one vector of AVX-512 or two of AVX2.

use super::rows::{Bodies, Rows, Step, bodies};
use crate::host::kernel::inlined;
use fizeau_domain::kernel::RecurrenceParams;
use std::{arch::x86_64::*, ops::Range};

type Variant = (&'static str, &'static [&'static str], Bodies);

/// Two vectors of AVX2.
#[derive(Clone, Copy)]
struct Pair([__m256; 2]);

/// The upper 16 bits of each, rounded to nearest, ties to even.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn upper_half(value: __m256) -> __m256i {
    let bits = _mm256_castps_si256(value);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half))
}

/// From bf16.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn widened(bits: __m128i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
}

impl Step for __m512 {
    inlined! {
        fn all(value: f32) -> Self = _mm512_set1_ps(value);
        fn load(from: *const f32) -> Self = _mm512_loadu_ps(from);
        fn load_bf16(from: *const u16) -> Self = {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        };
        fn times(self, other: Self) -> Self = _mm512_mul_ps(self, other);
        fn times_plus(self, factor: Self, term: Self) -> Self =
            _mm512_fmadd_ps(self, factor, term);
        fn sum(self) -> f32 = _mm512_reduce_add_ps(self);
    }

    #[inline(always)]
    unsafe fn store<const PAST: bool>(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            if PAST {
                _mm512_stream_ps(to, self);
            } else {
                _mm512_storeu_ps(to, self);
            }
        }
    }

    #[inline(always)]
    unsafe fn store_bf16<const PAST: bool>(self, to: *mut u16) {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm512_castps_si512(self);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
            let upper = _mm512_srli_epi32::<16>(_mm512_add_epi32(bits, half));
            let packed = _mm512_cvtepi32_epi16(upper);
            if PAST {
                _mm256_stream_si256(to.cast(), packed);
            } else {
                _mm256_storeu_si256(to.cast(), packed);
            }
        }
    }
}

impl Step for Pair {
    inlined! {
        fn all(value: f32) -> Self = Pair([_mm256_set1_ps(value); 2]);
        fn load(from: *const f32) -> Self =
            Pair([_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))]);
        fn load_bf16(from: *const u16) -> Self = {
            let halves = [_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(8).cast())];
            Pair([widened(halves[0]), widened(halves[1])])
        };
        fn times(self, other: Self) -> Self =
            Pair([_mm256_mul_ps(self.0[0], other.0[0]), _mm256_mul_ps(self.0[1], other.0[1])]);
        fn times_plus(self, factor: Self, term: Self) -> Self = Pair([
            _mm256_fmadd_ps(self.0[0], factor.0[0], term.0[0]),
            _mm256_fmadd_ps(self.0[1], factor.0[1], term.0[1]),
        ]);
        fn sum(self) -> f32 = {
            let eight = _mm256_add_ps(self.0[0], self.0[1]);
            let upper = _mm256_extractf128_ps::<1>(eight);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), upper);
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        };
    }

    #[inline(always)]
    unsafe fn store<const PAST: bool>(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            for (at, half) in [0, 8].into_iter().zip(self.0) {
                if PAST {
                    _mm256_stream_ps(to.add(at), half);
                } else {
                    _mm256_storeu_ps(to.add(at), half);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn store_bf16<const PAST: bool>(self, to: *mut u16) {
        // SAFETY: the caller's promise.
        unsafe {
            let [low, high] = [upper_half(self.0[0]), upper_half(self.0[1])];
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
}

/// # Safety
///
/// As for [`super::rows::Body`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn avx512<R: Rows>(params: &RecurrenceParams, rows: Range<usize>) {
    // SAFETY: the caller's promise. Stores past the caches are not ordered with what follows.
    unsafe { R::run::<__m512>(params, rows) };
    _mm_sfence();
}

/// # Safety
///
/// As for [`super::rows::Body`].
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<R: Rows>(params: &RecurrenceParams, rows: Range<usize>) {
    // SAFETY: the caller's promise. Stores past the caches are not ordered with what follows.
    unsafe { R::run::<Pair>(params, rows) };
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
