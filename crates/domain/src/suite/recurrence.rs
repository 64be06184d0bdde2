//! The recurrences of a suite.

use crate::{
    case::{Recurrence, RecurrencePoint},
    dtype::Dtype,
};
use serde::Deserialize;

/// Recurrences of one model: all of the lists of one table with each other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecurrenceAxes {
    /// Which of them.
    pub recurrence: Recurrence,
    /// Element types of the states.
    pub states: Vec<Dtype>,
    /// Sequences.
    pub batches: Vec<u32>,
    /// Heads of a sequence.
    pub heads: u32,
    /// Heads of its queries and keys.
    pub key_heads: u32,
    /// Elements of a key and of a value.
    pub dims: [u32; 2],
}

impl RecurrenceAxes {
    /// Its points, those of one element type after each other.
    pub fn points(&self) -> impl Iterator<Item = RecurrencePoint> {
        let RecurrenceAxes { recurrence, heads, key_heads, dims: [key, value], .. } = *self;
        self.states.iter().flat_map(move |&state| {
            self.batches.iter().map(move |&batch| RecurrencePoint {
                recurrence,
                state,
                batch,
                heads,
                key_heads,
                key,
                value,
            })
        })
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let checked = self.points().try_for_each(|point| point.check());
        checked.map_err(|why| format!("[recurrence] {why}"))
    }
}
