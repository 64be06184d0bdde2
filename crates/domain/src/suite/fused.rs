//! The fused operations of a suite.

use crate::{
    case::{Fused, FusedPoint},
    dtype::Dtype,
};
use serde::Deserialize;

/// Fused operations: all of the lists of one table with each other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FusedAxes {
    /// Which of them.
    pub fused: Fused,
    /// Element types of the output.
    pub outputs: Vec<Dtype>,
    /// Rows: tokens.
    pub rows: Vec<u32>,
    /// Elements of a row of the output.
    pub widths: Vec<u32>,
}

impl FusedAxes {
    /// Its points, the rows of one width after each other.
    pub fn points(&self) -> impl Iterator<Item = FusedPoint> {
        let fused = self.fused;
        self.outputs.iter().flat_map(move |&output| {
            self.widths.iter().flat_map(move |&width| {
                let rows = self.rows.iter();
                rows.map(move |&rows| FusedPoint { fused, output, rows, width })
            })
        })
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let checked = self.points().try_for_each(|point| point.check());
        checked.map_err(|why| format!("[fused] {why}"))
    }
}
