//! Multiply-adds on registers alone, and the clock they run at.
//!
//! Every multiply-add adds one to a lane (1 x 1 + lane, the ones hidden from the compiler, which
//! may not reorder additions of floats), so that the sum of all lanes counts the operations that
//! were really made.

#![expect(unsafe_code, reason = "intrinsics and a few instructions of assembly")]

use super::{kernel::HostKernel, pool::Block};
use crate::clock;
use fizeau_domain::{
    dtype::Dtype,
    kernel::{ComputeParams, Operation},
    units::Megahertz,
};
use std::hint::black_box;

/// Multiply-adds one after the other in a lane that `flops` make, for this many lanes.
fn steps(flops: u64, lanes: u64) -> u64 {
    flops / 2 / lanes
}

fn kernel(
    operation: Operation,
    name: &'static str,
    features: &'static [&'static str],
    count: unsafe fn(u64) -> f64,
) -> HostKernel {
    let run = move |block: &Block<'_>| {
        let params: &ComputeParams = block.params();
        let mut sum = 0.0;
        for _ in 0..block.repeat {
            // SAFETY: the device offers a kernel only where its instruction set is there.
            sum = unsafe { count(params.flops) };
        }
        // SAFETY: `partial` has a line of 64 bytes for each block.
        unsafe { (params.partial as *mut f64).add(8 * block.index as usize).write(sum) };
    };
    HostKernel::new(operation, name, features, run)
}

/// All of them, the widest first; the device leaves out those whose instruction set is not there.
pub(super) fn kernels() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    kernels.extend(tiles::kernels());
    #[cfg(target_arch = "x86_64")]
    kernels.extend(x86::kernels());
    kernels.push(kernel(Operation::Compute(Dtype::F64), "plain", &[], plain_f64));
    kernels.push(kernel(Operation::Compute(Dtype::F32), "plain", &[], plain_f32));
    kernels
}

/// Lanes of the plain kernels: enough to fill the pipes of a CPU whose vectors are unknown.
const PLAIN_LANES: usize = 32;

macro_rules! plain {
    ($name:ident, $type:ty) => {
        unsafe fn $name(flops: u64) -> f64 {
            let (one, mut lanes) = (black_box(1.0), [0.0 as $type; PLAIN_LANES]);
            for _ in 0..steps(flops, PLAIN_LANES as u64) {
                for lane in &mut lanes {
                    *lane += one * one;
                }
            }
            lanes.iter().map(|&lane| f64::from(lane)).sum()
        }
    };
}

plain!(plain_f64, f64);
plain!(plain_f32, f32);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Dtype, HostKernel, Operation, kernel, steps};
    use std::{arch::x86_64::*, hint::black_box};

    /// Registers that accumulate: two pipes of four cycles need eight.
    const WIDE: usize = 16;
    const NARROW: usize = 8;

    /// Declares a function for each kernel, and the list of the kernels.
    macro_rules! counts {
        ($(
            $name:ident: $dtype:ident by $set:literal [$($feature:literal)*],
            $registers:ident x $lanes:literal lanes of $lane:ident in $vector:ty,
            $products:literal products each, from $zero:expr, of $ones:expr,
            |$sum:ident, $one:ident| $step:expr;
        )*) => {
            $(
                #[target_feature($(enable = $feature),*)]
                unsafe fn $name(flops: u64) -> f64 {
                    let $one = black_box($ones);
                    let mut sums: [$vector; $registers] = [$zero; $registers];
                    for _ in 0..steps(flops, $registers as u64 * $lanes * $products) {
                        for $sum in &mut sums {
                            *$sum = $step;
                        }
                    }
                    let mut lanes = [[0 as $lane; $lanes]; $registers];
                    for (lanes, sum) in lanes.iter_mut().zip(sums) {
                        // SAFETY: a vector is as long as its lanes.
                        unsafe { lanes.as_mut_ptr().cast::<$vector>().write_unaligned(sum) };
                    }
                    lanes.iter().flatten().map(|&lane| f64::from(lane)).sum()
                }
            )*

            pub(super) fn kernels() -> Vec<HostKernel> {
                vec![$(
                    kernel(Operation::Compute(Dtype::$dtype), $set, &[$($feature),*], $name)
                ),*]
            }
        };
    }

    counts! {
        avx512_f64: F64 by "avx512" ["avx512f"], WIDE x 8 lanes of f64 in __m512d,
            1 products each, from _mm512_setzero_pd(), of _mm512_set1_pd(1.0),
            |sum, one| _mm512_fmadd_pd(one, one, *sum);
        avx512_f32: F32 by "avx512" ["avx512f"], WIDE x 16 lanes of f32 in __m512,
            1 products each, from _mm512_setzero_ps(), of _mm512_set1_ps(1.0),
            |sum, one| _mm512_fmadd_ps(one, one, *sum);
        avx512_bf16: Bf16 by "avx512" ["avx512f" "avx512bf16"], WIDE x 16 lanes of f32 in __m512,
            2 products each, from _mm512_setzero_ps(), of _mm512_set1_epi16(0x3f80),
            |sum, one| {
                // SAFETY: both are 32 elements of 16 bits.
                let pairs = unsafe { std::mem::transmute::<__m512i, __m512bh>(one) };
                _mm512_dpbf16_ps(*sum, pairs, pairs)
            };
        avx512_int8: Int8 by "avx512" ["avx512f" "avx512vnni"], WIDE x 16 lanes of i32 in __m512i,
            4 products each, from _mm512_setzero_si512(), of _mm512_set1_epi8(1),
            |sum, one| _mm512_dpbusd_epi32(*sum, one, one);
        avxvnni_int8: Int8 by "avxvnni" ["avx2" "avxvnni"], NARROW x 8 lanes of i32 in __m256i,
            4 products each, from _mm256_setzero_si256(), of _mm256_set1_epi8(1),
            |sum, one| _mm256_dpbusd_avx_epi32(*sum, one, one);
        avx2_f64: F64 by "avx2" ["avx2" "fma"], NARROW x 4 lanes of f64 in __m256d,
            1 products each, from _mm256_setzero_pd(), of _mm256_set1_pd(1.0),
            |sum, one| _mm256_fmadd_pd(one, one, *sum);
        avx2_f32: F32 by "avx2" ["avx2" "fma"], NARROW x 8 lanes of f32 in __m256,
            1 products each, from _mm256_setzero_ps(), of _mm256_set1_ps(1.0),
            |sum, one| _mm256_fmadd_ps(one, one, *sum);
    }
}

/// Products of Intel's matrix tiles.
#[cfg(target_arch = "x86_64")]
mod tiles {
    use super::{Dtype, HostKernel, Operation, kernel, steps};
    use crate::host::amx::{Amx, ROW_BYTES, ROWS, Tiles};
    use std::arch::asm;

    /// Tiles that accumulate: a product takes 52 cycles, and one starts each 16.
    const SUMS: usize = 4;
    /// Sums in a tile.
    const LANES: usize = ROWS * ROW_BYTES / 4;

    pub(super) fn kernels() -> Vec<HostKernel> {
        let (amx, name) = (Amx::here(), "amx");
        let bf16 = amx.bf16.then(|| kernel(Operation::Compute(Dtype::Bf16), name, &[], bf16));
        let int8 = amx.int8.then(|| kernel(Operation::Compute(Dtype::Int8), name, &[], int8));
        bf16.into_iter().chain(int8).collect()
    }

    /// `$product` adds `$products` ones, each multiplied by one, to every lane of a tile.
    macro_rules! count {
        ($name:ident: $product:literal, $products:literal products, lanes of $lane:ty,
            ones $one:expr) => {
            unsafe fn $name(flops: u64) -> f64 {
                let rounds = steps(flops, (SUMS * LANES * $products) as u64);
                let ones = [$one; ROWS * ROW_BYTES / size_of_val(&$one)];
                let mut lanes = [[0 as $lane; LANES]; SUMS];
                // SAFETY: the device offers this where the process may use tiles of such products;
                // what is read and written are whole tiles.
                unsafe {
                    let _tiles = Tiles::configure();
                    asm!(
                        "tileloadd tmm4, [{ones} + {row}]",
                        "tileloadd tmm5, [{ones} + {row}]",
                        "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                        "test {rounds}, {rounds}",
                        "jz 3f",
                        "2:",
                        concat!($product, " tmm0, tmm4, tmm5"),
                        concat!($product, " tmm1, tmm4, tmm5"),
                        concat!($product, " tmm2, tmm4, tmm5"),
                        concat!($product, " tmm3, tmm4, tmm5"),
                        "sub {rounds}, 1",
                        "jnz 2b",
                        "3:",
                        "tilestored [{lanes} + {row}], tmm0",
                        "tilestored [{lanes} + {row} + 1024], tmm1",
                        "tilestored [{lanes} + {row} + 2048], tmm2",
                        "tilestored [{lanes} + {row} + 3072], tmm3",
                        ones = in(reg) ones.as_ptr(),
                        lanes = in(reg) lanes.as_mut_ptr(),
                        row = in(reg) ROW_BYTES,
                        rounds = inout(reg) rounds => _,
                        options(nostack)
                    );
                }
                lanes.iter().flatten().map(|&lane| f64::from(lane)).sum()
            }
        };
    }

    count!(bf16: "tdpbf16ps", 32 products, lanes of f32, ones half::bf16::ONE);
    count!(int8: "tdpbssd", 64 products, lanes of i32, ones 1i8);
}

/// Additions of one reading of the clock, in units of [`CHAIN`]: some 40 us.
const ROUNDS: u32 = 2_000;
const CHAIN: u32 = 64;
const READINGS: u32 = 5;

/// The clock of this core now: dependent additions of two registers take one cycle each on every
/// x86 and Arm core (Fog, instruction tables; immediates would not do, since some cores fold them
/// while renaming). The fastest of a few readings, because an interrupt can only make one slower.
pub(super) fn observe_clock() -> Option<Megahertz> {
    let mut best = f64::INFINITY;
    for _ in 0..READINGS {
        let start = clock::now();
        let mut sum = black_box(0u64);
        // One chain through all rounds: chains that start afresh would overlap.
        for _ in 0..ROUNDS {
            sum = add_chain(sum)?;
        }
        black_box(sum);
        best = best.min(start.elapsed().0);
    }
    Some(Megahertz(f64::from(ROUNDS) * f64::from(CHAIN) / best / 1e6))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
fn add_chain(mut sum: u64) -> Option<u64> {
    // SAFETY: adds one register to another, CHAIN times.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            ".rept 64", "add {sum}, {one}", ".endr",
            sum = inout(reg) sum, one = in(reg) 1u64, options(nomem, nostack)
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            ".rept 64", "add {sum}, {sum}, {one}", ".endr",
            sum = inout(reg) sum, one = in(reg) 1u64, options(nomem, nostack)
        );
    }
    Some(sum)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn add_chain(_sum: u64) -> Option<u64> {
    None
}
