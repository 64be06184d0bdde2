//! AVX2 with fused multiply-add: 6 x 2 vectors of sums in 16 registers. bfloat16 is multiplied as
//! `f32`, int8 as pairs of 16-bit integers, both widened while operands are packed.

use super::{
    dots::{self, Dots, dots},
    few::{self, Few, few},
    grouped::all,
    product::{Share, product},
    tile::{Into, Tile},
};
use crate::host::{
    kernel::{HostKernel, inlined},
    pool::Block,
};
use fizeau_domain::{case::Layout, dtype::Dtype, kernel::GemmParams};
use half::bf16;
use std::arch::x86_64::*;

/// One for each element type; none if the CPU lacks the instructions.
pub(super) fn kernels() -> Vec<HostKernel> {
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        return Vec::new();
    }
    let kernels = [
        all::<F64>(Dtype::F64, "avx2", one::<F64, F64>),
        all::<F32>(Dtype::F32, "avx2", one::<F32, F32>),
        all::<Bf16>(Dtype::Bf16, "avx2", one::<Bf16, Bf16>),
        all::<Int8>(Dtype::Int8, "avx2", one::<Int8, Int8>),
    ];
    kernels.into_iter().flatten().collect()
}

/// One thread's share: few rows as `F` has them, many by the tiles of `T`.
///
/// # Safety
///
/// The parameters describe operands that live; the CPU has the instructions of both.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn one<F: Few + Dots, T: Tile>(
    params: &GemmParams,
    share: Share,
    block: Option<&Block<'_>>,
) {
    let rows = params.m as usize;
    // SAFETY: the caller's promise.
    unsafe {
        if params.layout == Layout::Nt as u32 {
            match rows <= dots::ROWS_MAX {
                true => dots::<F>(params, share),
                false => product::<T>(params, share),
            }
        } else if rows <= few::ROWS_MAX && params.n as usize >= <F as Few>::COLUMNS {
            few::<F>(params, share, block);
        } else {
            product::<T>(params, share);
        }
    }
}

/// Words along k that A is fetched ahead.
const AHEAD: usize = 16;

/// Both ways of one element type: a tile of packed words, and blocks of B in place.
macro_rules! avx2 {
    (
        $name:ident: A $input:ty, words $group:literal in $word:ty, widened $widened:ty,
        sums $lanes:literal lanes of $sum:ty as $vector:ty, C $output:ty,
        word $pack:expr, output $round:expr, widen $widen:expr,
        zero $zero:path, load $load:path, store $store:path, add $add:path,
        broadcast |$from:ident| $broadcast:expr,
        fused |$s:ident, $a:ident, $b:ident| $fused:expr,
        block |$row:ident, $other:ident| $block:expr,
        slab from |$begun:ident| $start:expr, to |$before:ident, $total:ident| $finish:expr,
        into C |$pair:ident, $sums:ident, $c:ident| $into:expr,
        columns of $side:literal words from $zero_row:path,
        |$line:ident| $line_words:expr, $transpose:path,
        dots of $step:literal elements in $parts:literal, |$elements:ident| $widened_b:expr,
        total $total_of:path
    ) => {
        pub(super) struct $name;

        impl Tile for $name {
            type Input = $input;
            type Word = $word;
            type Sum = $sum;
            type Output = $output;

            const GROUP: usize = $group;
            const ROWS: usize = 6;
            const COLUMNS: usize = 2 * $lanes;
            const DEPTH_MAX: usize = 256;
            const HEIGHT_MAX: usize = 144;
            const WIDTH_MAX: usize = 2048;

            #[inline(always)]
            fn word_a(element: impl Fn(usize) -> $input) -> $word {
                $pack(std::array::from_fn::<$input, $group, _>(element))
            }
            #[inline(always)]
            fn output(sum: $sum) -> $output {
                $round(sum)
            }

            #[target_feature(enable = "avx2,fma")]
            unsafe fn pack_columns(
                source: *const $input,
                stride: usize,
                words: usize,
                target: *mut $word,
            ) -> usize {
                let words = words / $side * $side;
                for word in (0..words).step_by($side) {
                    for first in (0..2 * $lanes).step_by($side) {
                        // SAFETY: the caller's promise.
                        unsafe {
                            let mut rows = [$zero_row(); $side];
                            for row in 0..$side {
                                let $line = source.add((first + row) * stride + word * $group);
                                rows[row] = $line_words;
                            }
                            let target = target.add(word * 2 * $lanes + first);
                            $transpose(rows, target.cast(), 2 * $lanes);
                        }
                    }
                }
                words
            }

            #[target_feature(enable = "avx2,fma")]
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
                    let mut sums = [[$load(b.cast()), $load(b.add($lanes).cast())]; 6];
                    for row in 0..6 {
                        // C comes from memory while the sums are made.
                        _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(row * stride).cast());
                    }
                    for _ in 0..depth {
                        b = b.add(2 * $lanes);
                        let (low, high) = ($load(b.cast()), $load(b.add($lanes).cast()));
                        _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(AHEAD * 6).cast());
                        for row in 0..6 {
                            let $from = a.add(row);
                            let $a = $broadcast;
                            let [one, two] = sums[row];
                            let ($s, $b) = (one, low);
                            sums[row][0] = $fused;
                            let ($s, $b) = (two, high);
                            sums[row][1] = $fused;
                        }
                        a = a.add(6);
                    }
                    for row in 0..6 {
                        for vector in 0..2 {
                            let c = c.add(row * stride + vector * $lanes);
                            let sum = sums[row][vector];
                            let sum = match into {
                                Into::Add => $add($load(c.cast_const().cast()), sum),
                                Into::Replace => sum,
                            };
                            $store(c.cast(), sum);
                        }
                    }
                }
            }
        }

        impl Dots for $name {
            type Input = $input;
            type Output = $output;
            type Vector = $vector;

            const STEP: usize = $step;
            const PARTS: usize = $parts;
            const WIDE: bool = false;
            const HAS_OFFSET: bool = false;

            #[inline(always)]
            unsafe fn flipped(a: $vector) -> $vector {
                a
            }
            inlined! {
                fn zero() -> $vector = $zero();
                fn load($elements: *const $input) -> [$vector; 2] = $widened_b;
                fn fused($s: $vector, $a: $vector, $b: $vector) -> $vector = $fused;
                fn total(sum: $vector, _offset: $vector) -> $output = $round($total_of(sum));
            }
        }

        impl Few for $name {
            type Input = $input;
            type Word = $word;
            type Output = $output;
            type Vector = $vector;

            const GROUP: usize = $group;
            const COLUMNS: usize = 4 * $lanes;

            #[inline(always)]
            unsafe fn widen(from: *const $input, count: usize, to: *mut $word) {
                let to = to.cast::<$widened>();
                // SAFETY: the caller's promise; an odd one is followed by nothing.
                unsafe {
                    for at in 0..count {
                        to.add(at).write($widen(*from.add(at)));
                    }
                    for at in count..count.next_multiple_of($group) {
                        to.add(at).write($widen(<$input>::default()));
                    }
                }
            }
            inlined! {
                fn zero() -> $vector = $zero();
                fn load($row: *const $input, $other: *const $input) -> [[$vector; 2]; 2] = $block;
                fn broadcast($from: *const $word) -> $vector = $broadcast;
                fn fused($s: $vector, $a: $vector, $b: $vector) -> $vector = $fused;
            }
            #[inline(always)]
            unsafe fn start($begun: $vector) -> $vector {
                $start
            }
            #[inline(always)]
            unsafe fn finish($before: *const $vector, $total: $vector) -> $vector {
                $finish
            }
            inlined! {
                fn add(left: $vector, right: $vector) -> $vector = $add(left, right);
                fn store($pair: usize, $sums: [$vector; 2], $c: *mut $output) = $into;
            }
        }
    };
}

avx2!(
    F64: A f64, words 1 in f64, widened f64, sums 4 lanes of f64 as __m256d, C f64,
    word |[word]: [f64; 1]| word, output |sum| sum, widen |element| element,
    zero _mm256_setzero_pd, load _mm256_loadu_pd, store _mm256_storeu_pd, add _mm256_add_pd,
    broadcast |from| _mm256_broadcast_sd(&*from),
    fused |sum, a, b| _mm256_fmadd_pd(a, b, sum),
    block |row, _other| [
        [_mm256_loadu_pd(row), _mm256_loadu_pd(row.add(4))],
        [_mm256_loadu_pd(row.add(8)), _mm256_loadu_pd(row.add(12))],
    ],
    slab from |sum| sum, to |_before, total| total,
    into C |pair, sums, c| {
        _mm256_storeu_pd(c.add(8 * pair), sums[0]);
        _mm256_storeu_pd(c.add(8 * pair + 4), sums[1]);
    },
    columns of 4 words from _mm256_setzero_pd, |from| _mm256_loadu_pd(from), columns_64,
    dots of 4 elements in 1, |from| [_mm256_loadu_pd(from), _mm256_setzero_pd()],
    total total_64
);

avx2!(
    F32: A f32, words 1 in f32, widened f32, sums 8 lanes of f32 as __m256, C f32,
    word |[word]: [f32; 1]| word, output |sum| sum, widen |element| element,
    zero _mm256_setzero_ps, load _mm256_loadu_ps, store _mm256_storeu_ps, add _mm256_add_ps,
    broadcast |from| _mm256_broadcast_ss(&*from),
    fused |sum, a, b| _mm256_fmadd_ps(a, b, sum),
    block |row, _other| [
        [_mm256_loadu_ps(row), _mm256_loadu_ps(row.add(8))],
        [_mm256_loadu_ps(row.add(16)), _mm256_loadu_ps(row.add(24))],
    ],
    slab from |sum| sum, to |_before, total| total,
    into C |pair, sums, c| {
        _mm256_storeu_ps(c.add(16 * pair), sums[0]);
        _mm256_storeu_ps(c.add(16 * pair + 8), sums[1]);
    },
    columns of 8 words from _mm256_setzero_ps, |from| _mm256_loadu_ps(from), columns_32,
    dots of 8 elements in 1, |from| [_mm256_loadu_ps(from), _mm256_setzero_ps()],
    total total_32
);

// A pair's even columns are in its first vector, the odd ones in the second: so one shift and one
// mask widen them.
avx2!(
    Bf16: A bf16, words 1 in f32, widened f32, sums 8 lanes of f32 as __m256, C bf16,
    word |[word]: [bf16; 1]| wide(word), output bf16::from_f32, widen wide,
    zero _mm256_setzero_ps, load _mm256_loadu_ps, store _mm256_storeu_ps, add _mm256_add_ps,
    broadcast |from| _mm256_broadcast_ss(&*from),
    fused |sum, a, b| _mm256_fmadd_ps(a, b, sum),
    block |row, _other| [even_odd(row), even_odd(row.add(16))],
    slab from |sum| sum, to |_before, total| total,
    into C |pair, sums, c| {
        let even = _mm256_srli_epi32::<16>(rounded(sums[0]));
        let odd = _mm256_and_si256(rounded(sums[1]), _mm256_set1_epi32(!0xffff));
        _mm256_storeu_si256(c.add(16 * pair).cast(), _mm256_or_si256(even, odd));
    },
    columns of 8 words from _mm256_setzero_ps, |from| {
        let halves = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(halves))
    }, columns_32,
    dots of 16 elements in 2, |from| even_odd(from),
    total total_32
);

avx2!(
    Int8: A i8, words 2 in u32, widened i16, sums 8 lanes of i32 as __m256i, C i32,
    word pair, output |sum| sum, widen |byte: i8| i16::from(byte),
    zero _mm256_setzero_si256, load _mm256_loadu_si256, store _mm256_storeu_si256,
    add _mm256_add_epi32,
    broadcast |from| _mm256_set1_epi32(from.cast::<i32>().read_unaligned()),
    fused |sum, a, b| _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)),
    block |row, other| {
        let (one, two) = (_mm256_loadu_si256(row.cast()), _mm256_loadu_si256(other.cast()));
        [
            bytes(_mm256_unpacklo_epi16(one, two)),
            bytes(_mm256_unpackhi_epi16(one, two)),
        ]
    },
    // SAFETY: the caller's promise.
    slab from |_sum| unsafe { _mm256_setzero_si256() },
    // SAFETY: as above.
    to |before, total| unsafe { _mm256_add_epi32(*before, _mm256_srai_epi32::<8>(total)) },
    into C |pair, sums, c| {
        let low = _mm256_unpacklo_epi32(sums[0], sums[1]);
        let high = _mm256_unpackhi_epi32(sums[0], sums[1]);
        let c = c.add(8 * pair);
        _mm256_storeu_si256(c.cast(), _mm256_permute2x128_si256::<0x20>(low, high));
        _mm256_storeu_si256(c.add(16).cast(), _mm256_permute2x128_si256::<0x31>(low, high));
    },
    columns of 8 words from _mm256_setzero_ps, |from| {
        _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast())))
    }, columns_32,
    dots of 32 elements in 2, |from| [
        _mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast())),
        _mm256_cvtepi8_epi16(_mm_loadu_si128(from.add(16).cast())),
    ],
    total total_integers
);

/// 16 elements as `f32`: the even ones, the odd ones.
#[inline(always)]
unsafe fn even_odd(from: *const bf16) -> [__m256; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let both = _mm256_loadu_si256(from.cast());
        let odd = _mm256_and_si256(both, _mm256_set1_epi32(!0xffff));
        [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(both)), _mm256_castsi256_ps(odd)]
    }
}

/// The even bytes, then the odd ones, each times 256 in 16 bits: so one shift and one mask widen
/// them.
#[inline(always)]
unsafe fn bytes(both: __m256i) -> [__m256i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let odd = _mm256_and_si256(both, _mm256_set1_epi16(!0xff));
        [_mm256_slli_epi16::<8>(both), odd]
    }
}

/// The nearest value of bfloat16, in the upper half of each lane; ties go to the even one.
#[inline(always)]
unsafe fn rounded(sums: __m256) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let bits = _mm256_castps_si256(sums);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)))
    }
}

#[inline(always)]
fn wide(element: bf16) -> f32 {
    f32::from_bits(u32::from(element.to_bits()) << 16)
}

#[inline(always)]
fn pair(word: [i8; 2]) -> u32 {
    let [low, high] = word.map(|byte| u32::from(i16::from(byte) as u16));
    low | high << 16
}

/// Writes the columns of 8 rows of 8 words, each column's words together, `apart` words from one
/// column to the next.
#[inline(always)]
unsafe fn columns_32(rows: [__m256; 8], target: *mut f32, apart: usize) {
    // SAFETY: the caller's promise: the words can be written, and the CPU has AVX2.
    unsafe {
        let mut pairs = rows;
        for at in (0..8).step_by(2) {
            pairs[at] = _mm256_unpacklo_ps(rows[at], rows[at + 1]);
            pairs[at + 1] = _mm256_unpackhi_ps(rows[at], rows[at + 1]);
        }
        // fours[4 i + c]: rows 4 i to 4 i + 3 of columns c and c + 4.
        let mut fours = pairs;
        for at in (0..8).step_by(4) {
            for half in 0..2 {
                let low = _mm256_castps_pd(pairs[at + half]);
                let high = _mm256_castps_pd(pairs[at + half + 2]);
                fours[at + 2 * half] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
                fours[at + 2 * half + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
            }
        }
        for c in 0..4 {
            let low = _mm256_permute2f128_ps::<0x20>(fours[c], fours[4 + c]);
            let high = _mm256_permute2f128_ps::<0x31>(fours[c], fours[4 + c]);
            _mm256_storeu_ps(target.add(c * apart), low);
            _mm256_storeu_ps(target.add((4 + c) * apart), high);
        }
    }
}

/// As [`columns_32`], 4 rows of 4 words of 64 bits.
#[inline(always)]
unsafe fn columns_64(rows: [__m256d; 4], target: *mut f64, apart: usize) {
    // SAFETY: as above.
    unsafe {
        let [a, b, c, d] = rows;
        let even = [_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d)];
        let odd = [_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d)];
        _mm256_storeu_pd(target, _mm256_permute2f128_pd::<0x20>(even[0], even[1]));
        _mm256_storeu_pd(target.add(apart), _mm256_permute2f128_pd::<0x20>(odd[0], odd[1]));
        _mm256_storeu_pd(target.add(2 * apart), _mm256_permute2f128_pd::<0x31>(even[0], even[1]));
        _mm256_storeu_pd(target.add(3 * apart), _mm256_permute2f128_pd::<0x31>(odd[0], odd[1]));
    }
}

/// The sum of all lanes.
#[inline(always)]
unsafe fn total_64(sums: __m256d) -> f64 {
    // SAFETY: the CPU has AVX2.
    unsafe {
        let two = _mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd::<1>(sums));
        _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
    }
}

/// The sum of all lanes.
#[inline(always)]
unsafe fn total_32(sums: __m256) -> f32 {
    // SAFETY: the CPU has AVX2.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// The sum of all lanes.
#[inline(always)]
unsafe fn total_integers(sums: __m256i) -> i32 {
    // SAFETY: the CPU has AVX2.
    unsafe {
        let upper = _mm256_extracti128_si256::<1>(sums);
        let four = _mm_add_epi32(_mm256_castsi256_si128(sums), upper);
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0x4e>(four));
        _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0xb1>(two)))
    }
}
