//! The host's kernels of the steps of sparse attention that are no attention; `attention::gathered`
//! has the one that is.

#![expect(unsafe_code, reason = "kernels work on the addresses of their parameters")]

mod lanes;
mod portable;
mod top_k;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::kernel::HostKernel;

/// All of them, best first; the device leaves out those whose instruction set is not there.
pub(super) fn kernels() -> Vec<HostKernel> {
    top_k::kernels()
}
