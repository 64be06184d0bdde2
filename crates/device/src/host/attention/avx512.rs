//! AVX-512, for 16-bit elements with its bfloat16 dot products: tiles of 16 sums of scores, and of
//! 4 x 4 vectors of sums of values.

use super::{
    amx,
    avx2::fetch,
    avx512_packed::{self, LANES, bf16s},
    engine::{COLUMNS, EXP2, Engine, Softmax},
    gathered, kernel,
    keys::{KEYS, Rows},
    packed::Packed,
};
use crate::host::{amx::Amx, kernel::HostKernel};
use fizeau_domain::{case::SparseDecode, dtype::Dtype};
use half::bf16;
use std::{arch::x86_64::*, array::from_fn, mem::transmute, ops::Range};

pub(super) fn kernels() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
    {
        kernels.push(kernel::<F32>(Dtype::F32, "avx512"));
        if is_x86_feature_detected!("avx512bf16") {
            if Amx::here().bf16 {
                kernels.push(amx::with_tiles(kernel::<Bf16Amx>(Dtype::Bf16, "amx")));
            }
            kernels.push(kernel::<Bf16>(Dtype::Bf16, "avx512"));
        }
    }
    kernels
}

pub(super) fn sparse_decode() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bf16")
    {
        if Amx::here().bf16 {
            kernels.push(amx::with_tiles(gathered::kernel::<Bf16Amx>("amx", widen_row)));
        }
        kernels.push(gathered::kernel::<Bf16>("avx512", widen_row));
    }
    kernels
}

/// [`gathered::Widen`]: codes become f16 of an exponent that is 8 too small, then f32.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn widen_row(row: *const u8, ahead: *const u8, key: *mut bf16) {
    const STEP: usize = 2 * LANES;
    let (scales, rope) = gathered::parts(row);
    fetch::<{ _MM_HINT_T1 }, u8>(ahead, SparseDecode::ROW as usize);
    // SAFETY: the caller's promise.
    unsafe {
        for block in 0..gathered::SCALES {
            let scale = _mm512_set1_ps(scales.add(block).read() * 256.0);
            for at in (block * gathered::SCALED..(block + 1) * gathered::SCALED).step_by(STEP) {
                let codes = _mm512_cvtepi8_epi16(_mm256_loadu_si256(row.add(at).cast()));
                let halves = _mm512_slli_epi16::<7>(codes);
                let halves = _mm512_and_si512(halves, _mm512_set1_epi16(!0x4000));
                let low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
                let high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(halves));
                let both = [low, high].map(|half| _mm512_mul_ps(half, scale));
                let narrow = _mm512_cvtne2ps_pbh(both[1], both[0]);
                _mm512_storeu_si512(key.add(at).cast(), transmute::<__m512bh, __m512i>(narrow));
            }
        }
        for at in [0, STEP] {
            let same = _mm512_loadu_si512(rope.add(at).cast());
            _mm512_storeu_si512(key.add(SparseDecode::LATENT as usize + at).cast(), same);
        }
    }
}

/// Vectors of a panel of values.
const VECTORS: usize = COLUMNS / LANES;

struct F32;
struct Bf16;
/// The same with matrix tiles where there are many rows.
struct Bf16Amx;

/// The sums of 16 vectors, one in each lane.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn sums_of(vectors: [__m512; 16]) -> __m512 {
    // Each step halves what is left of every sum, and puts two vectors' into one.
    let pairs: [__m512; 8] = from_fn(|at| {
        let (one, other) = (vectors[2 * at], vectors[2 * at + 1]);
        _mm512_add_ps(_mm512_unpacklo_ps(one, other), _mm512_unpackhi_ps(one, other))
    });
    let fours: [__m512; 4] = from_fn(|at| {
        let (one, other) = (_mm512_castps_pd(pairs[2 * at]), _mm512_castps_pd(pairs[2 * at + 1]));
        let low = _mm512_castpd_ps(_mm512_unpacklo_pd(one, other));
        _mm512_add_ps(low, _mm512_castpd_ps(_mm512_unpackhi_pd(one, other)))
    });
    let quarters = |one: __m512, other: __m512| {
        let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(one, other);
        _mm512_add_ps(even, _mm512_shuffle_f32x4::<0b11_01_11_01>(one, other))
    };
    quarters(quarters(fours[0], fours[1]), quarters(fours[2], fours[3]))
}

/// Writes 16 scores: those of a row lie beside each other.
///
/// # Safety
///
/// `R` rows of 16 / R scores can be written.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn store_scores<const R: usize>(scores: *mut f32, sums: __m512) {
    // SAFETY: the caller's promise.
    unsafe {
        match R {
            1 => _mm512_storeu_ps(scores, sums),
            2 => {
                _mm256_storeu_ps(scores, _mm512_castps512_ps256(sums));
                _mm256_storeu_ps(scores.add(KEYS), _mm512_extractf32x8_ps::<1>(sums));
            }
            _ => {
                _mm_storeu_ps(scores, _mm512_castps512_ps128(sums));
                _mm_storeu_ps(scores.add(KEYS), _mm512_extractf32x4_ps::<1>(sums));
                _mm_storeu_ps(scores.add(2 * KEYS), _mm512_extractf32x4_ps::<2>(sums));
                _mm_storeu_ps(scores.add(3 * KEYS), _mm512_extractf32x4_ps::<3>(sums));
            }
        }
    }
}

/// The scores of `R` queries with `K` keys at a time, `R` times `K` being 16: `$step` elements at
/// once, the last ones by a mask.
macro_rules! scores {
    ($name:ident: $element:ty, step $step:literal, features $features:literal, mask $mask:ty,
     load $load:path, rest $rest:path, fma |$sum:ident, $a:ident, $b:ident| $fma:expr) => {
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize, const K: usize>(
            queries: [*const $element; R],
            keys: &Rows<$element>,
            factor: f32,
            scores: *mut f32,
        ) {
            let whole = keys.length / $step * $step;
            let mask: $mask = (1 << (keys.length % $step)) - 1;
            for first in (0..keys.count).step_by(K) {
                // Beyond the last key, the last one again: what comes of it is not used.
                let mut key = [keys.start; K];
                for (at, key) in key.iter_mut().enumerate() {
                    *key = keys.start.wrapping_add((first + at).min(keys.count - 1) * keys.stride);
                    let ahead = keys.ahead.wrapping_add((first + at) * keys.ahead_stride);
                    fetch::<{ _MM_HINT_T0 }, $element>(ahead, keys.length);
                }
                let mut sums = [_mm512_setzero_ps(); LANES];
                // SAFETY: the caller's promise.
                unsafe {
                    for at in (0..whole).step_by($step) {
                        for (column, key) in key.iter().enumerate() {
                            let $b = $load(key.add(at).cast());
                            for (row, query) in queries.iter().enumerate() {
                                let $a = $load(query.add(at).cast());
                                let $sum = sums[row * K + column];
                                sums[row * K + column] = $fma;
                            }
                        }
                    }
                    if mask != 0 {
                        for (column, key) in key.iter().enumerate() {
                            let $b = $rest(mask, key.add(whole).cast());
                            for (row, query) in queries.iter().enumerate() {
                                let $a = $rest(mask, query.add(whole).cast());
                                let $sum = sums[row * K + column];
                                sums[row * K + column] = $fma;
                            }
                        }
                    }
                    let sums = _mm512_mul_ps(sums_of(sums), _mm512_set1_ps(factor));
                    store_scores::<R>(scores.add(first), sums);
                }
            }
        }
    };
}

scores!(scores_f32: f32, step 16, features "avx512f,avx512dq", mask u16,
    load _mm512_loadu_ps, rest _mm512_maskz_loadu_ps,
    fma |sum, a, b| _mm512_fmadd_ps(a, b, sum));

scores!(scores_bf16: bf16, step 32, features "avx512f,avx512bw,avx512dq,avx512bf16", mask u32,
    load _mm512_loadu_si512, rest _mm512_maskz_loadu_epi16,
    fma |sum, a, b| _mm512_dpbf16_ps(sum, bf16s(a), bf16s(b)));

/// Lanes below `count`.
fn first(count: usize) -> __mmask16 {
    if count >= LANES { !0 } else { (1 << count) - 1 }
}

/// Lanes of a vector of the scores from `at` on that are seen.
fn within(seen: &Range<usize>, at: usize) -> __mmask16 {
    first(seen.end.saturating_sub(at)) & !first(seen.start.saturating_sub(at))
}

/// 2^x for x that is not positive, off by less than 2.5e-7 of itself.
#[inline]
#[target_feature(enable = "avx512f")]
fn exp2(x: __m512) -> __m512 {
    // Infinite downwards less itself is not a number: there the scale alone decides.
    let is_finite = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, _mm512_set1_ps(-200.0));
    let whole = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
    power(whole, _mm512_maskz_sub_ps(is_finite, x, whole))
}

/// The same of finite ones.
#[inline]
#[target_feature(enable = "avx512f")]
fn exp2_finite(x: __m512) -> __m512 {
    let whole = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
    power(whole, _mm512_sub_ps(x, whole))
}

/// 2^(whole + rest).
#[inline]
#[target_feature(enable = "avx512f")]
fn power(whole: __m512, rest: __m512) -> __m512 {
    let mut power = _mm512_set1_ps(EXP2[5]);
    for at in (0..5).rev() {
        power = _mm512_fmadd_ps(power, rest, _mm512_set1_ps(EXP2[at]));
    }
    _mm512_scalef_ps(power, whole)
}

/// See [`Engine::weigh`]; `store` takes 16 weights to their place. A score that exceeds the largest
/// one so far by up to `lazy` leaves that as what weights are relative to, so that sums need no
/// correction (Zadouri and others, FlashAttention-4, 2026); weights are 2^lazy at most then.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn weigh(
    lazy: f32,
    scores: *mut f32,
    seen: Range<usize>,
    count: usize,
    softmax: &mut Softmax,
    store: impl Fn(usize, __m512),
) -> f32 {
    // SAFETY: the caller's promise.
    let load = |at: usize| unsafe { _mm512_loadu_ps(scores.add(at)) };
    let mut largest = _mm512_set1_ps(softmax.max);
    let mut sums = _mm512_setzero_ps();
    let kept = |max: f32| if max <= softmax.max + lazy { softmax.max } else { max };
    let max;
    if seen == (0..count) && count == KEYS {
        for at in (0..KEYS).step_by(LANES) {
            largest = _mm512_max_ps(largest, load(at));
        }
        max = kept(_mm512_reduce_max_ps(largest));
        for at in (0..KEYS).step_by(LANES) {
            let weights = exp2_finite(_mm512_sub_ps(load(at), _mm512_set1_ps(max)));
            sums = _mm512_add_ps(sums, weights);
            store(at, weights);
        }
    } else {
        for at in (0..seen.end).step_by(LANES) {
            largest = _mm512_mask_max_ps(largest, within(&seen, at), largest, load(at));
        }
        max = kept(_mm512_reduce_max_ps(largest));
        for at in (0..count).step_by(LANES) {
            let weights = exp2(_mm512_sub_ps(load(at), _mm512_set1_ps(max)));
            let weights = _mm512_maskz_mov_ps(within(&seen, at), weights);
            sums = _mm512_add_ps(sums, weights);
            store(at, weights);
        }
    }
    let correction = _mm512_cvtss_f32(exp2(_mm512_set1_ps(softmax.max - max)));
    let sum = softmax.sum * correction + _mm512_reduce_add_ps(sums);
    *softmax = Softmax { max, sum };
    correction
}

#[target_feature(enable = "avx512f")]
unsafe fn weigh_f32(
    scores: *mut f32,
    seen: Range<usize>,
    count: usize,
    softmax: &mut Softmax,
) -> f32 {
    // SAFETY: the caller's promise: the row has KEYS words, whole vectors.
    unsafe {
        let store = |at: usize, weights| _mm512_storeu_ps(scores.add(at), weights);
        weigh(0.0, scores, seen, count, softmax, store)
    }
}

/// Weights of 16 bits; an odd one at the end is followed by nothing, since whole vectors are
/// written.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn weigh_bf16(
    scores: *mut f32,
    seen: Range<usize>,
    count: usize,
    softmax: &mut Softmax,
) -> f32 {
    // SAFETY: the caller's promise.
    unsafe { weigh(0.0, scores, seen, count, softmax, |at, weights| narrow(scores, at, weights)) }
}

/// The same, lazily, with nothing up to the end of the row: products of tiles take whole steps.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn weigh_amx(
    scores: *mut f32,
    seen: Range<usize>,
    count: usize,
    softmax: &mut Softmax,
) -> f32 {
    const LAZY: f32 = 8.0;
    // SAFETY: the caller's promise.
    unsafe {
        let store = |at, weights| narrow(scores, at, weights);
        let correction = weigh(LAZY, scores, seen, count, softmax, store);
        for at in (count.next_multiple_of(LANES)..KEYS).step_by(LANES) {
            store(at, _mm512_setzero_ps());
        }
        correction
    }
}

/// 16 weights to their place among those of 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn narrow(scores: *mut f32, at: usize, weights: __m512) {
    // SAFETY: the caller's promise: the row has KEYS words, whole vectors. A vector of weights
    // goes below the scores that are still to be read.
    unsafe {
        let narrow: __m256i = transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(weights));
        _mm256_storeu_si256(scores.cast::<bf16>().add(at).cast(), narrow);
    }
}

#[target_feature(enable = "avx512f")]
unsafe fn accumulate_f32<const R: usize>(
    corrections: [f32; R],
    weights: *const f32,
    values: &Rows<f32>,
    sums: *mut f32,
    stride: usize,
) {
    for panel in (0..values.length).step_by(COLUMNS) {
        let masks: [__mmask16; VECTORS] =
            from_fn(|at| first(values.length.saturating_sub(panel + at * LANES)));
        // SAFETY: the caller's promise; sums have whole panels.
        unsafe {
            let mut made = load_sums(&corrections, sums.add(panel), stride);
            for index in 0..values.count {
                ahead(values, panel, index);
                let value = values.start.add(index * values.stride + panel);
                let value: [__m512; VECTORS] =
                    from_fn(|at| _mm512_maskz_loadu_ps(masks[at], value.wrapping_add(at * LANES)));
                for (row, made) in made.iter_mut().enumerate() {
                    let weight = _mm512_set1_ps(*weights.add(row * KEYS + index));
                    for (made, value) in made.iter_mut().zip(value) {
                        *made = _mm512_fmadd_ps(weight, value, *made);
                    }
                }
            }
            store_sums(&made, sums.add(panel), stride);
        }
    }
}

/// Two keys at a time, whose values are put beside each other column by column; that leaves the
/// columns in the order that [`Engine::place`] gives.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn accumulate_bf16<const R: usize>(
    corrections: [f32; R],
    weights: *const f32,
    values: &Rows<bf16>,
    sums: *mut f32,
    stride: usize,
) {
    for panel in (0..values.length).step_by(COLUMNS) {
        let masks: [__mmask32; VECTORS / 2] =
            from_fn(|at| match values.length.saturating_sub(panel + at * 2 * LANES) {
                left if left >= 2 * LANES => !0,
                left => (1 << left) - 1,
            });
        // SAFETY: the caller's promise; sums have whole panels.
        unsafe {
            let mut made = load_sums(&corrections, sums.add(panel), stride);
            for index in (0..values.count).step_by(2) {
                ahead(values, panel, index);
                ahead(values, panel, index + 1);
                let key = |index: usize| values.start.add(index * values.stride + panel);
                // Beyond the last key, the last one again, with a weight of nothing.
                let (one, other) = (key(index), key((index + 1).min(values.count - 1)));
                let mut value = [_mm512_setzero_si512(); VECTORS];
                for (at, &mask) in masks.iter().enumerate() {
                    let load = |from: *const bf16| {
                        _mm512_maskz_loadu_epi16(mask, from.wrapping_add(at * 2 * LANES).cast())
                    };
                    let (one, other) = (load(one), load(other));
                    value[2 * at] = _mm512_unpacklo_epi16(one, other);
                    value[2 * at + 1] = _mm512_unpackhi_epi16(one, other);
                }
                for (row, made) in made.iter_mut().enumerate() {
                    let pair = weights.add(row * KEYS).cast::<i32>().add(index / 2);
                    let weight = _mm512_set1_epi32(pair.read());
                    for (made, value) in made.iter_mut().zip(value) {
                        *made = _mm512_dpbf16_ps(*made, bf16s(weight), bf16s(value));
                    }
                }
            }
            store_sums(&made, sums.add(panel), stride);
        }
    }
}

/// Prefetches what comes beside a panel of one value: rows that follow each other in memory from
/// end to end.
#[inline(always)]
fn ahead<T>(values: &Rows<T>, panel: usize, index: usize) {
    let width = (values.length - panel).min(COLUMNS);
    let at = if values.ahead_stride == values.length {
        panel * values.count + index * width
    } else {
        panel + index * values.ahead_stride
    };
    fetch::<{ _MM_HINT_T0 }, T>(values.ahead.wrapping_add(at), width);
}

/// A panel of sums, corrected.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_sums<const R: usize>(
    corrections: &[f32; R],
    sums: *const f32,
    stride: usize,
) -> [[__m512; VECTORS]; R] {
    from_fn(|row| {
        let correction = _mm512_set1_ps(corrections[row]);
        from_fn(|at| {
            // SAFETY: the caller's promise.
            let before = unsafe { _mm512_loadu_ps(sums.add(row * stride + at * LANES)) };
            _mm512_mul_ps(before, correction)
        })
    })
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_sums<const R: usize>(made: &[[__m512; VECTORS]; R], sums: *mut f32, stride: usize) {
    for (row, made) in made.iter().enumerate() {
        for (at, made) in made.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_ps(sums.add(row * stride + at * LANES), *made) };
        }
    }
}

macro_rules! engine {
    ($name:ident: $element:ty, $scores:ident, $weigh:ident, $accumulate:ident,
     packed $packed:expr, weights $weights:literal,
     output $output:expr, place $place:expr) => {
        impl Engine for $name {
            type Element = $element;

            const PACKED: Option<Packed<$element>> = Some($packed);
            const HEADS_TOGETHER: bool = true;
            const KEYS_TOGETHER: usize = 16;
            const WEIGHTS: usize = $weights;

            fn output(sum: f32) -> $element {
                $output(sum)
            }

            fn place(column: usize) -> usize {
                $place(column)
            }

            unsafe fn scores<const R: usize>(
                queries: [*const $element; R],
                keys: &Rows<$element>,
                factor: f32,
                scores: *mut f32,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    match R {
                        1 => $scores::<R, 16>(queries, keys, factor, scores),
                        2 => $scores::<R, 8>(queries, keys, factor, scores),
                        _ => $scores::<R, 4>(queries, keys, factor, scores),
                    }
                }
            }

            unsafe fn weigh(
                scores: *mut f32,
                seen: Range<usize>,
                count: usize,
                softmax: &mut Softmax,
            ) -> f32 {
                // SAFETY: the caller's promise.
                unsafe { $weigh(scores, seen, count, softmax) }
            }

            unsafe fn accumulate<const R: usize>(
                corrections: [f32; R],
                weights: *const f32,
                values: &Rows<$element>,
                sums: *mut f32,
                stride: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { $accumulate(corrections, weights, values, sums, stride) }
            }
        }
    };
}

engine!(F32: f32, scores_f32, weigh_f32, accumulate_f32,
packed avx512_packed::F32, weights 1,
output |sum| sum, place |column| column);

engine!(Bf16: bf16, scores_bf16, weigh_bf16, accumulate_bf16,
packed avx512_packed::BF16, weights 2, output bf16::from_f32, place interleaved);

engine!(Bf16Amx: bf16, scores_bf16, weigh_amx, accumulate_bf16,
packed amx::BF16, weights 2, output bf16::from_f32, place interleaved);

/// Of 32 columns, the interleaved lower halves of every 8 are in one vector, the upper halves in
/// the next.
fn interleaved(column: usize) -> usize {
    let (pair, column) = (column / 32 * 32, column % 32);
    pair + column / 4 % 2 * LANES + column / 8 * 4 + column % 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_widened_as_by_plain_rust() {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512bf16") {
            gathered::check_widen(widen_row);
        }
    }
}
