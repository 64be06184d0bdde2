//! Rows to columns in registers: how AVX-512 packs rows of operands.

#![expect(unsafe_code, reason = "rows are loaded and stored by intrinsics")]

use std::arch::x86_64::*;

/// Every second of four lanes, from the first.
const EVEN: i32 = 0x88;
/// Every second of four lanes, from the second.
const ODD: i32 = 0xdd;

/// Writes 16 words of 32 bits from each of `ROWS` (16 at most) rows, `stride` bytes apart, word by
/// word, each word's rows together; `flip` is applied to each by exclusive or.
///
/// # Safety
///
/// The words can be read; `target` has room for them, and for 64 bytes from the last word's start.
/// The CPU has AVX-512.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(in crate::host) unsafe fn words_32<const ROWS: usize>(
    source: *const u8,
    stride: usize,
    target: *mut u32,
    flip: u32,
) {
    let mut rows = [_mm512_setzero_ps(); 16];
    let flip = _mm512_castsi512_ps(_mm512_set1_epi32(flip as i32));
    for (row, words) in rows.iter_mut().enumerate().take(ROWS) {
        // SAFETY: the caller's promise.
        *words = _mm512_xor_ps(unsafe { _mm512_loadu_ps(source.add(row * stride).cast()) }, flip);
    }
    let columns = transposed(rows);
    for (word, column) in columns.into_iter().enumerate() {
        // SAFETY: the caller's promise; in this order, so that what one store writes beyond its
        // rows the next one mends.
        unsafe { _mm512_storeu_ps(target.add(word * ROWS).cast(), column) };
    }
}

/// The columns of 16 rows of 16 words.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(in crate::host) fn transposed(rows: [__m512; 16]) -> [__m512; 16] {
    let mut pairs = rows;
    for at in (0..16).step_by(2) {
        pairs[at] = _mm512_unpacklo_ps(rows[at], rows[at + 1]);
        pairs[at + 1] = _mm512_unpackhi_ps(rows[at], rows[at + 1]);
    }
    // fours[4 i + c], lane l: rows 4 i to 4 i + 3 of column 4 l + c.
    let mut fours = [_mm512_setzero_ps(); 16];
    for at in (0..16).step_by(4) {
        for half in 0..2 {
            let low = _mm512_castps_pd(pairs[at + half]);
            let high = _mm512_castps_pd(pairs[at + half + 2]);
            fours[at + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            fours[at + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    let mut columns = rows;
    for c in 0..4 {
        let above = _mm512_shuffle_f32x4::<EVEN>(fours[c], fours[4 + c]);
        let below = _mm512_shuffle_f32x4::<EVEN>(fours[8 + c], fours[12 + c]);
        columns[c] = _mm512_shuffle_f32x4::<EVEN>(above, below);
        columns[8 + c] = _mm512_shuffle_f32x4::<ODD>(above, below);
        let above = _mm512_shuffle_f32x4::<ODD>(fours[c], fours[4 + c]);
        let below = _mm512_shuffle_f32x4::<ODD>(fours[8 + c], fours[12 + c]);
        columns[4 + c] = _mm512_shuffle_f32x4::<EVEN>(above, below);
        columns[12 + c] = _mm512_shuffle_f32x4::<ODD>(above, below);
    }
    columns
}

/// As [`words_32`], 8 words of 64 bits from each of 9 to 16 rows.
///
/// # Safety
///
/// As [`words_32`], with room for 128 bytes from the last word's start.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(in crate::host) unsafe fn words_64<const ROWS: usize>(
    source: *const u8,
    stride: usize,
    target: *mut f64,
) {
    let mut halves = [[_mm512_setzero_pd(); 8]; 2];
    for (half, columns) in halves.iter_mut().enumerate() {
        let mut rows = [_mm512_setzero_pd(); 8];
        for (row, words) in rows.iter_mut().enumerate().take(ROWS - 8 * half) {
            // SAFETY: the caller's promise.
            *words = unsafe { _mm512_loadu_pd(source.add((8 * half + row) * stride).cast()) };
        }
        // pairs[2 i + c], lane l: rows 2 i and 2 i + 1 of column 2 l + c.
        let mut pairs = rows;
        for at in (0..8).step_by(2) {
            pairs[at] = _mm512_unpacklo_pd(rows[at], rows[at + 1]);
            pairs[at + 1] = _mm512_unpackhi_pd(rows[at], rows[at + 1]);
        }
        for c in 0..2 {
            let above = _mm512_shuffle_f64x2::<EVEN>(pairs[c], pairs[2 + c]);
            let below = _mm512_shuffle_f64x2::<EVEN>(pairs[4 + c], pairs[6 + c]);
            columns[c] = _mm512_shuffle_f64x2::<EVEN>(above, below);
            columns[4 + c] = _mm512_shuffle_f64x2::<ODD>(above, below);
            let above = _mm512_shuffle_f64x2::<ODD>(pairs[c], pairs[2 + c]);
            let below = _mm512_shuffle_f64x2::<ODD>(pairs[4 + c], pairs[6 + c]);
            columns[2 + c] = _mm512_shuffle_f64x2::<EVEN>(above, below);
            columns[6 + c] = _mm512_shuffle_f64x2::<ODD>(above, below);
        }
    }
    // In the order of the words: what is stored beyond ROWS is the next word's place.
    let [low, high] = halves;
    for (word, (low, high)) in low.into_iter().zip(high).enumerate() {
        // SAFETY: as in `words_32`.
        unsafe {
            _mm512_storeu_pd(target.add(word * ROWS), low);
            _mm512_storeu_pd(target.add(word * ROWS + 8), high);
        }
    }
}

/// Writes 16 words of 32 bits from each of 16 rows, `stride` bytes apart, word by word: those of a
/// word together, from one word to the next `apart` words.
///
/// # Safety
///
/// The words can be read, and written at `target`. The CPU has AVX-512.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(in crate::host) unsafe fn columns_32(
    source: *const u8,
    stride: usize,
    target: *mut u32,
    apart: usize,
) {
    let mut rows = [_mm512_setzero_ps(); 16];
    for (row, words) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *words = unsafe { _mm512_loadu_ps(source.add(row * stride).cast()) };
    }
    for (word, column) in transposed(rows).into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(target.add(word * apart).cast(), column) };
    }
}
