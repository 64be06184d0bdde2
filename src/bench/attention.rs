//! The operation `attention`.

use super::{Rank, Unready, Workload};
use crate::{
    case::{AttentionPoint, Case, KernelName},
    suite::Suite,
};

/// The cases of a suite.
pub fn cases(_suite: &Suite, _rank: Rank<'_>) -> Vec<Case> {
    Vec::new()
}

/// Makes a case ready.
pub fn prepare<'r>(
    _point: &AttentionPoint,
    kernel: &KernelName,
    _rank: Rank<'r>,
) -> Result<Box<dyn Workload + 'r>, Unready> {
    Err(Unready::Unsupported(format!("no kernel {}", kernel.0)))
}
