//! Errors that kernels make, each planted and found by the verification.

use super::States;
use crate::{Rank, Workload};
use fizeau_comm::Alone;
use fizeau_device::{Backend, host::Host};
use fizeau_domain::{
    case::{
        Recurrence::{self, GatedDelta, Kda, Mamba2},
        RecurrencePoint,
    },
    dtype::Dtype::{self, Bf16, F32},
    kernel::Operation,
    outcome::Check,
};

/// More sequences than repeat, two heads to a key, a length of values that no step divides.
fn point(recurrence: Recurrence, state: Dtype) -> RecurrencePoint {
    RecurrencePoint { recurrence, state, batch: 9, heads: 4, key_heads: 2, key: 48, value: 21 }
}

/// Elements of one state of the point.
const STATE: usize = 48 * 21;
/// States of the point.
const STATES: usize = 9 * 4;

/// What a kernel does wrong before it runs, and what it leaves wrong.
struct Planted {
    what: &'static str,
    of: (Recurrence, Dtype),
    before: fn(&mut States<'_>),
    after: fn(&mut States<'_>),
}

fn check(of: (Recurrence, Dtype), planted: Option<&Planted>) -> Vec<Check> {
    let device = Host.open(0).expect("there is always a host");
    let rank = Rank { device: device.as_ref(), peers: &Alone };
    let kernels = device.kernels(Operation::Recurrence(of.0, of.1));
    assert!(!kernels.is_empty(), "the host has kernels of {}/{}", of.0, of.1);
    let check = |kernel| {
        let mut states = States::new(&point(of.0, of.1), kernel, rank).expect("it is made ready");
        states.poison().expect("it is poisoned");
        planted.inspect(|planted| (planted.before)(&mut states));
        states.enqueue(1).expect("it runs");
        planted.inspect(|planted| (planted.after)(&mut states));
        states.verify().expect("it is read back")
    };
    kernels.iter().map(check).collect()
}

#[test]
fn what_is_right_passes() {
    for recurrence in Recurrence::ALL {
        for state in RecurrencePoint::STATES {
            for found in check((recurrence, state), None) {
                assert!(found.passed(), "{recurrence}/{state}: {found:?}");
                let all = (STATES * (STATE + 21)) as u64;
                assert_eq!(found.compared, all, "{recurrence}/{state}");
            }
        }
    }
}

/// What kernels do wrong, as parameters that make a right kernel do it.
fn errors_of_kernels() -> Vec<Planted> {
    let of = |what, of, before: fn(&mut States<'_>)| Planted { what, of, before, after: |_| () };
    vec![
        of("a state is not decayed", (GatedDelta, F32), |states| {
            states.inputs[4].change(states.turns.device, STATES, |all: &mut [f32]| all.fill(1.0));
        }),
        of("a decay is that of the next element", (Kda, F32), |states| {
            states.turns.params[0].decays += 4;
        }),
        of("the rate is left out", (Kda, Bf16), |states| {
            states.inputs[5].change(states.turns.device, STATES, |all: &mut [f32]| all.fill(1.0));
        }),
        of("query and key are exchanged", (GatedDelta, Bf16), |states| {
            let params = &mut states.turns.params[0];
            (params.queries, params.keys) = (params.keys, params.queries);
        }),
        of("all heads have keys of their own", (Mamba2, F32), |states| {
            states.turns.params[0].key_heads = 4;
        }),
        of("values are those of the next head", (Mamba2, Bf16), |states| {
            states.turns.params[0].values += 2 * 21;
        }),
        of("the skip is left out", (Mamba2, F32), |states| {
            states.inputs[6].change(states.turns.device, 4, |all: &mut [f32]| all.fill(0.0));
        }),
        of("the last sequence is left out", (GatedDelta, F32), |states| {
            states.turns.params[0].batch -= 1;
        }),
        of("the state is not written back", (Kda, F32), |states| {
            // It is left where the old one was.
            states.turns.params[0].updated = states.turns.params[0].state;
        }),
        of("the rule has no delta", (GatedDelta, F32), |states| {
            // S k is zero where all of S is, and then the update is that of a rule without it.
            states.inputs[0].change(states.turns.device, STATES * STATE, |all: &mut [f32]| {
                all[..STATE].fill(0.0);
            });
        }),
    ]
}

/// What they leave wrong.
fn errors_in_results() -> Vec<Planted> {
    let of = |what, of, after: fn(&mut States<'_>)| Planted { what, of, before: |_| (), after };
    vec![
        of("nothing was done", (Kda, Bf16), |states| states.poison().expect("poison")),
        of("an element of a state is off by a ten-thousandth", (GatedDelta, F32), |states| {
            states.updated.change(states.turns.device, STATES * STATE, |all: &mut [f32]| {
                all[4_321] += 1e-4;
            });
        }),
        of("an element of a state is the next number", (Kda, Bf16), |states| {
            states.updated.change(states.turns.device, STATES * STATE, |all: &mut [u16]| {
                all[4_321] ^= 1;
            });
        }),
        of("two states are exchanged", (Mamba2, F32), |states| {
            states.updated.change(states.turns.device, STATES * STATE, |all: &mut [f32]| {
                let (one, other) = all.split_at_mut(STATE);
                one.swap_with_slice(&mut other[..STATE]);
            });
        }),
        of("an output is the next number", (Mamba2, Bf16), |states| {
            states.output.change(states.turns.device, STATES * 21, |all: &mut [u16]| all[321] ^= 1);
        }),
        of("the last output is missing", (GatedDelta, Bf16), |states| {
            states.output.change(states.turns.device, STATES * 21, |all: &mut [u16]| {
                all[STATES * 21 - 1] = 0;
            });
        }),
    ]
}

#[test]
fn each_planted_error_is_found() {
    for planted in errors_of_kernels().iter().chain(&errors_in_results()) {
        for found in check(planted.of, Some(planted)) {
            assert!(!found.passed() && found.wrong > 0, "{}: {found:?}", planted.what);
        }
    }
}
