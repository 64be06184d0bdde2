//! AVX2 with fused multiply-add: 6 x 2 vectors of sums in 16 registers.

use super::{
    bundled,
    grouped::grouped,
    product::{Share, product},
    tile::{Into, Tile},
};
use crate::{
    device::host::{kernel::HostKernel, pool::Block},
    dtype::Dtype,
    kernel::{GemmParams, Operation},
};
use std::arch::x86_64::*;

/// `f32` and `f64`; none if the CPU lacks the instructions.
pub(super) fn kernels() -> Vec<HostKernel> {
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        return Vec::new();
    }
    #[target_feature(enable = "avx2,fma")]
    unsafe fn one<T: Tile>(params: &GemmParams, share: Share) {
        // SAFETY: the caller's promise.
        unsafe { product::<T>(params, share) }
    }
    fn run<T: Tile>(block: &Block<'_>) {
        // SAFETY: whoever launches passes operands that live; the CPU was asked above.
        unsafe { one::<T>(block.params(), Share::of(block)) }
    }
    fn run_grouped<T: Tile>(block: &Block<'_>) {
        // SAFETY: as above.
        unsafe { grouped(block, [size_of::<T::Input>(), size_of::<T::Output>()], one::<T>) }
    }
    vec![
        bundled(Operation::Gemm(Dtype::F64), "avx2", run::<F64>),
        bundled(Operation::Gemm(Dtype::F32), "avx2", run::<F32>),
        bundled(Operation::Grouped(Dtype::F64), "avx2", run_grouped::<F64>),
        bundled(Operation::Grouped(Dtype::F32), "avx2", run_grouped::<F32>),
    ]
}

macro_rules! avx2 {
    ($name:ident, $float:ty, $lanes:literal, $load:ident, $store:ident, $broadcast:ident,
     $fma:ident, $add:ident) => {
        struct $name;

        impl Tile for $name {
            type Input = $float;
            type Word = $float;
            type Sum = $float;
            type Output = $float;

            const GROUP: usize = 1;
            const ROWS: usize = 6;
            const COLUMNS: usize = 2 * $lanes;
            const DEPTH_MAX: usize = 256;
            const HEIGHT_MAX: usize = 384;
            const WIDTH_MAX: usize = 2048;

            #[inline(always)]
            fn word_a(element: impl Fn(usize) -> $float) -> $float {
                element(0)
            }
            #[inline(always)]
            fn word_b(element: impl Fn(usize) -> $float) -> $float {
                element(0)
            }
            #[inline(always)]
            fn zero() -> $float {
                0.0
            }
            #[inline(always)]
            fn add(left: $float, right: $float) -> $float {
                left + right
            }
            #[inline(always)]
            fn output(sum: $float) -> $float {
                sum
            }

            #[target_feature(enable = "avx2,fma")]
            unsafe fn multiply(
                depth: usize,
                mut a: *const $float,
                mut b: *const $float,
                c: *mut $float,
                stride: usize,
                into: Into,
            ) {
                // SAFETY: the caller's promise on `a`, `b` and `c`.
                unsafe {
                    let mut sums = [[$load(b), $load(b.add($lanes))]; 6];
                    for _ in 0..depth {
                        b = b.add(2 * $lanes);
                        let (low, high) = ($load(b), $load(b.add($lanes)));
                        for row in 0..6 {
                            let a = $broadcast(&*a.add(row));
                            sums[row][0] = $fma(a, low, sums[row][0]);
                            sums[row][1] = $fma(a, high, sums[row][1]);
                        }
                        a = a.add(6);
                    }
                    for row in 0..6 {
                        for vector in 0..2 {
                            let c = c.add(row * stride + vector * $lanes);
                            let sum = sums[row][vector];
                            $store(c, if into == Into::Add { $add($load(c), sum) } else { sum });
                        }
                    }
                }
            }
        }
    };
}

avx2!(
    F64,
    f64,
    4,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_broadcast_sd,
    _mm256_fmadd_pd,
    _mm256_add_pd
);
avx2!(
    F32,
    f32,
    8,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_broadcast_ss,
    _mm256_fmadd_ps,
    _mm256_add_ps
);
