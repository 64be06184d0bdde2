//! Peaks of arithmetic by random numbers, beside which those by constants are no ceiling.
//!
//! Multiplying constants switches fewer wires, so that a part under a power limit keeps a higher
//! clock than any real product does.

use crate::{case::Point, dtype::Dtype, outcome::Measurement};
use std::collections::BTreeSet;

/// The element types whose peak a run measured with random numbers.
#[derive(Clone, Debug, Default)]
pub struct RandomPeaks(BTreeSet<Dtype>);

impl RandomPeaks {
    /// Of the measurements of one run.
    pub fn of<'m>(all: impl IntoIterator<Item = &'m Measurement>) -> RandomPeaks {
        let random = all.into_iter().filter(|one| one.case.kernel.is_of_random_numbers());
        RandomPeaks(random.filter_map(|one| one.case.point.dtype()).collect())
    }

    /// Whether a measurement is of constants where random numbers say more: a peak by constants
    /// while the run also has one by random numbers, or a product of constants.
    pub fn outdo(&self, one: &Measurement) -> bool {
        match &one.case.point {
            Point::Compute(point) => {
                self.0.contains(&point.dtype) && !one.case.kernel.is_of_random_numbers()
            }
            Point::Gemm(point) => !point.contents.are_random(),
            _ => false,
        }
    }
}
