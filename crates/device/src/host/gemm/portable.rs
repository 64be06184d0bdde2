//! Plain Rust, for any CPU: the compiler makes of it what its baseline instruction set allows.

use super::{
    grouped::all,
    product::{Share, product},
    tile::{Into, Tile},
};
use crate::host::{kernel::HostKernel, pool::Block};
use fizeau_domain::{dtype::Dtype, kernel::GemmParams};
use half::bf16;

/// One for each element type.
pub(super) fn kernels() -> Vec<HostKernel> {
    unsafe fn one<T: Tile>(params: &GemmParams, share: Share, _: Option<&Block<'_>>) {
        // SAFETY: the caller's promise; plain Rust runs anywhere.
        unsafe { product::<T>(params, share) }
    }
    let kernels = [
        all::<F64>(Dtype::F64, "portable", one::<F64>),
        all::<F32>(Dtype::F32, "portable", one::<F32>),
        all::<Bf16>(Dtype::Bf16, "portable", one::<Bf16>),
        all::<Int8>(Dtype::Int8, "portable", one::<Int8>),
    ];
    kernels.into_iter().flatten().collect()
}

macro_rules! portable {
    ($name:ident, $input:ty, $word:ty, $output:ty, $columns:literal,
     $widen:expr, $round:expr) => {
        struct $name;

        impl Tile for $name {
            type Input = $input;
            type Word = $word;
            type Sum = $word;
            type Output = $output;

            const GROUP: usize = 1;
            const ROWS: usize = 4;
            const COLUMNS: usize = $columns;
            const DEPTH_MAX: usize = 256;
            const HEIGHT_MAX: usize = 256;
            const WIDTH_MAX: usize = 2048;

            #[inline(always)]
            fn word_a(element: impl Fn(usize) -> $input) -> $word {
                $widen(element(0))
            }
            #[inline(always)]
            fn output(sum: $word) -> $output {
                $round(sum)
            }

            #[inline]
            unsafe fn multiply(
                depth: usize,
                a: *const $word,
                b: *const $word,
                c: *mut $word,
                stride: usize,
                into: Into,
            ) {
                let mut sums = [[0 as $word; $columns]; 4];
                for k in 0..depth {
                    // SAFETY: the caller's promise on `a` and `b`; arrays need no more alignment
                    // than their elements.
                    let (a, b) = unsafe {
                        let b = b.add((k + 1) * $columns).cast::<[$word; $columns]>();
                        (&*a.add(k * 4).cast::<[$word; 4]>(), &*b)
                    };
                    for (sums, a) in sums.iter_mut().zip(a) {
                        for (sum, b) in sums.iter_mut().zip(b) {
                            *sum += a * b;
                        }
                    }
                }
                for (row, sums) in sums.iter().enumerate() {
                    // SAFETY: the caller's promise on `c`.
                    let c = unsafe { &mut *c.add(row * stride).cast::<[$word; $columns]>() };
                    for (c, sum) in c.iter_mut().zip(sums) {
                        *c = if into == Into::Add { *c + sum } else { *sum };
                    }
                }
            }
        }
    };
}

portable!(F64, f64, f64, f64, 4, |value| value, |sum| sum);
portable!(F32, f32, f32, f32, 8, |value| value, |sum| sum);
portable!(Bf16, bf16, f32, bf16, 8, bf16::to_f32, bf16::from_f32);
portable!(Int8, i8, i32, i32, 8, i32::from, |sum| sum);
