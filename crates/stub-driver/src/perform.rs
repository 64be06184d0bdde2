//! A launch when its turn has come: what it leaves in memory, and what passes meanwhile.

use crate::{
    cost::{CLOCK, Cost},
    model::Call,
    speed::Resource,
    state::{ILLEGAL_ADDRESS, LAUNCH_FAILED, OK, State, UNKNOWN},
};

/// Does what a kernel does, and lets pass what it costs: before, since a chain moves on.
pub fn perform(state: &mut State, stream: usize, call: &Call, cost: &Cost) -> i32 {
    state.launched(stream, cost);
    let device = state.device_of(stream);
    if state.script.is_lost(device, state.launched_on(device)) {
        return state.give(UNKNOWN);
    }
    let said = state.flipped(device, call, |state| run(state, call));
    state.works_still(stream);
    if said != OK {
        return said;
    }
    if call.name() == "util_hold" {
        let word = |at: usize| {
            let bytes = call.params.get(at..at + 8).and_then(|bytes| bytes.first_chunk().copied());
            bytes.map_or(0, u64::from_le_bytes)
        };
        state.close([word(0), word(8), word(16)]);
    }
    if call.name() == "util_clock" {
        show_clock(state, stream, &call.params, u64::from(call.shape[0]));
    }
    if call.name() == "util_counters" {
        show_counters(state, stream, &call.params);
    }
    OK
}

/// Runs its text.
fn run(state: &mut State, call: &Call) -> i32 {
    let Err(words) = call.run(&mut state.memory) else { return OK };
    state.log(format!("fault {}: {words}", call.name()));
    let is_access = words.contains("an access to 0x") || words.contains("beside the block");
    state.give(if is_access { ILLEGAL_ADDRESS } else { LAUNCH_FAILED })
}

/// What the counters of all units show is time too: the cycles and nanoseconds that have passed on
/// the stream.
fn show_counters(state: &mut State, stream: usize, params: &[u8]) {
    let words = params.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let [Some(counted), Some(units), Some(turn)] = ({
        let mut words = words;
        [words.next(), words.next(), words.next()]
    }) else {
        return;
    };
    let shown = [turn, state.cycles_on(stream) as u64, state.now_on(stream) as u64];
    for unit in 0..units {
        // The kernel was within its memory, or it would have been refused.
        let _ = state.memory.store(counted + 64 * unit, &shown);
    }
}

/// What a kernel reads off the clock is time, and so the script's: of each block, the nanoseconds
/// in which it counted its cycles.
fn show_clock(state: &mut State, stream: usize, params: &[u8], blocks: u64) {
    let clock = CLOCK * state.speed(Resource::Clock, stream, None);
    let Some(counted) = params.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return;
    };
    for block in 0..blocks {
        let at = counted + 64 * block;
        let Some(&[cycles, shown]) = state
            .memory
            .load::<u64>(at, 2)
            .as_deref()
            .map(|words| <&[u64; 2]>::try_from(words).unwrap_or(&[0, 0]))
        else {
            continue;
        };
        let nanoseconds = (cycles as f64 / clock) as u64;
        // What changes nothing is not written: a launch that leaves the same is not run again.
        if nanoseconds != shown {
            // The kernel was within its memory, or it would have been refused.
            let _ = state.memory.store(at + 8, &[nanoseconds]);
        }
    }
}
