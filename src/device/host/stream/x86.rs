//! The variants for x86: AVX2 and AVX-512, with ordinary and non-temporal stores, walking one
//! place of the part or four.

use super::{HostKernel, Part, Pass, Passes, plain, variant};
use std::arch::x86_64::*;

/// Vectors of one step at one place: independent sums, and a whole number of lines.
const UNROLL: usize = 8;

/// The loop of every variant: `step(place, element)` for each step of each of `STREAMS` places,
/// and `tail` for what is left over.
macro_rules! walk {
    ($part:ident, $streams:ident, $lanes:expr, |$at:ident| $step:block) => {{
        let step = UNROLL * $lanes;
        let chunk = $part.length / $streams / step * step;
        let mut within = 0;
        while within < chunk {
            for stream in 0..$streams {
                let $at = stream * chunk + within;
                $step
            }
            within += step;
        }
        chunk * $streams
    }};
}

/// What is left after the steps, by the plain loops.
unsafe fn rest(part: Part, done: usize, pass: Pass) -> f64 {
    if done == part.length {
        return 0.0;
    }
    let rest = Part {
        a: part.a.wrapping_add(done),
        b: part.b.wrapping_add(done),
        c: part.c.wrapping_add(done),
        length: part.length - done,
        scale: part.scale,
    };
    // SAFETY: the end of the caller's own part.
    unsafe { pass(rest) }
}

macro_rules! passes {
    (
        $module:ident, $features:literal, $lanes:tt, $load:ident, $set:ident, $zero:ident,
        $add:ident, $mul:ident, $fma:ident, $store:ident
    ) => {
        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            unsafe fn total(sums: [Vector; UNROLL]) -> f64 {
                let mut lanes = [0.0f64; UNROLL * $lanes];
                for (at, sum) in sums.into_iter().enumerate() {
                    // SAFETY: eight vectors of lanes each fit.
                    unsafe { store_plain(lanes.as_mut_ptr().add(at * $lanes), sum) };
                }
                lanes.iter().sum()
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn read<const STREAMS: usize>(part: Part) -> f64 {
                // SAFETY: within the part, by `walk`.
                unsafe {
                    let mut sums = [$zero(); UNROLL];
                    let done = walk!(part, STREAMS, $lanes, |at| {
                        for (vector, sum) in sums.iter_mut().enumerate() {
                            *sum = $add(*sum, $load(part.a.add(at + vector * $lanes)));
                        }
                    });
                    total(sums) + rest(part, done, plain::read)
                }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn dot<const STREAMS: usize>(part: Part) -> f64 {
                // SAFETY: within the part, by `walk`.
                unsafe {
                    let mut sums = [$zero(); UNROLL];
                    let done = walk!(part, STREAMS, $lanes, |at| {
                        for (vector, sum) in sums.iter_mut().enumerate() {
                            let at = at + vector * $lanes;
                            *sum = $fma($load(part.a.add(at)), $load(part.b.add(at)), *sum);
                        }
                    });
                    total(sums) + rest(part, done, plain::dot)
                }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn write<const STREAMS: usize>(part: Part) -> f64 {
                // SAFETY: within the part, by `walk`.
                unsafe {
                    let value = $set(part.scale);
                    let done = walk!(part, STREAMS, $lanes, |at| {
                        for vector in 0..UNROLL {
                            $store(part.a.add(at + vector * $lanes), value);
                        }
                    });
                    _mm_sfence();
                    rest(part, done, plain::write)
                }
            }

            passes!(@map $features, $lanes, $store, copy, |part, at, scale|
                $load(part.b.add(at)), $set);
            passes!(@map $features, $lanes, $store, scale, |part, at, scale|
                $mul(scale, $load(part.b.add(at))), $set);
            passes!(@map $features, $lanes, $store, add, |part, at, scale|
                $add($load(part.b.add(at)), $load(part.c.add(at))), $set);
            passes!(@map $features, $lanes, $store, triad, |part, at, scale|
                $fma(scale, $load(part.c.add(at)), $load(part.b.add(at))), $set);

            passes!(@types $lanes);

            /// All operations, with reductions of their own.
            pub(super) fn passes<const STREAMS: usize>() -> Passes {
                [
                    read::<STREAMS>,
                    write::<STREAMS>,
                    copy::<STREAMS>,
                    scale::<STREAMS>,
                    add::<STREAMS>,
                    triad::<STREAMS>,
                    dot::<STREAMS>,
                ]
            }
        }
    };
    (@map $features:literal, $lanes:tt, $store:ident, $name:ident,
     |$part:ident, $at:ident, $scale:ident| $value:expr, $set:ident) => {
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name<const STREAMS: usize>($part: Part) -> f64 {
            // SAFETY: within the part, by `walk`.
            unsafe {
                let $scale = $set($part.scale);
                let _ = $scale;
                let done = walk!($part, STREAMS, $lanes, |start| {
                    for vector in 0..UNROLL {
                        let $at = start + vector * $lanes;
                        $store($part.a.add($at), $value);
                    }
                });
                _mm_sfence();
                rest($part, done, plain::$name)
            }
        }
    };
    (@types 8) => {
        type Vector = __m512d;
        #[target_feature(enable = "avx512f")]
        unsafe fn store_plain(at: *mut f64, value: Vector) {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_pd(at, value) }
        }
    };
    (@types 4) => {
        type Vector = __m256d;
        #[target_feature(enable = "avx2")]
        unsafe fn store_plain(at: *mut f64, value: Vector) {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_pd(at, value) }
        }
    };
}

passes!(
    avx512,
    "avx512f",
    8,
    _mm512_loadu_pd,
    _mm512_set1_pd,
    _mm512_setzero_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    _mm512_fmadd_pd,
    _mm512_storeu_pd
);
passes!(
    avx512_nt,
    "avx512f",
    8,
    _mm512_loadu_pd,
    _mm512_set1_pd,
    _mm512_setzero_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    _mm512_fmadd_pd,
    _mm512_stream_pd
);
passes!(
    avx2,
    "avx2,fma",
    4,
    _mm256_loadu_pd,
    _mm256_set1_pd,
    _mm256_setzero_pd,
    _mm256_add_pd,
    _mm256_mul_pd,
    _mm256_fmadd_pd,
    _mm256_storeu_pd
);
passes!(
    avx2_nt,
    "avx2,fma",
    4,
    _mm256_loadu_pd,
    _mm256_set1_pd,
    _mm256_setzero_pd,
    _mm256_add_pd,
    _mm256_mul_pd,
    _mm256_fmadd_pd,
    _mm256_stream_pd
);

/// Best guess first.
pub(super) fn kernels() -> Vec<HostKernel> {
    const AVX512: &[&str] = &["avx512f"];
    const AVX2: &[&str] = &["avx2", "fma"];
    let variants = [
        ("avx512", AVX512, avx512::passes::<1>()),
        ("avx512_4s", AVX512, avx512::passes::<4>()),
        ("avx512_nt", AVX512, avx512_nt::passes::<1>()),
        ("avx512_nt_4s", AVX512, avx512_nt::passes::<4>()),
        ("avx2", AVX2, avx2::passes::<1>()),
        ("avx2_nt", AVX2, avx2_nt::passes::<1>()),
    ];
    let kernels = variants.map(|(name, features, passes)| variant(name, features, passes));
    kernels.into_iter().flatten().collect()
}
