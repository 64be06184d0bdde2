//! Chains of one instruction on one register: each takes the result of the one before, so that the
//! time of one is its latency.
//!
//! A round has as many steps up as down (plus one and minus one, times two and a half), which
//! floats make exactly: its value ends where it began, and a step that was left out shows. The
//! compiler may not reorder floats, and does not see the numbers.

#![expect(unsafe_code, reason = "intrinsics, and a value that is left at an address")]

use super::{kernel::HostKernel, pool::Block};
use fizeau_domain::{
    case::{Instruction, InstructionPoint},
    dtype::Dtype,
    kernel::{LatencyParams, Operation},
};
use std::hint::black_box;

/// Steps in one direction before as many in the other: what fits into the exponent of `f32`.
const RUN: u32 = 64;

/// Runs up and down in one round.
const RUNS: u32 = InstructionPoint::ROUND / (2 * RUN);

/// The value of a chain before it, and after every round.
const START: f64 = InstructionPoint::START;

/// What a step up and a step down take as their other operand.
fn steps(instruction: Instruction) -> [f64; 2] {
    if instruction == Instruction::Mul { [2.0, 0.5] } else { [1.0, -1.0] }
}

/// Makes rounds of a chain; what is left of its value.
type Chain = unsafe fn(u32, [f64; 2]) -> f64;

fn kernel(
    (instruction, dtype): (Instruction, Dtype),
    name: &'static str,
    features: &'static [&'static str],
    chain: Chain,
) -> HostKernel {
    let run = move |block: &Block<'_>| {
        let params: &LatencyParams = block.params();
        // SAFETY: the device offers a kernel only where its instruction set is there.
        let value = unsafe { chain(block.repeat, steps(instruction)) };
        let left = params.position as *mut u64;
        // SAFETY: `position` has room for the value and the number of rounds.
        unsafe {
            left.write(value.to_bits());
            left.add(1).write(u64::from(block.repeat));
        }
    };
    let point = InstructionPoint { instruction, dtype: Some(dtype) };
    let operation = Operation::Instruction(point);
    HostKernel::new(operation, name, features, run)
}

/// All of them, the widest first; the device leaves out those whose instruction set is not there.
pub(super) fn kernels() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    kernels.extend(x86::kernels());
    for (of, chain) in [
        ((Instruction::Add, Dtype::F64), add_f64 as Chain),
        ((Instruction::Add, Dtype::F32), add_f32),
        ((Instruction::Mul, Dtype::F64), mul_f64),
        ((Instruction::Mul, Dtype::F32), mul_f32),
    ] {
        kernels.push(kernel(of, "scalar", &[], chain));
    }
    kernels
}

/// A chain: its instructions, its value's type, how one number becomes such a value and its step.
macro_rules! chain {
    (
        $name:ident, $(#[$features:meta])?
        $number:ty, $set:expr, |$value:ident, $step:ident, $one:ident| $next:expr
    ) => {
        $(#[$features])?
        unsafe fn $name(rounds: u32, steps: [f64; 2]) -> f64 {
            let [up, down] = steps.map(|step| $set(black_box(step as $number)));
            let $one = $set(black_box(START as $number));
            let mut $value = $one;
            for _ in 0..rounds {
                for _ in 0..RUNS {
                    for $step in [up, down] {
                        for _ in 0..RUN {
                            $value = $next;
                        }
                    }
                }
            }
            // Each lane has to end with the same value.
            let lanes = size_of_val(&$value) / size_of::<$number>();
            let first = (&raw const $value).cast::<$number>();
            // SAFETY: the value is as long as its lanes.
            let all = (0..lanes).map(|lane| unsafe { first.add(lane).read() });
            all.map(f64::from).sum::<f64>() / lanes as f64
        }
    };
}

chain!(add_f64, f64, std::convert::identity, |value, step, _one| value + step);
chain!(add_f32, f32, std::convert::identity, |value, step, _one| value + step);
chain!(mul_f64, f64, std::convert::identity, |value, step, _one| value * step);
chain!(mul_f32, f32, std::convert::identity, |value, step, _one| value * step);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Chain, Dtype, HostKernel, Instruction, RUN, RUNS, START, kernel};
    use std::{arch::x86_64::*, hint::black_box};

    /// Declares the chains of one instruction set, and the list of its kernels.
    macro_rules! vectors {
        ($set:ident, $features:literal, $list:expr; $(
            $name:ident: $instruction:ident $dtype:ident, $number:ty, $all:ident,
            |$value:ident, $step:ident, $one:ident| $next:expr;
        )*) => {
            $( chain!(
                $name,
                #[target_feature(enable = $features)]
                $number,
                |number| $all(number),
                |$value, $step, $one| $next
            ); )*

            fn $set() -> impl Iterator<Item = HostKernel> {
                let chains =
                    [$( ((Instruction::$instruction, Dtype::$dtype), $name as Chain) ),*];
                chains.into_iter().map(|(of, chain)| kernel(of, stringify!($set), $list, chain))
            }
        };
    }

    vectors! { avx512, "avx512f", &["avx512f"];
        avx512_add_f64: Add F64, f64, _mm512_set1_pd, |x, step, _one| _mm512_add_pd(x, step);
        avx512_add_f32: Add F32, f32, _mm512_set1_ps, |x, step, _one| _mm512_add_ps(x, step);
        avx512_mul_f64: Mul F64, f64, _mm512_set1_pd, |x, step, _one| _mm512_mul_pd(x, step);
        avx512_mul_f32: Mul F32, f32, _mm512_set1_ps, |x, step, _one| _mm512_mul_ps(x, step);
        avx512_fma_f64: Fma F64, f64, _mm512_set1_pd, |x, step, one| _mm512_fmadd_pd(one, step, x);
        avx512_fma_f32: Fma F32, f32, _mm512_set1_ps, |x, step, one| _mm512_fmadd_ps(one, step, x);
    }
    vectors! { avx2, "avx2,fma", &["avx2", "fma"];
        avx2_add_f64: Add F64, f64, _mm256_set1_pd, |x, step, _one| _mm256_add_pd(x, step);
        avx2_add_f32: Add F32, f32, _mm256_set1_ps, |x, step, _one| _mm256_add_ps(x, step);
        avx2_mul_f64: Mul F64, f64, _mm256_set1_pd, |x, step, _one| _mm256_mul_pd(x, step);
        avx2_mul_f32: Mul F32, f32, _mm256_set1_ps, |x, step, _one| _mm256_mul_ps(x, step);
        avx2_fma_f64: Fma F64, f64, _mm256_set1_pd, |x, step, one| _mm256_fmadd_pd(one, step, x);
        avx2_fma_f32: Fma F32, f32, _mm256_set1_ps, |x, step, one| _mm256_fmadd_ps(one, step, x);
    }

    pub(super) fn kernels() -> impl Iterator<Item = HostKernel> {
        avx512().chain(avx2())
    }
}
