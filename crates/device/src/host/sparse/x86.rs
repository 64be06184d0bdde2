//! Vectors of x86-64.

use super::lanes::Lanes;
use std::arch::x86_64::*;

/// AVX-512: 16 lanes.
pub(super) struct Wide;

/// AVX2: 8 lanes.
pub(super) struct Narrow;

/// The number of each lane.
const NUMBERS: [i32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

impl Lanes for Wide {
    const COUNT: usize = 16;

    #[inline(always)]
    unsafe fn keep(
        from: *const f32,
        first: u32,
        least: f32,
        keys: *mut i32,
        places: *mut u32,
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let numbers = _mm512_loadu_ps(from);
            let passed = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(numbers, _mm512_set1_ps(least));
            let bits = _mm512_castps_si512(numbers);
            let negative = _mm512_srai_epi32::<31>(bits);
            let low = _mm512_and_si512(negative, _mm512_set1_epi32(i32::MAX));
            let turned = _mm512_xor_si512(bits, low);
            let all = _mm512_loadu_si512(NUMBERS.as_ptr().cast());
            let all = _mm512_add_epi32(all, _mm512_set1_epi32(first as i32));
            // Compressed in registers: stores that compress are slow on Zen 4.
            _mm512_storeu_si512(keys.cast(), _mm512_maskz_compress_epi32(passed, turned));
            _mm512_storeu_si512(places.cast(), _mm512_maskz_compress_epi32(passed, all));
            passed.count_ones() as usize
        }
    }

    #[inline(always)]
    unsafe fn compare(keys: *const i32, key: i32) -> [u32; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let keys = _mm512_loadu_si512(keys.cast());
            let key = _mm512_set1_epi32(key);
            let greater = _mm512_cmpgt_epi32_mask(keys, key);
            [u32::from(greater), u32::from(_mm512_cmpeq_epi32_mask(keys, key))]
        }
    }

    #[inline(always)]
    unsafe fn compress(from: (*const i32, *const u32), lanes: u32, to: (*mut i32, *mut u32)) {
        // SAFETY: the caller's promise.
        unsafe {
            let keys = _mm512_loadu_si512(from.0.cast());
            let places = _mm512_loadu_si512(from.1.cast());
            let lanes = lanes as __mmask16;
            _mm512_storeu_si512(to.0.cast(), _mm512_maskz_compress_epi32(lanes, keys));
            _mm512_storeu_si512(to.1.cast(), _mm512_maskz_compress_epi32(lanes, places));
        }
    }
}

/// For each set of 8 lanes, their numbers one after the other.
static COMPRESSED: [[i32; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut lanes = 0;
    while lanes < 256 {
        let (mut lane, mut at) = (0, 0);
        while lane < 8 {
            if lanes >> lane & 1 == 1 {
                all[lanes][at] = lane;
                at += 1;
            }
            lane += 1;
        }
        lanes += 1;
    }
    all
};

/// The lanes that a mask has, one after the other.
///
/// # Safety
///
/// The CPU has AVX2.
#[inline(always)]
unsafe fn compressed(vector: __m256i, lanes: u32) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let order = _mm256_loadu_si256(COMPRESSED[lanes as usize & 0xff].as_ptr().cast());
        _mm256_permutevar8x32_epi32(vector, order)
    }
}

impl Lanes for Narrow {
    const COUNT: usize = 8;

    #[inline(always)]
    unsafe fn keep(
        from: *const f32,
        first: u32,
        least: f32,
        keys: *mut i32,
        places: *mut u32,
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let numbers = _mm256_loadu_ps(from);
            let passed = _mm256_cmp_ps::<_CMP_GT_OQ>(numbers, _mm256_set1_ps(least));
            let passed = _mm256_movemask_ps(passed) as u32;
            let bits = _mm256_castps_si256(numbers);
            let negative = _mm256_srai_epi32::<31>(bits);
            let low = _mm256_and_si256(negative, _mm256_set1_epi32(i32::MAX));
            let turned = _mm256_xor_si256(bits, low);
            let all = _mm256_loadu_si256(NUMBERS.as_ptr().cast());
            let all = _mm256_add_epi32(all, _mm256_set1_epi32(first as i32));
            _mm256_storeu_si256(keys.cast(), compressed(turned, passed));
            _mm256_storeu_si256(places.cast(), compressed(all, passed));
            passed.count_ones() as usize
        }
    }

    #[inline(always)]
    unsafe fn compare(keys: *const i32, key: i32) -> [u32; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let keys = _mm256_loadu_si256(keys.cast());
            let key = _mm256_set1_epi32(key);
            let greater = _mm256_castsi256_ps(_mm256_cmpgt_epi32(keys, key));
            let equal = _mm256_castsi256_ps(_mm256_cmpeq_epi32(keys, key));
            [_mm256_movemask_ps(greater) as u32, _mm256_movemask_ps(equal) as u32]
        }
    }

    #[inline(always)]
    unsafe fn compress(from: (*const i32, *const u32), lanes: u32, to: (*mut i32, *mut u32)) {
        // SAFETY: the caller's promise.
        unsafe {
            let keys = _mm256_loadu_si256(from.0.cast());
            let places = _mm256_loadu_si256(from.1.cast());
            _mm256_storeu_si256(to.0.cast(), compressed(keys, lanes));
            _mm256_storeu_si256(to.1.cast(), compressed(places, lanes));
        }
    }
}
