//! The host's kernels of the operation `recurrence`.
//!
//! A variant is an instruction set and a kind of store, as those of `fused`: `_nt` stores new
//! states past the caches, which saves the read of each line before it is written. Rows of states
//! are dealt to the pool's threads.

#![expect(unsafe_code, reason = "kernels work on the addresses of their parameters")]

mod portable;
mod rows;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::{kernel::HostKernel, pool::Block};
use fizeau_domain::{
    case::Recurrence,
    dtype::Dtype,
    kernel::{Operation, RecurrenceParams},
};
use rows::{Bodies, Body, ROWS};

/// What the bodies of a variant are of, in their order.
const OPERATIONS: [(Recurrence, Dtype); 6] = [
    (Recurrence::GatedDelta, Dtype::F32),
    (Recurrence::GatedDelta, Dtype::Bf16),
    (Recurrence::Kda, Dtype::F32),
    (Recurrence::Kda, Dtype::Bf16),
    (Recurrence::Mamba2, Dtype::F32),
    (Recurrence::Mamba2, Dtype::Bf16),
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
    OPERATIONS.into_iter().zip(bodies).map(move |((recurrence, state), body)| {
        let run = move |block: &Block<'_>| run(block, body);
        HostKernel::new(Operation::Recurrence(recurrence, state), name, features, run)
    })
}

fn run(block: &Block<'_>, body: Body) {
    let params: &RecurrenceParams = block.params();
    let states = params.batch as usize * params.heads as usize;
    let part = block.part(states * params.value as usize, ROWS);
    for _ in 0..block.repeat {
        // SAFETY: whoever launches owns the arrays, blocks have different rows, and the device
        // lists only variants that the CPU can run.
        unsafe { body(params, part.clone()) };
    }
}
