//! Pointer chase: each load's address is the value of the one before.

#![expect(unsafe_code, reason = "the chain is followed through its addresses")]

use super::{kernel::HostKernel, pool::Block};
use fizeau_domain::kernel::{LatencyParams, Operation};

/// Follows the chain by as many loads as the launch repeats, from where it was left.
fn chase(block: &Block<'_>) {
    let params: &LatencyParams = block.params();
    let position = params.position as *mut *const usize;
    // SAFETY: `position` holds the address of a cell, and every cell that of another one.
    unsafe {
        let mut cell = position.read();
        for _ in 0..block.repeat {
            cell = cell.read_volatile() as *const usize;
        }
        position.write(cell);
    }
}

/// All of them: the same loads on every CPU.
pub(super) fn kernels() -> Vec<HostKernel> {
    vec![HostKernel::new(Operation::Latency, "chase", &[], chase)]
}
