//! AVX2 with fused multiply-add: few rows by tiles of 8 vectors of sums, for scores as for sums of
//! values; many rows by tiles of 6 x 2 vectors from packed operands. bfloat16 is widened to `f32`
//! while it is loaded or packed.

use super::{
    engine::{COLUMNS, EXP2, Engine, Softmax},
    gathered, kernel,
    keys::{KEYS, Rows},
    packed::{PADDED, Packed, ScoreTile, SumTile},
    room,
    wide::{LANES, STEP, Wide, load},
};
use crate::host::kernel::HostKernel;
use fizeau_domain::{case::SparseDecode, dtype::Dtype};
use half::bf16;
use std::{arch::x86_64::*, marker::PhantomData, mem::size_of, ops::Range};

pub(super) fn kernels() -> Vec<HostKernel> {
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        return Vec::new();
    }
    vec![kernel::<Avx2<f32>>(Dtype::F32, "avx2"), kernel::<Avx2<bf16>>(Dtype::Bf16, "avx2")]
}

pub(super) fn sparse_decode() -> Option<HostKernel> {
    let has_all = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    has_all.then(|| gathered::kernel::<Avx2<bf16>>("avx2", widen_row))
}

/// [`gathered::Widen`]: codes become f16 of an exponent that is 8 too small, then f32.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn widen_row(row: *const u8, ahead: *const u8, key: *mut bf16) {
    let (scales, rope) = gathered::parts(row);
    fetch::<{ _MM_HINT_T1 }, u8>(ahead, SparseDecode::ROW as usize);
    // The upper 16 bits of each, rounded to nearest, ties to even.
    let narrow = |value: __m256| {
        let bits = _mm256_castps_si256(value);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
        _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half))
    };
    // SAFETY: the caller's promise.
    unsafe {
        for block in 0..gathered::SCALES {
            let scale = _mm256_set1_ps(scales.add(block).read() * 256.0);
            for at in (block * gathered::SCALED..(block + 1) * gathered::SCALED).step_by(STEP) {
                let codes = _mm256_cvtepi8_epi16(_mm_loadu_si128(row.add(at).cast()));
                let halves = _mm256_slli_epi16::<7>(codes);
                let halves = _mm256_and_si256(halves, _mm256_set1_epi16(!0x4000));
                let low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
                let high = _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves));
                let [low, high] = [low, high].map(|half| narrow(_mm256_mul_ps(half, scale)));
                // Within each 128 bits; then the quarters in their order.
                let packed = _mm256_packus_epi32(low, high);
                let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
                _mm256_storeu_si256(key.add(at).cast(), packed);
            }
        }
        let to = key.add(SparseDecode::LATENT as usize);
        to.copy_from_nonoverlapping(rope, SparseDecode::ROPE as usize);
    }
}

/// Prefetches a row into the cache that the hint names.
#[inline(always)]
pub(super) fn fetch<const HINT: i32, E>(row: *const E, length: usize) {
    for line in (0..length * size_of::<E>()).step_by(64) {
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<HINT>(row.cast::<i8>().wrapping_add(line)) };
    }
}

/// Rows and columns of a tile.
const TILE_ROWS: usize = 6;
const TILE_COLUMNS: usize = 16;

struct Avx2<E>(PhantomData<E>);

impl<E: Wide> Engine for Avx2<E> {
    type Element = E;

    const PACKED: Option<Packed<E>> = Some(Packed {
        rows: TILE_ROWS,
        columns: TILE_COLUMNS,
        group: 1,
        row: pack_row::<E>,
        keys: pack_keys::<E>,
        values: pack_values::<E>,
        fetch: fetch::<{ _MM_HINT_T1 }, E>,
        scores: score_tile,
        accumulate: sum_tile,
    });
    const HEADS_TOGETHER: bool = true;

    fn output(sum: f32) -> E {
        E::narrow(sum)
    }

    fn place(column: usize) -> usize {
        column / STEP * STEP + E::place(column % STEP)
    }

    unsafe fn scores<const R: usize>(
        queries: [*const E; R],
        keys: &Rows<E>,
        factor: f32,
        scores: *mut f32,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match R {
                1 => scores_of::<E, R, 8>(queries, keys, factor, scores),
                2 => scores_of::<E, R, 4>(queries, keys, factor, scores),
                _ => scores_of::<E, R, 2>(queries, keys, factor, scores),
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn weigh(
        scores: *mut f32,
        seen: Range<usize>,
        count: usize,
        softmax: &mut Softmax,
    ) -> f32 {
        let none = _mm256_set1_ps(f32::NEG_INFINITY);
        // SAFETY: the caller's promise: the row has KEYS words, whole vectors.
        unsafe {
            let mut largest = none;
            let is_whole = seen.start == 0 && seen.end == count && count.is_multiple_of(LANES);
            if is_whole {
                for at in (0..count).step_by(LANES) {
                    largest = _mm256_max_ps(largest, _mm256_loadu_ps(scores.add(at)));
                }
            } else {
                let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let (start, end) =
                    (_mm256_set1_epi32(seen.start as i32), _mm256_set1_epi32(seen.end as i32));
                for at in (0..count).step_by(LANES) {
                    let place = _mm256_add_epi32(places, _mm256_set1_epi32(at as i32));
                    let is_seen = _mm256_andnot_si256(
                        _mm256_cmpgt_epi32(start, place),
                        _mm256_cmpgt_epi32(end, place),
                    );
                    let score = _mm256_loadu_ps(scores.add(at));
                    let score = _mm256_blendv_ps(none, score, _mm256_castsi256_ps(is_seen));
                    // What is not seen weighs nothing below.
                    _mm256_storeu_ps(scores.add(at), score);
                    largest = _mm256_max_ps(largest, score);
                }
            }
            let max = across(largest, |a, b| _mm_max_ps(a, b)).max(softmax.max);
            let mut sums = _mm256_setzero_ps();
            for at in (0..count).step_by(LANES) {
                let score = _mm256_loadu_ps(scores.add(at));
                let weights = exp2(_mm256_sub_ps(score, _mm256_set1_ps(max)));
                _mm256_storeu_ps(scores.add(at), weights);
                sums = _mm256_add_ps(sums, weights);
            }
            let correction = _mm256_cvtss_f32(exp2(_mm256_set1_ps(softmax.max - max)));
            let sum = softmax.sum * correction + across(sums, |a, b| _mm_add_ps(a, b));
            *softmax = Softmax { max, sum };
            correction
        }
    }

    unsafe fn accumulate<const R: usize>(
        corrections: [f32; R],
        weights: *const f32,
        values: &Rows<E>,
        sums: *mut f32,
        stride: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match R {
                1 => accumulate_of::<E, R, 4>(corrections, weights, values, sums, stride),
                2 => accumulate_of::<E, R, 2>(corrections, weights, values, sums, stride),
                _ => accumulate_of::<E, R, 1>(corrections, weights, values, sums, stride),
            }
        }
    }
}

const _: () = assert!(COLUMNS.is_multiple_of(4 * STEP) && KEYS.is_multiple_of(LANES));
const _: () = assert!(room::ROWS.is_multiple_of(TILE_ROWS));
const _: () = assert!(TILE_COLUMNS == STEP && PADDED == STEP && KEYS.is_multiple_of(TILE_COLUMNS));

/// [`Packed::row`].
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_row<E: Wide>(from: *const E, length: usize, to: *mut f32) {
    for at in (0..length).step_by(STEP) {
        // SAFETY: the caller's promise.
        unsafe {
            let [low, high] = load(from.add(at), length - at);
            _mm256_storeu_ps(to.add(at), low);
            _mm256_storeu_ps(to.add(at + LANES), high);
        }
    }
}

/// [`Packed::keys`].
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_keys<E: Wide>(keys: &Rows<E>, to: *mut f32) {
    let depth = keys.length.next_multiple_of(PADDED);
    for first in (0..keys.count).step_by(LANES) {
        let key: [*const E; LANES] = std::array::from_fn(|at| {
            keys.start.wrapping_add((first + at).min(keys.count - 1) * keys.stride)
        });
        let panel = first / TILE_COLUMNS * TILE_COLUMNS * depth + first % TILE_COLUMNS;
        for at in (0..depth).step_by(STEP) {
            // SAFETY: the caller's promise; a prefetch of any address is allowed.
            unsafe {
                let mut halves = [[_mm256_setzero_ps(); LANES]; 2];
                for (row, key) in key.iter().enumerate() {
                    let [low, high] = load(key.add(at), keys.length - at);
                    (halves[0][row], halves[1][row]) = (low, high);
                    let ahead = key.wrapping_add(LANES * keys.stride + at);
                    _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                }
                for (half, words) in halves.into_iter().enumerate() {
                    for (column, words) in transposed(words).into_iter().enumerate() {
                        let element = at + half * LANES + column;
                        _mm256_storeu_ps(to.add(panel + element * TILE_COLUMNS), words);
                    }
                }
            }
        }
    }
}

/// The columns of 8 vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(v: [__m256; LANES]) -> [__m256; LANES] {
    // Each half of 128 bits by itself: pairs, then fours; then halves meet.
    let low = |at: usize| _mm256_unpacklo_ps(v[at], v[at + 1]);
    let high = |at: usize| _mm256_unpackhi_ps(v[at], v[at + 1]);
    let pairs = [low(0), high(0), low(2), high(2), low(4), high(4), low(6), high(6)];
    let first = |a: usize, b: usize| _mm256_shuffle_ps::<0b01_00_01_00>(pairs[a], pairs[b]);
    let last = |a: usize, b: usize| _mm256_shuffle_ps::<0b11_10_11_10>(pairs[a], pairs[b]);
    let upper = [first(0, 2), last(0, 2), first(1, 3), last(1, 3)];
    let lower = [first(4, 6), last(4, 6), first(5, 7), last(5, 7)];
    let mut columns = [_mm256_setzero_ps(); LANES];
    for at in 0..4 {
        columns[at] = _mm256_permute2f128_ps::<0x20>(upper[at], lower[at]);
        columns[at + 4] = _mm256_permute2f128_ps::<0x31>(upper[at], lower[at]);
    }
    columns
}

/// [`Packed::values`].
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_values<E: Wide>(values: &Rows<E>, to: *mut f32) {
    for key in 0..values.count {
        for at in (0..values.length).step_by(STEP) {
            // SAFETY: the caller's promise; a prefetch of any address is allowed.
            unsafe {
                let from = values.start.add(key * values.stride + at);
                let ahead = from.wrapping_add(LANES * values.stride);
                _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                let [low, high] = load(from, values.length - at);
                let to = to.add(at * KEYS + key * TILE_COLUMNS);
                _mm256_storeu_ps(to, low);
                _mm256_storeu_ps(to.add(LANES), high);
            }
        }
    }
}

/// The product of [`TILE_ROWS`] rows of `a`, `stride` words apart, and a panel of `depth`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply(
    depth: usize,
    a: *const f32,
    stride: usize,
    mut b: *const f32,
) -> [[__m256; 2]; TILE_ROWS] {
    let mut sums = [[_mm256_setzero_ps(); 2]; TILE_ROWS];
    // Two pointers reach six rows by offsets that an address has.
    let rows = [a, a.wrapping_add(3 * stride)];
    for at in 0..depth {
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) = (_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(LANES)));
            // Rows of the next tile, which follow; a prefetch of any address is allowed.
            _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(TILE_ROWS * (stride + at)).cast());
            for (row, sums) in sums.iter_mut().enumerate() {
                let word = _mm256_broadcast_ss(&*rows[row / 3].add(row % 3 * stride + at));
                sums[0] = _mm256_fmadd_ps(word, low, sums[0]);
                sums[1] = _mm256_fmadd_ps(word, high, sums[1]);
            }
            b = b.add(TILE_COLUMNS);
        }
    }
    sums
}

/// [`Packed::scores`].
#[target_feature(enable = "avx2,fma")]
unsafe fn score_tile(tile: ScoreTile) {
    let factor = _mm256_set1_ps(tile.factor);
    // SAFETY: the caller's promise.
    unsafe {
        let sums = multiply(tile.depth, tile.queries, tile.depth, tile.keys);
        for (row, sums) in sums.into_iter().enumerate() {
            let scores = tile.scores.add(row * KEYS);
            _mm256_storeu_ps(scores, _mm256_mul_ps(sums[0], factor));
            _mm256_storeu_ps(scores.add(LANES), _mm256_mul_ps(sums[1], factor));
        }
    }
}

/// [`Packed::accumulate`].
#[target_feature(enable = "avx2,fma")]
unsafe fn sum_tile(tile: SumTile) {
    // SAFETY: the caller's promise.
    unsafe {
        let made = multiply(tile.depth, tile.weights, KEYS, tile.values);
        for (row, made) in made.into_iter().enumerate() {
            let correction = _mm256_broadcast_ss(&*tile.corrections.add(row));
            for (half, made) in made.into_iter().enumerate() {
                let sums = tile.sums.add(row * tile.stride + half * LANES);
                _mm256_storeu_ps(sums, _mm256_fmadd_ps(_mm256_loadu_ps(sums), correction, made));
            }
        }
    }
}

/// The scores of `R` queries with `K` keys at a time, `R` times `K` being 8.
#[target_feature(enable = "avx2,fma")]
unsafe fn scores_of<E: Wide, const R: usize, const K: usize>(
    queries: [*const E; R],
    keys: &Rows<E>,
    factor: f32,
    scores: *mut f32,
) {
    for first in (0..keys.count).step_by(K) {
        let mut key = [keys.start; K];
        for (at, key) in key.iter_mut().enumerate() {
            // Beyond the last key, the last one again: what comes of it is not used.
            *key = keys.start.wrapping_add((first + at).min(keys.count - 1) * keys.stride);
            fetch::<{ _MM_HINT_T0 }, E>(
                keys.ahead.wrapping_add((first + at) * keys.ahead_stride),
                keys.length,
            );
        }
        let mut sums = [[_mm256_setzero_ps(); K]; R];
        // SAFETY: the caller's promise.
        unsafe {
            let whole = keys.length / STEP * STEP;
            for at in (0..whole).step_by(STEP) {
                let queries = queries.map(|query| query.add(at));
                dot(&mut sums, queries, key.map(|key| key.add(at)), |from| E::load(from));
            }
            if whole < keys.length {
                let queries = queries.map(|query| query.add(whole));
                let key = key.map(|key| key.add(whole));
                dot(&mut sums, queries, key, |from| load(from, keys.length - whole));
            }
            let mut all = [_mm256_setzero_ps(); LANES];
            for (at, sum) in all.iter_mut().enumerate() {
                *sum = sums[at / K][at % K];
            }
            let made = _mm256_mul_ps(sums_of(all), _mm256_set1_ps(factor));
            let (low, high) = (_mm256_castps256_ps128(made), _mm256_extractf128_ps::<1>(made));
            match R {
                1 => _mm256_storeu_ps(scores.add(first), made),
                2 => {
                    _mm_storeu_ps(scores.add(first), low);
                    _mm_storeu_ps(scores.add(KEYS + first), high);
                }
                _ => {
                    for (row, half) in [low, high].into_iter().enumerate() {
                        let scores = scores.add(2 * row * KEYS + first);
                        _mm_storel_pd(scores.cast(), _mm_castps_pd(half));
                        _mm_storeh_pd(scores.add(KEYS).cast(), _mm_castps_pd(half));
                    }
                }
            }
        }
    }
}

/// Adds a step of the dot products of `R` queries and `K` keys. Whichever are fewer stay in
/// registers.
///
/// # Safety
///
/// A step of each can be read by `load`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn dot<E, const R: usize, const K: usize>(
    sums: &mut [[__m256; K]; R],
    queries: [*const E; R],
    keys: [*const E; K],
    load: impl Fn(*const E) -> [__m256; 2],
) {
    let add = |sum: &mut __m256, [a, b]: [__m256; 2], [c, d]: [__m256; 2]| {
        *sum = _mm256_fmadd_ps(b, d, _mm256_fmadd_ps(a, c, *sum));
    };
    if R < K {
        let mut held = [[_mm256_setzero_ps(); 2]; R];
        for (held, query) in held.iter_mut().zip(queries) {
            *held = load(query);
        }
        for (column, key) in keys.into_iter().enumerate() {
            let key = load(key);
            for (sums, query) in sums.iter_mut().zip(held) {
                add(&mut sums[column], query, key);
            }
        }
    } else {
        let mut held = [[_mm256_setzero_ps(); 2]; K];
        for (held, key) in held.iter_mut().zip(keys) {
            *held = load(key);
        }
        for (sums, query) in sums.iter_mut().zip(queries) {
            let query = load(query);
            for (sum, key) in sums.iter_mut().zip(held) {
                add(sum, query, key);
            }
        }
    }
}

/// All lanes of a vector made one, by twos.
#[inline]
#[target_feature(enable = "avx2")]
fn across(v: __m256, of_two: impl Fn(__m128, __m128) -> __m128) -> f32 {
    let four = of_two(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = of_two(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(of_two(two, _mm_movehdup_ps(two)))
}

/// The sums of 8 vectors, one in each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn sums_of(v: [__m256; LANES]) -> __m256 {
    let low = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    let high = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    let first = _mm256_permute2f128_ps::<0x20>(low, high);
    _mm256_add_ps(first, _mm256_permute2f128_ps::<0x31>(low, high))
}

/// 2^x for x that is not positive, off by less than 2.5e-7 of itself; 0 below 2^-125.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp2(x: __m256) -> __m256 {
    let least = _mm256_set1_ps(-125.0);
    let within = _mm256_max_ps(x, least);
    let whole = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(within);
    let rest = _mm256_sub_ps(within, whole);
    let mut power = _mm256_set1_ps(EXP2[5]);
    for at in (0..5).rev() {
        power = _mm256_fmadd_ps(power, rest, _mm256_set1_ps(EXP2[at]));
    }
    let exponent = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(whole));
    let scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(power), exponent));
    _mm256_and_ps(scaled, _mm256_cmp_ps::<_CMP_GE_OQ>(x, least))
}

/// Adds a step of a value by the weight of each row.
///
/// # Safety
///
/// `R` weights can be read, [`KEYS`] apart.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn weighted<const R: usize>(
    made: [&mut [__m256; 2]; R],
    weights: *const f32,
    value: [__m256; 2],
) {
    for (row, made) in made.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        let weight = unsafe { _mm256_broadcast_ss(&*weights.add(row * KEYS)) };
        made[0] = _mm256_fmadd_ps(weight, value[0], made[0]);
        made[1] = _mm256_fmadd_ps(weight, value[1], made[1]);
    }
}

/// `W` steps of columns at a time, `R` times `W` being 4.
#[target_feature(enable = "avx2,fma")]
unsafe fn accumulate_of<E: Wide, const R: usize, const W: usize>(
    corrections: [f32; R],
    weights: *const f32,
    values: &Rows<E>,
    sums: *mut f32,
    stride: usize,
) {
    for panel in (0..values.length).step_by(W * STEP) {
        let width = (values.length - panel).min(W * STEP);
        // SAFETY: the caller's promise; a panel is a part of a whole one of COLUMNS.
        unsafe {
            let mut made = [[[_mm256_setzero_ps(); 2]; W]; R];
            for (row, made) in made.iter_mut().enumerate() {
                let correction = _mm256_set1_ps(corrections[row]);
                for (at, made) in made.as_flattened_mut().iter_mut().enumerate() {
                    let before = _mm256_loadu_ps(sums.add(row * stride + panel + at * LANES));
                    *made = _mm256_mul_ps(before, correction);
                }
            }
            let mut from = values.start.wrapping_add(panel);
            // Rows that follow each other in memory are prefetched from end to end.
            let (mut ahead, step) = if values.ahead_stride == values.length {
                (values.ahead.wrapping_add(panel * values.count), width)
            } else {
                (values.ahead.wrapping_add(panel), values.ahead_stride)
            };
            if width == W * STEP {
                for index in 0..values.count {
                    fetch::<{ _MM_HINT_T0 }, E>(ahead, width);
                    ahead = ahead.wrapping_add(step);
                    let weights = weights.add(index);
                    for step in 0..W {
                        let value = E::load(from.add(step * STEP));
                        weighted(made.each_mut().map(|made| &mut made[step]), weights, value);
                    }
                    from = from.wrapping_add(values.stride);
                }
            } else {
                for index in 0..values.count {
                    let weights = weights.add(index);
                    for step in 0..width.div_ceil(STEP) {
                        let value = load(from.add(step * STEP), width - step * STEP);
                        weighted(made.each_mut().map(|made| &mut made[step]), weights, value);
                    }
                    from = from.wrapping_add(values.stride);
                }
            }
            for (row, made) in made.iter().enumerate() {
                for (at, made) in made.as_flattened().iter().enumerate() {
                    _mm256_storeu_ps(sums.add(row * stride + panel + at * LANES), *made);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_widened_as_by_plain_rust() {
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
            gathered::check_widen(widen_row);
        }
    }

    #[test]
    fn exp2_is_within_its_error() {
        if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
            return;
        }
        super::super::engine::check_exp2(|x| {
            // SAFETY: the CPU was asked above.
            unsafe { _mm256_cvtss_f32(exp2(_mm256_set1_ps(x))) }
        });
    }
}
