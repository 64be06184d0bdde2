//! The host's kernels of the operation `compute`.

use super::HostKernel;

/// All of them; the device leaves out those whose instruction set is not there.
pub(super) fn kernels() -> Vec<HostKernel> {
    Vec::new()
}

/// Counts the cycles of dependent additions against time.
pub(super) fn observe_clock() -> Option<crate::units::Megahertz> {
    None
}
