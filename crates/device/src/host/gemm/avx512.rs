//! AVX-512, with its bfloat16 and int8 dot products: 12 x 2 vectors of sums in 32 registers.
//!
//! 14 rows would fit the registers too, but not the first cache: where rows of C are a power of two
//! apart, all of a tile's fall into one set of it, and that has 12 ways on Zen 5 and Golden Cove.

use super::{
    dots::{Dots, ROWS_MAX, dots},
    grouped::all,
    product::{Share, product},
    stream::{self, Place, Stream, Streamed, stream},
    tile::{Into, Tile},
};
use crate::host::{
    kernel::HostKernel,
    pool::Block,
    transpose::{columns_32, words_32, words_64},
};
use fizeau_domain::{case::Layout, dtype::Dtype, kernel::GemmParams};
use half::bf16;
use std::{arch::x86_64::*, mem::transmute};

/// As many element types as the CPU has instructions for.
pub(super) fn kernels() -> Vec<HostKernel> {
    let has = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("fma");
    if !has {
        return Vec::new();
    }
    let mut kernels = Vec::from(all::<F64>(Dtype::F64, "avx512", F64::one));
    kernels.extend(all::<F32>(Dtype::F32, "avx512", F32::one));
    if is_x86_feature_detected!("avx512bf16") {
        kernels.extend(all::<Bf16>(Dtype::Bf16, "avx512", Bf16::one));
    }
    if is_x86_feature_detected!("avx512vnni") {
        kernels.extend(all::<Int8>(Dtype::Int8, "avx512", Int8::one));
    }
    kernels
}

/// Words along k that operands are fetched ahead.
const AHEAD: usize = 8;

/// A tile of `$rows` x `$vectors` vectors. `$fma` sums a vector of B's words times one of A's.
macro_rules! avx512 {
    (
        $name:ident: A $input:ty, words $group:literal in $word:ty,
        sums $lanes:literal lanes of $sum:ty, C $output:ty,
        tile $rows:literal x $vectors:literal, features $features:literal,
        words from $word_a:expr, $word_b:expr,
        starts at zero $starts_at_zero:literal, start $start:expr,
        offset |$of:ident, $offset:ident| $without:expr,
        put |$sums:ident, $c:ident, $count:ident| $put:expr,
        output $round:expr, load $load:path, broadcast $broadcast:path,
        load sums $load_sum:path, store $store_sum:path, add $add:path,
        transpose |$source:ident, $stride:ident, $target:ident| $pack:expr, columns $columns:expr,
        dots flip $flip:expr, total $total:expr,
        fused |$s:ident, $a:ident, $b:ident| $fma:expr
    ) => {
        pub(super) struct $name;

        impl $name {
            // All that is inlined here may use these instructions.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn one(params: &GemmParams, share: Share, block: Option<&Block<'_>>) {
                let rows = params.m as usize;
                // SAFETY: the caller's promise.
                unsafe {
                    let is_nt = params.layout == Layout::Nt as u32;
                    if is_nt && rows <= ROWS_MAX {
                        dots::<$name>(params, share);
                    } else if !is_nt && rows <= stream::ROWS_MAX {
                        stream::<$name>(params, share, block);
                    } else {
                        product::<$name>(params, share);
                    }
                }
            }
        }

        impl Tile for $name {
            type Input = $input;
            type Word = $word;
            type Sum = $sum;
            type Output = $output;

            const GROUP: usize = $group;
            const ROWS: usize = $rows;
            const COLUMNS: usize = $vectors * $lanes;
            const DEPTH_MAX: usize = 2048 / size_of::<$word>();
            const HEIGHT_MAX: usize = $rows * 16;
            const WIDTH_MAX: usize = 2048;
            const STARTS_AT_ZERO: bool = $starts_at_zero;

            #[inline(always)]
            fn word_a(element: impl Fn(usize) -> $input) -> $word {
                $word_a(std::array::from_fn::<$input, $group, _>(element))
            }
            #[inline(always)]
            fn word_b(element: impl Fn(usize) -> $input) -> $word {
                $word_b(std::array::from_fn::<$input, $group, _>(element))
            }
            #[inline(always)]
            fn start(sum: $sum, word: $word) -> $sum {
                $start(sum, word)
            }
            #[inline(always)]
            fn output(sum: $sum) -> $output {
                $round(sum)
            }

            #[target_feature(enable = "avx512f,avx512dq")]
            unsafe fn pack_rows(
                source: *const $input,
                stride: usize,
                words: usize,
                target: *mut $word,
            ) -> usize {
                let words = words / $lanes * $lanes;
                for word in (0..words).step_by($lanes) {
                    // SAFETY: the caller's promise; the stores reach 64 bytes beyond at most.
                    unsafe {
                        let source = source.add(word * $group);
                        let stride = stride * size_of::<$input>();
                        let $target = target.add(word * $rows);
                        let ($source, $stride) = (source.cast::<u8>(), stride);
                        $pack;
                    }
                }
                words
            }

            #[target_feature(enable = "avx512f,avx512dq")]
            unsafe fn pack_columns(
                source: *const $input,
                stride: usize,
                words: usize,
                target: *mut $word,
            ) -> usize {
                let words = words / $lanes * $lanes;
                for word in (0..words).step_by($lanes) {
                    for first in (0..$vectors * $lanes).step_by(16) {
                        // SAFETY: the caller's promise.
                        unsafe {
                            let source = source.add(first * stride + word * $group).cast::<u8>();
                            let target = target.add(word * $vectors * $lanes + first);
                            $columns(source, stride * size_of::<$input>(), target);
                        }
                    }
                }
                words
            }

            #[target_feature(enable = $features)]
            unsafe fn multiply(
                depth: usize,
                mut a: *const $word,
                mut b: *const $word,
                c: *mut $sum,
                stride: usize,
                into: Into,
            ) {
                // SAFETY: the caller's promise on `a`, `b` and `c`.
                unsafe {
                    let mut sums = [[$load_sum(b.cast()); $vectors]; $rows];
                    for row in 0..$rows {
                        for vector in 0..$vectors {
                            sums[row][vector] = $load_sum(b.add(vector * $lanes).cast());
                            // C comes from memory while the sums are made.
                            let cell = c.wrapping_add(row * stride + vector * $lanes);
                            _mm_prefetch::<_MM_HINT_T0>(cell.cast());
                        }
                    }
                    for _ in 0..depth {
                        b = b.add($vectors * $lanes);
                        let mut words = [$load(b.cast()); $vectors];
                        for vector in 1..$vectors {
                            words[vector] = $load(b.add(vector * $lanes).cast());
                        }
                        // A panel of B is longer than the first cache keeps beside one of A.
                        for vector in 0..$vectors {
                            let ahead = b.wrapping_add((AHEAD * $vectors + vector) * $lanes);
                            _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                        }
                        _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(AHEAD * $rows).cast());
                        for row in 0..$rows {
                            let $a = $broadcast(*a.add(row).cast());
                            for vector in 0..$vectors {
                                let ($s, $b) = (sums[row][vector], words[vector]);
                                sums[row][vector] = $fma;
                            }
                        }
                        a = a.add($rows);
                    }
                    for row in 0..$rows {
                        for vector in 0..$vectors {
                            let c = c.add(row * stride + vector * $lanes);
                            let sum = sums[row][vector];
                            let sum = match into {
                                Into::Replace => sum,
                                Into::Add => $add($load_sum(c.cast()), sum),
                            };
                            $store_sum(c.cast(), sum);
                        }
                    }
                }
            }
        }

        impl Dots for $name {
            type Input = $input;
            type Output = $output;
            type Vector = __m512i;

            const STEP: usize = 64 / size_of::<$input>();
            const PARTS: usize = 1;
            const WIDE: bool = true;
            const HAS_OFFSET: bool = !$starts_at_zero;

            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn zero() -> __m512i {
                _mm512_setzero_si512()
            }

            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn load(from: *const $input) -> [__m512i; 2] {
                // SAFETY: the caller's promise.
                [unsafe { _mm512_loadu_si512(from.cast()) }, _mm512_setzero_si512()]
            }

            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn flipped(a: __m512i) -> __m512i {
                _mm512_xor_si512(a, _mm512_set1_epi32($flip as i32))
            }

            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn fused(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: vectors are 512 bits, whatever they are called.
                unsafe {
                    let $s = $load_sum((&raw const sum).cast());
                    let ($a, $b) = ($load((&raw const a).cast()), $load((&raw const b).cast()));
                    let sum = $fma;
                    _mm512_loadu_si512((&raw const sum).cast())
                }
            }

            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn total(sum: __m512i, offset: __m512i) -> $output {
                // SAFETY: the caller's promise.
                let sum = unsafe { <$name as Stream>::without_offset(sum, offset) };
                $round($total(sum))
            }
        }

        impl Stream for $name {
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn fused(sum: __m512i, a: *const $word, b: __m512i) -> __m512i {
                // SAFETY: the caller's promise; vectors are 512 bits, whatever they are called.
                unsafe {
                    let $s = $load_sum((&raw const sum).cast());
                    let $a = $broadcast(*a.cast());
                    let $b = $load((&raw const b).cast());
                    let sum = $fma;
                    _mm512_loadu_si512((&raw const sum).cast())
                }
            }

            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn plus(left: __m512i, right: __m512i) -> __m512i {
                // SAFETY: vectors are 512 bits, whatever they are called.
                unsafe {
                    let one = $load_sum((&raw const left).cast());
                    let sum = $add(one, $load_sum((&raw const right).cast()));
                    _mm512_loadu_si512((&raw const sum).cast())
                }
            }

            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn without_offset($of: __m512i, $offset: __m512i) -> __m512i {
                $without
            }

            #[target_feature(enable = $features)]
            unsafe fn some<const R: usize, const C: usize, const EDGE: bool, const KEEP: u8>(
                streamed: &Streamed<$name>,
                place: &Place,
                row: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { streamed.some::<R, C, EDGE, KEEP>(place, row) }
            }

            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn put($sums: __m512i, $c: *mut $output, $count: usize) {
                // SAFETY: the caller's promise: masks keep stores within what can be written.
                unsafe { $put }
            }
        }
    };
}

avx512!(
    F64: A f64, words 1 in f64, sums 8 lanes of f64, C f64, tile 12 x 2,
    features "avx512f,avx512bw,avx512dq,avx512vl,fma",
    words from |[word]: [f64; 1]| word, |[word]: [f64; 1]| word,
    starts at zero true, start |sum, _| sum, offset |sum, _offset| sum,
    put |sums, c, count| {
        _mm512_mask_storeu_pd(c, first(count) as __mmask8, _mm512_castsi512_pd(sums))
    },
    output |sum| sum, load _mm512_loadu_pd, broadcast _mm512_set1_pd,
    load sums _mm512_loadu_pd, store _mm512_storeu_pd, add _mm512_add_pd,
    transpose |source, stride, target| words_64::<12>(source, stride, target),
    columns words_64::<16>,
    dots flip 0, total |sum| _mm512_reduce_add_pd(_mm512_castsi512_pd(sum)),
    fused |sum, a, b| _mm512_fmadd_pd(a, b, sum)
);

avx512!(
    F32: A f32, words 1 in f32, sums 16 lanes of f32, C f32, tile 12 x 2,
    features "avx512f,avx512bw,avx512dq,avx512vl,fma",
    words from |[word]: [f32; 1]| word, |[word]: [f32; 1]| word,
    starts at zero true, start |sum, _| sum, offset |sum, _offset| sum,
    put |sums, c, count| _mm512_mask_storeu_ps(c, first(count), _mm512_castsi512_ps(sums)),
    output |sum| sum, load _mm512_loadu_ps, broadcast _mm512_set1_ps,
    load sums _mm512_loadu_ps, store _mm512_storeu_ps, add _mm512_add_ps,
    transpose |source, stride, target| words_32::<12>(source, stride, target.cast(), 0),
    columns |source, stride, target: *mut f32| columns_32(source, stride, target.cast(), 32),
    dots flip 0, total |sum| _mm512_reduce_add_ps(_mm512_castsi512_ps(sum)),
    fused |sum, a, b| _mm512_fmadd_ps(a, b, sum)
);

avx512!(
    Bf16: A bf16, words 2 in u32, sums 16 lanes of f32, C bf16, tile 12 x 2,
    features "avx512f,avx512bw,avx512dq,avx512vl,fma,avx512bf16",
    words from pair, pair,
    starts at zero true, start |sum, _| sum, offset |sum, _offset| sum,
    put |sums, c, count| {
        let narrow = _mm512_cvtneps_pbh(_mm512_castsi512_ps(sums));
        // SAFETY: both are 256 bits without a meaning of their own.
        let narrow = transmute::<__m256bh, __m256i>(narrow);
        _mm256_mask_storeu_epi16(c.cast(), first(count), narrow)
    },
    output bf16::from_f32, load _mm512_loadu_si512, broadcast _mm512_set1_epi32,
    load sums _mm512_loadu_ps, store _mm512_storeu_ps, add _mm512_add_ps,
    transpose |source, stride, target| words_32::<12>(source, stride, target, 0),
    columns |source, stride, target| columns_32(source, stride, target, 32),
    dots flip 0, total |sum| _mm512_reduce_add_ps(_mm512_castsi512_ps(sum)),
    fused |sum, a, b| dot_bf16(sum, a, b)
);

// The instruction takes A without a sign, so A goes in with 128 added to each element, and the
// sums start from what that adds to them.
avx512!(
    Int8: A i8, words 4 in u32, sums 16 lanes of i32, C i32, tile 12 x 2,
    features "avx512f,avx512bw,avx512dq,avx512vl,fma,avx512vnni",
    words from |word| four(word) ^ SIGN, four,
    starts at zero false,
    start |sum, word: u32| word.to_le_bytes().iter().fold(sum, |sum, &byte| {
        sum - 128 * i32::from(byte as i8)
    }),
    offset |sum, offset| _mm512_sub_epi32(sum, offset),
    put |sums, c, count| _mm512_mask_storeu_epi32(c, first(count), sums),
    output |sum| sum, load _mm512_loadu_si512, broadcast _mm512_set1_epi32,
    load sums _mm512_loadu_si512, store _mm512_storeu_si512, add _mm512_add_epi32,
    transpose |source, stride, target| words_32::<12>(source, stride, target, SIGN),
    columns |source, stride, target| columns_32(source, stride, target, 32),
    dots flip SIGN, total _mm512_reduce_add_epi32,
    fused |sum, a, b| _mm512_dpbusd_epi32(sum, a, b)
);

#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
fn dot_bf16(sum: __m512, a: __m512i, b: __m512i) -> __m512 {
    // SAFETY: both are 512 bits without a meaning of their own.
    let (a, b) = unsafe { (transmute::<__m512i, __m512bh>(a), transmute::<__m512i, __m512bh>(b)) };
    _mm512_dpbf16_ps(sum, a, b)
}

/// The first `count` lanes, 16 at most.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1_u32 << count) - 1) as __mmask16
}

/// 128 added to each of four bytes.
const SIGN: u32 = 0x8080_8080;

#[inline(always)]
fn pair(word: [bf16; 2]) -> u32 {
    u32::from(word[0].to_bits()) | u32::from(word[1].to_bits()) << 16
}

#[inline(always)]
fn four(word: [i8; 4]) -> u32 {
    u32::from_le_bytes(word.map(|byte| byte as u8))
}
