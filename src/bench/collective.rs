//! The operation `collective`.

use super::{Rank, Unready, Workload};
use crate::{
    case::{Case, CollectivePoint, KernelName},
    suite::Suite,
};

/// The cases of a suite.
pub fn cases(_suite: &Suite, _rank: Rank<'_>) -> Vec<Case> {
    Vec::new()
}

/// Makes a case ready.
pub fn prepare<'r>(
    _point: &CollectivePoint,
    kernel: &KernelName,
    _rank: Rank<'r>,
) -> Result<Box<dyn Workload + 'r>, Unready> {
    Err(Unready::Unsupported(format!("no kernel {}", kernel.0)))
}
