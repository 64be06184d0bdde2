//! The steps of sparse attention of a suite.

use crate::case::{SparseDecode, SparsePoint, SparseTopK};
use serde::Deserialize;

/// A step of sparse attention: all of the lists of one table with each other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "step")]
pub enum SparseAxes {
    /// Which tokens are selected.
    TopK {
        /// Rows: queries.
        rows: Vec<u32>,
        /// Places that are wanted of a row, or all of a shorter one.
        selected: u32,
        /// Numbers of a row.
        contexts: Vec<u32>,
    },
    /// Attention over selected tokens.
    Decode {
        /// Sequences.
        batches: Vec<u32>,
        /// Query heads of a sequence.
        heads: Vec<u32>,
        /// Tokens that a sequence attends over, or all of a shorter context.
        selected: u32,
        /// Tokens of a sequence's context.
        contexts: Vec<u32>,
    },
}

impl SparseAxes {
    /// Its points, the contexts of as many heads and sequences after each other.
    pub fn points(&self) -> Vec<SparsePoint> {
        let mut points = Vec::new();
        match self {
            SparseAxes::TopK { rows, selected, contexts } => {
                for &rows in rows {
                    points.extend(contexts.iter().map(|&context| {
                        let selected = context.min(*selected);
                        SparsePoint::TopK(SparseTopK { rows, context, selected })
                    }));
                }
            }
            SparseAxes::Decode { batches, heads, selected, contexts } => {
                for &batch in batches {
                    for &heads in heads {
                        points.extend(contexts.iter().map(|&context| {
                            let selected = context.min(*selected);
                            let point = SparseDecode { batch, heads, selected, context };
                            SparsePoint::Decode(point)
                        }));
                    }
                }
            }
        }
        points
    }

    /// How long its lists are.
    pub(super) fn lengths(&self) -> Vec<usize> {
        match self {
            SparseAxes::TopK { rows, contexts, .. } => vec![rows.len(), contexts.len()],
            SparseAxes::Decode { batches, heads, contexts, .. } => {
                vec![batches.len(), heads.len(), contexts.len()]
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let checked = self.points().iter().try_for_each(SparsePoint::check);
        checked.map_err(|why| format!("[sparse] {why}"))
    }
}
