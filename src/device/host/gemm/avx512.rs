//! AVX-512, with its bfloat16 and int8 dot products: 14 x 2 vectors of sums in 32 registers.

use super::{
    bundled,
    product::product,
    tile::{Into, Tile},
};
use crate::device::host::{HostKernel, pool::Block};
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
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
    unsafe fn inner<T: Tile>(block: &Block<'_>) {
        // SAFETY: the caller's promise.
        unsafe { product::<T>(block) }
    }
    fn run<T: Tile>(block: &Block<'_>) {
        // SAFETY: whoever launches passes operands that live; the CPU is asked before this
        // kernel is listed.
        unsafe { inner::<T>(block) }
    }
    let mut kernels =
        vec![bundled("gemm/f64", "avx512", run::<F64>), bundled("gemm/f32", "avx512", run::<F32>)];
    if is_x86_feature_detected!("avx512bf16") {
        kernels.push(bundled("gemm/bf16", "avx512", run::<Bf16>));
    }
    if is_x86_feature_detected!("avx512vnni") {
        kernels.push(bundled("gemm/int8", "avx512", run::<Int8>));
    }
    kernels
}

/// A tile of `$rows` x `$vectors` vectors. `$fma` sums a vector of B's words times one of A's.
macro_rules! avx512 {
    ($name:ident: $input:ty as [$word:ty; $group:literal]
     => $sum:ty as $lanes:literal => $output:ty,
     $rows:literal x $vectors:literal, depth $depth:literal,
     features $features:literal, padding $padding:expr, starts $starts:literal,
     word_a $word_a:expr, word_b $word_b:expr, zero $zero:expr, start $start:expr,
     output $round:expr, load $load:path, broadcast $broadcast:path,
     sums $load_sum:path, $store_sum:path, $add:path,
     fma |$s:ident, $a:ident, $b:ident| $fma:expr) => {
        struct $name;

        impl Tile for $name {
            type Input = $input;
            type Word = $word;
            type Sum = $sum;
            type Output = $output;

            const GROUP: usize = $group;
            const ROWS: usize = $rows;
            const COLUMNS: usize = $vectors * $lanes;
            const DEPTH_MAX: usize = $depth;
            const HEIGHT_MAX: usize = $rows * 24;
            const WIDTH_MAX: usize = 2048;
            const PADDING: $word = $padding;
            const STARTS_AT_ZERO: bool = !$starts;

            #[inline(always)]
            fn word_a(element: impl Fn(usize) -> $input) -> $word {
                $word_a(std::array::from_fn::<$input, $group, _>(element))
            }
            #[inline(always)]
            fn word_b(element: impl Fn(usize) -> $input) -> $word {
                $word_b(std::array::from_fn::<$input, $group, _>(element))
            }
            #[inline(always)]
            fn zero() -> $input {
                $zero
            }
            #[inline(always)]
            fn start(sum: $sum, word: $word) -> $sum {
                $start(sum, word)
            }
            #[inline(always)]
            fn add(left: $sum, right: $sum) -> $sum {
                left + right
            }
            #[inline(always)]
            fn output(sum: $sum) -> $output {
                $round(sum)
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
    };
}

avx512!(F64: f64 as [f64; 1] => f64 as 8 => f64, 14 x 2, depth 320,
    features "avx512f", padding 0.0, starts false,
    word_a |[word]: [f64; 1]| word, word_b |[word]: [f64; 1]| word, zero 0.0,
    start |sum, _| sum, output |sum| sum, load _mm512_loadu_pd, broadcast _mm512_set1_pd,
    sums _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd,
    fma |sum, a, b| _mm512_fmadd_pd(a, b, sum));

avx512!(F32: f32 as [f32; 1] => f32 as 16 => f32, 14 x 2, depth 384,
    features "avx512f", padding 0.0, starts false,
    word_a |[word]: [f32; 1]| word, word_b |[word]: [f32; 1]| word, zero 0.0,
    start |sum, _| sum, output |sum| sum, load _mm512_loadu_ps, broadcast _mm512_set1_ps,
    sums _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps,
    fma |sum, a, b| _mm512_fmadd_ps(a, b, sum));

avx512!(Bf16: bf16 as [u32; 2] => f32 as 16 => bf16, 14 x 2, depth 384,
features "avx512f,avx512bf16", padding 0, starts false,
word_a pair, word_b pair, zero bf16::ZERO,
start |sum, _| sum, output bf16::from_f32, load _mm512_loadu_si512,
broadcast _mm512_set1_epi32, sums _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps,
fma |sum, a, b| {
    let pairs = transmute::<__m512i, __m512bh>;
    _mm512_dpbf16_ps(sum, pairs(a), pairs(b))
});

// The instruction takes A without a sign, so A goes in with 128 added to each element, and the
// sums start from what that adds to them.
avx512!(Int8: i8 as [u32; 4] => i32 as 16 => i32, 14 x 2, depth 384,
    features "avx512f,avx512vnni", padding 0, starts true,
    word_a |word| four(word) ^ 0x8080_8080, word_b four, zero 0,
    start |sum, word: u32| word.to_le_bytes().iter().fold(sum, |sum, &byte| {
        sum - 128 * i32::from(byte as i8)
    }),
    output |sum| sum, load _mm512_loadu_si512, broadcast _mm512_set1_epi32,
    sums _mm512_loadu_si512, _mm512_storeu_si512, _mm512_add_epi32,
    fma |sum, a, b| _mm512_dpbusd_epi32(sum, a, b));

#[inline(always)]
fn pair(word: [bf16; 2]) -> u32 {
    u32::from(word[0].to_bits()) | u32::from(word[1].to_bits()) << 16
}

#[inline(always)]
fn four(word: [i8; 4]) -> u32 {
    u32::from_le_bytes(word.map(|byte| byte as u8))
}
