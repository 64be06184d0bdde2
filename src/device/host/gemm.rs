//! The host's kernels of the operation `gemm`.

use super::HostKernel;

/// All of them; the device leaves out those whose instruction set is not there.
pub(super) fn kernels() -> Vec<HostKernel> {
    Vec::new()
}
