//! The operation `sparse`: the steps of sparse latent attention.

mod cache;
mod decode;
#[cfg(test)]
mod spoilt;
#[cfg(test)]
mod spoilt_top_k;
mod top_k;

use super::{Prepared, Rank};
use fizeau_domain::{
    case::{Case, KernelName, Point, SparsePoint},
    kernel::Operation,
    suite::Suite,
    units::Bytes,
};

/// The cases of a suite: every kernel that the device has for a step.
pub fn cases(suite: &Suite, rank: Rank<'_>) -> Vec<Case> {
    let points = suite.sparse.iter().flat_map(|axes| axes.points());
    let cases = |point: SparsePoint| {
        let kernels = rank.device.kernels(Operation::Sparse(point.step()));
        kernels.into_iter().map(move |kernel| Case { kernel, point: Point::Sparse(point) })
    };
    points.flat_map(cases).collect()
}

/// Memory of a step's arrays on the device, and of what is kept beside them.
pub fn memory(point: &SparsePoint) -> Bytes {
    match point {
        SparsePoint::TopK(point) => top_k::memory(point),
        SparsePoint::Decode(point) => decode::memory(point),
    }
}

/// Makes a case ready.
pub fn prepare<'r>(point: &SparsePoint, kernel: &KernelName, rank: Rank<'r>) -> Prepared<'r> {
    match point {
        SparsePoint::TopK(point) => Ok(Box::new(top_k::TopK::new(point, kernel, rank)?)),
        SparsePoint::Decode(point) => Ok(Box::new(decode::Decode::new(point, kernel, rank)?)),
    }
}
