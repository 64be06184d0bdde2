//! Words of a few rows of B that lie beside each other, as AVX-512's dot products take them.

use std::arch::x86_64::*;

/// Interleaves `group` rows of B to as many vectors of words.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn interleave(group: usize, rows: [__m512i; 4]) -> [__m512i; 4] {
    match group {
        1 => rows,
        2 => {
            let low = _mm512_unpacklo_epi16(rows[0], rows[1]);
            let high = _mm512_unpackhi_epi16(rows[0], rows[1]);
            [low, high, rows[2], rows[3]]
        }
        _ => {
            let low =
                [_mm512_unpacklo_epi8(rows[0], rows[1]), _mm512_unpacklo_epi8(rows[2], rows[3])];
            let high =
                [_mm512_unpackhi_epi8(rows[0], rows[1]), _mm512_unpackhi_epi8(rows[2], rows[3])];
            [
                _mm512_unpacklo_epi16(low[0], low[1]),
                _mm512_unpackhi_epi16(low[0], low[1]),
                _mm512_unpacklo_epi16(high[0], high[1]),
                _mm512_unpackhi_epi16(high[0], high[1]),
            ]
        }
    }
}

/// Sums in the order of their columns, of vectors that [`interleave`] made: each has the next four
/// columns of every quarter of the row.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn in_order(group: usize, sums: [__m512i; 4]) -> [__m512i; 4] {
    // The quarters of each are 128 bits.
    const LOW: i32 = 0x44;
    const HIGH: i32 = 0xee;
    const EVEN: i32 = 0x88;
    const ODD: i32 = 0xdd;
    let [a, b, c, d] = sums;
    match group {
        1 => sums,
        2 => {
            // a0 a1 b0 b1 to a0 b0 a1 b1.
            let between = |halves: __m512i| _mm512_shuffle_i32x4::<0xd8>(halves, halves);
            let low = between(_mm512_shuffle_i32x4::<LOW>(a, b));
            [low, between(_mm512_shuffle_i32x4::<HIGH>(a, b)), c, d]
        }
        _ => {
            let low = [_mm512_shuffle_i32x4::<LOW>(a, b), _mm512_shuffle_i32x4::<LOW>(c, d)];
            let high = [_mm512_shuffle_i32x4::<HIGH>(a, b), _mm512_shuffle_i32x4::<HIGH>(c, d)];
            [
                _mm512_shuffle_i32x4::<EVEN>(low[0], low[1]),
                _mm512_shuffle_i32x4::<ODD>(low[0], low[1]),
                _mm512_shuffle_i32x4::<EVEN>(high[0], high[1]),
                _mm512_shuffle_i32x4::<ODD>(high[0], high[1]),
            ]
        }
    }
}

/// Reads `C` times `group` vectors that follow each other.
///
/// # Safety
///
/// They can be read; the CPU has AVX-512.
#[inline(always)]
pub(super) unsafe fn load<const C: usize>(
    group: usize,
    from: *const __m512i,
    to: &mut [[__m512i; 4]; C],
) {
    for (vector, lanes) in to.iter_mut().enumerate() {
        for (lane, to) in lanes.iter_mut().enumerate().take(group) {
            // SAFETY: the caller's promise.
            *to = unsafe { _mm512_loadu_si512(from.add(vector * group + lane)) };
        }
    }
}

/// Writes them.
///
/// # Safety
///
/// They can be written; the CPU has AVX-512.
#[inline(always)]
pub(super) unsafe fn store<const C: usize>(
    group: usize,
    to: *mut __m512i,
    from: &[[__m512i; 4]; C],
) {
    for (vector, lanes) in from.iter().enumerate() {
        for (lane, &from) in lanes.iter().enumerate().take(group) {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(to.add(vector * group + lane), from) };
        }
    }
}
