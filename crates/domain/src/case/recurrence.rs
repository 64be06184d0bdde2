//! Points of recurrences: one token of linear attention, which keeps a state for each head instead
//! of all keys and values.

use super::Work;
use crate::{dtype::Dtype, units::Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The update of the states of some sequences by one token of each, and what is read out of them:
/// a decode step of linear attention. A state S has a row for each element of a value and a column
/// for each element of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecurrencePoint {
    /// Which rule.
    pub recurrence: Recurrence,
    /// Element type of the states: [`RecurrencePoint::STATES`].
    pub state: Dtype,
    /// Sequences, each with a token.
    pub batch: u32,
    /// Heads of a sequence, each with a state.
    pub heads: u32,
    /// Heads of its queries and keys; `heads` is a multiple of it.
    pub key_heads: u32,
    /// Elements of a query and a key.
    pub key: u32,
    /// Elements of a value.
    pub value: u32,
}

/// The rules. All take a query q, a key k and a value v, each in bf16, and a rate b and a decay a
/// in f32; q and k come normalised and scaled. Sums are in f32, and what is read out is computed
/// of the state before it is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recurrence {
    /// `S = a S; S = S + b (v - S k) k^T; output = S q`, one decay for a head: the gated delta rule
    /// (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024) of Qwen3-Next and Qwen3.5.
    GatedDelta,
    /// The gated delta rule with a decay for each element of a key: Kimi Delta Attention ("Kimi
    /// Linear", 2025), of Kimi K3.
    Kda,
    /// `S = a S + b v k^T; output = S q + d v`, one decay for a head, where d is its skip: the
    /// state-space dual of Mamba-2 (Dao and Gu, "Transformers are SSMs", 2024), of Nemotron 3.
    /// There q is called C, k B, v x and b the step.
    Mamba2,
}

named!(Recurrence { GatedDelta => "gated_delta", Kda => "kda", Mamba2 => "mamba2" });

impl RecurrencePoint {
    /// Element types that a state can have.
    pub const STATES: [Dtype; 2] = [Dtype::F32, Dtype::Bf16];

    /// A key's elements are a multiple of this, so that every row of a state begins where vectors
    /// are loaded.
    pub const KEY_STEP: u32 = 16;

    /// States: one for each head of each sequence.
    pub fn states(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.heads)
    }

    /// Elements of one state.
    pub fn elements(&self) -> u64 {
        u64::from(self.key) * u64::from(self.value)
    }

    /// Decays of one head.
    pub fn decays(&self) -> u64 {
        if self.recurrence == Recurrence::Kda { u64::from(self.key) } else { 1 }
    }

    /// Bytes of all states.
    pub fn state_bytes(&self) -> u64 {
        self.states() * self.elements() * self.state.bits() / 8
    }

    /// Bytes that one iteration has to read: states, queries, keys, values, decays, rates, skips.
    pub fn read(&self) -> Bytes {
        let keys = u64::from(self.batch) * u64::from(self.key_heads) * u64::from(self.key);
        let of_head = 2 * u64::from(self.value) + 4 * self.decays() + 4;
        let skips = if self.recurrence == Recurrence::Mamba2 { u64::from(self.heads) } else { 0 };
        Bytes(self.state_bytes() + 2 * 2 * keys + self.states() * of_head + 4 * skips)
    }

    /// Bytes that one iteration has to write: states and outputs.
    pub fn written(&self) -> Bytes {
        Bytes(self.state_bytes() + self.states() * 2 * u64::from(self.value))
    }

    /// Every input read once, every output written once. Up to seven additions and multiplications
    /// for each element of a state bind on no device, and are not counted.
    pub(super) fn work(&self) -> Work {
        Work { memory: self.read() + self.written(), ..Work::default() }
    }
}

impl fmt::Display for RecurrencePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecurrencePoint { recurrence, state, batch, heads, key_heads, key, value } = self;
        write!(f, "{recurrence}/{state}/{batch}x{heads}x{key_heads}/{key}x{value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_is_read_once_and_every_output_written_once() {
        let of = |recurrence, state| RecurrencePoint {
            recurrence,
            state,
            batch: 3,
            heads: 4,
            key_heads: 2,
            key: 16,
            value: 5,
        };
        let bytes = |recurrence, state| {
            let point = of(recurrence, state);
            assert_eq!(point.work().memory, point.read() + point.written());
            (point.read().0, point.written().0)
        };
        // 12 states of 80 elements; 6 queries and keys of 16; 12 values of 5, decays and rates.
        let small = 6 * 2 * 16 * 2 + 12 * (5 * 2 + 4);
        assert_eq!(
            bytes(Recurrence::GatedDelta, Dtype::F32),
            (12 * 320 + small + 48, 12 * 320 + 120)
        );
        assert_eq!(
            bytes(Recurrence::GatedDelta, Dtype::Bf16),
            (12 * 160 + small + 48, 12 * 160 + 120)
        );
        assert_eq!(
            bytes(Recurrence::Kda, Dtype::F32),
            (12 * 320 + small + 48 * 16, 12 * 320 + 120)
        );
        assert_eq!(
            bytes(Recurrence::Mamba2, Dtype::F32),
            (12 * 320 + small + 48 + 16, 12 * 320 + 120)
        );
        let id = of(Recurrence::GatedDelta, Dtype::F32).to_string();
        assert_eq!(id, "gated_delta/f32/3x4x2/16x5");
    }
}
