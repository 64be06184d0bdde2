//! AVX-512, many rows: tiles of 12 x 2 vectors from packed operands. 16-bit elements are packed in
//! pairs, which their dot product takes: two of a row of queries or keys, or one of each of two
//! values.

use super::{
    avx2::fetch,
    keys::{KEYS, Rows},
    packed::{PADDED, Packed, ScoreTile, SumTile},
    room,
};
use crate::host::transpose::transposed;
use half::bf16;
use std::{arch::x86_64::*, mem::transmute};

/// Lanes of a vector of sums.
pub(super) const LANES: usize = 16;

/// Rows of a tile.
const ROWS: usize = 12;

/// Columns of a tile.
pub(super) const COLUMNS: usize = 2 * LANES;

const _: () = assert!(room::ROWS.is_multiple_of(ROWS));
const _: () = assert!(KEYS.is_multiple_of(COLUMNS) && PADDED == LANES);

pub(super) const F32: Packed<f32> = Packed {
    rows: ROWS,
    columns: COLUMNS,
    group: 1,
    row: row_f32,
    keys: keys_f32,
    values: values_f32,
    fetch: fetch::<{ _MM_HINT_T1 }, f32>,
    scores: scores_f32,
    accumulate: sums_f32,
};

pub(super) const BF16: Packed<bf16> = Packed {
    rows: ROWS,
    columns: COLUMNS,
    group: 2,
    row: row_bf16,
    keys: keys_bf16,
    values: values_bf16,
    fetch: fetch::<{ _MM_HINT_T1 }, bf16>,
    scores: scores_bf16,
    accumulate: sums_bf16,
};

/// The same bits as pairs of bfloat16.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
pub(super) fn bf16s(bits: __m512i) -> __m512bh {
    // SAFETY: vectors of one size, of which any bits are valid.
    unsafe { transmute::<__m512i, __m512bh>(bits) }
}

/// The first `count` of a vector's elements, or all; zeros behind them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn some_f32(from: *const f32, count: usize) -> __m512 {
    let mask = if count >= LANES { !0 } else { (1 << count) - 1 };
    // SAFETY: the caller's promise.
    unsafe { _mm512_maskz_loadu_ps(mask, from) }
}

/// As [`some_f32`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn some_bf16(from: *const bf16, count: usize) -> __m512 {
    let mask = if count >= 2 * LANES { !0 } else { (1 << count) - 1 };
    // SAFETY: the caller's promise.
    _mm512_castsi512_ps(unsafe { _mm512_maskz_loadu_epi16(mask, from.cast()) })
}

/// Rows and keys of an element type, of which a vector has `$step`, and tiles of it.
macro_rules! packed {
    (
        $element:ty, step $step:literal, features $features:literal, load $load:ident,
        $row:ident, $keys:ident, $multiply:ident, $scores:ident, $sums:ident,
        fused |$sum:ident, $a:ident, $b:ident| $fused:expr
    ) => {
        /// [`Packed::row`].
        #[target_feature(enable = $features)]
        unsafe fn $row(from: *const $element, length: usize, to: *mut f32) {
            for (word, at) in (0..length).step_by($step).enumerate() {
                // SAFETY: the caller's promise.
                unsafe { _mm512_storeu_ps(to.add(word * LANES), $load(from.add(at), length - at)) };
            }
        }

        /// [`Packed::keys`].
        #[target_feature(enable = $features)]
        unsafe fn $keys(keys: &Rows<$element>, to: *mut f32) {
            let depth = keys.length.div_ceil($step) * LANES;
            for first in (0..keys.count).step_by(LANES) {
                let mut key = [keys.start; LANES];
                for (at, key) in key.iter_mut().enumerate() {
                    *key = keys.start.wrapping_add((first + at).min(keys.count - 1) * keys.stride);
                }
                let panel = first / COLUMNS * COLUMNS * depth + first % COLUMNS;
                for (vector, at) in (0..keys.length).step_by($step).enumerate() {
                    // SAFETY: the caller's promise; a prefetch of any address is allowed.
                    unsafe {
                        let mut rows = [_mm512_setzero_ps(); LANES];
                        for (row, key) in rows.iter_mut().zip(&key) {
                            *row = $load(key.add(at), keys.length - at);
                            let ahead = key.wrapping_add(LANES * keys.stride + at);
                            _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                        }
                        for (word, words) in transposed(rows).into_iter().enumerate() {
                            let word = vector * LANES + word;
                            _mm512_storeu_ps(to.add(panel + word * COLUMNS), words);
                        }
                    }
                }
            }
        }

        /// The product of a tile's rows of `a`, `stride` words apart, and a panel of `depth`.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $multiply(
            depth: usize,
            a: *const f32,
            stride: usize,
            mut b: *const f32,
        ) -> [[__m512; 2]; ROWS] {
            let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
            // Four pointers reach twelve rows by offsets that an address has.
            let mut rows = [a; 4];
            for (at, row) in rows.iter_mut().enumerate() {
                *row = a.wrapping_add(3 * at * stride);
            }
            for at in 0..depth {
                // SAFETY: the caller's promise.
                unsafe {
                    let (low, high) = (_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(LANES)));
                    // Rows of the next tile, which follow; a prefetch of any address is allowed.
                    _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(ROWS * (stride + at)).cast());
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let $a = _mm512_set1_ps(*rows[row / 3].add(row % 3 * stride + at));
                        let ($sum, $b) = (sums[0], low);
                        sums[0] = $fused;
                        let ($sum, $b) = (sums[1], high);
                        sums[1] = $fused;
                    }
                    b = b.add(COLUMNS);
                }
            }
            sums
        }

        /// [`Packed::scores`].
        #[target_feature(enable = $features)]
        unsafe fn $scores(tile: ScoreTile) {
            let factor = _mm512_set1_ps(tile.factor);
            // SAFETY: the caller's promise.
            unsafe {
                let sums = $multiply(tile.depth, tile.queries, tile.depth, tile.keys);
                for (row, sums) in sums.into_iter().enumerate() {
                    let scores = tile.scores.add(row * KEYS);
                    _mm512_storeu_ps(scores, _mm512_mul_ps(sums[0], factor));
                    _mm512_storeu_ps(scores.add(LANES), _mm512_mul_ps(sums[1], factor));
                }
            }
        }

        /// [`Packed::accumulate`].
        #[target_feature(enable = $features)]
        unsafe fn $sums(tile: SumTile) {
            // SAFETY: the caller's promise.
            unsafe {
                let made = $multiply(tile.depth, tile.weights, KEYS, tile.values);
                for (row, made) in made.into_iter().enumerate() {
                    let correction = _mm512_set1_ps(*tile.corrections.add(row));
                    for (half, made) in made.into_iter().enumerate() {
                        let sums = tile.sums.add(row * tile.stride + half * LANES);
                        let before = _mm512_loadu_ps(sums);
                        _mm512_storeu_ps(sums, _mm512_fmadd_ps(before, correction, made));
                    }
                }
            }
        }
    };
}

packed!(
    f32, step 16, features "avx512f,avx512bw,avx512dq", load some_f32,
    row_f32, keys_f32, multiply_f32, scores_f32, sums_f32,
    fused |sum, a, b| _mm512_fmadd_ps(a, b, sum)
);

packed!(
    bf16, step 32, features "avx512f,avx512bw,avx512dq,avx512bf16", load some_bf16,
    row_bf16, keys_bf16, multiply_bf16, scores_bf16, sums_bf16,
    fused |sum, a, b| {
        _mm512_dpbf16_ps(sum, bf16s(_mm512_castps_si512(a)), bf16s(_mm512_castps_si512(b)))
    }
);

/// [`Packed::values`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn values_f32(values: &Rows<f32>, to: *mut f32) {
    for key in 0..values.count {
        for at in (0..values.length).step_by(LANES) {
            // SAFETY: the caller's promise; a prefetch of any address is allowed.
            unsafe {
                let from = values.start.add(key * values.stride + at);
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(8 * values.stride).cast());
                let panel = at / COLUMNS * COLUMNS * KEYS + at % COLUMNS;
                let to = to.add(panel + key * COLUMNS);
                _mm512_storeu_ps(to, some_f32(from, values.length - at));
            }
        }
    }
}

/// [`Packed::values`]: columns in the order that interleaving two values leaves them in.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
unsafe fn values_bf16(values: &Rows<bf16>, to: *mut f32) {
    for key in (0..values.count).step_by(2) {
        for at in (0..values.length).step_by(COLUMNS) {
            // SAFETY: the caller's promise; a prefetch of any address is allowed.
            unsafe {
                let from = values.start.add(key * values.stride + at);
                let other = from.wrapping_add(values.stride);
                for from in [from, other] {
                    _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(8 * values.stride).cast());
                }
                let left = values.length - at;
                let one = _mm512_castps_si512(some_bf16(from, left));
                // Beyond the last value, nothing: its weight is nothing, too.
                let left = if key + 1 < values.count { left } else { 0 };
                let other = _mm512_castps_si512(some_bf16(other, left));
                let to = to.add(at * KEYS / 2 + key / 2 * COLUMNS);
                _mm512_storeu_si512(to.cast(), _mm512_unpacklo_epi16(one, other));
                _mm512_storeu_si512(to.add(LANES).cast(), _mm512_unpackhi_epi16(one, other));
            }
        }
    }
}
