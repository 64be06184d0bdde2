//! The host's kernels of the operation `fused`.
//!
//! A variant is an instruction set and a kind of store, as those of `stream`: `_nt` stores what is
//! left past the caches, which saves the read of each line before it is written. Rows are dealt to
//! the pool's threads.

#![expect(unsafe_code, reason = "kernels work on the addresses of their parameters")]

mod portable;
mod rows;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::{kernel::HostKernel, pool::Block};
use fizeau_domain::{
    case::Fused,
    dtype::Dtype,
    kernel::{FusedParams, Operation},
};
use rows::{Bodies, Body, Part};

/// What the bodies of a variant are of, in their order.
const OPERATIONS: [(Fused, Dtype); 5] = [
    (Fused::Norm, Dtype::Bf16),
    (Fused::Norm, Dtype::Fp8),
    (Fused::Norm, Dtype::Fp8Block),
    (Fused::Swiglu, Dtype::Bf16),
    (Fused::Swiglu, Dtype::Fp8Block),
];

/// All of them, best for memory first; the device leaves out those whose instruction set is not
/// there.
pub(super) fn kernels() -> Vec<HostKernel> {
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    for (name, features, bodies) in x86::variants() {
        kernels.extend(variant(name, features, bodies));
    }
    kernels.extend(variant("portable", &[], portable::bodies()));
    kernels
}

/// One kernel for each operation.
fn variant(
    name: &'static str,
    features: &'static [&'static str],
    bodies: Bodies,
) -> impl Iterator<Item = HostKernel> {
    OPERATIONS.into_iter().zip(bodies).map(move |((fused, output), body)| {
        let run = move |block: &Block<'_>| run(block, body);
        HostKernel::new(Operation::Fused(fused, output), name, features, run)
    })
}

fn run(block: &Block<'_>, body: Body) {
    let params: &FusedParams = block.params();
    let mut part = Part::new(params, block.part(params.rows as usize, 1));
    for _ in 0..block.repeat {
        // SAFETY: whoever launches owns the arrays, blocks have different rows, and the device
        // lists only variants that the CPU can run.
        unsafe { body(&mut part) };
    }
}
