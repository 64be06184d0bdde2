//! A launch when its turn has come: what it leaves in memory, and what passes meanwhile.

use crate::{
    cost::{CLOCK, Cost},
    kernels,
    speed::Resource,
    state::{ILLEGAL_ADDRESS, OK, State},
};

/// Does what a kernel does, and lets pass what it costs: before, since a chain moves on.
pub fn perform(
    state: &mut State,
    stream: usize,
    name: &str,
    params: &[u8],
    blocks: u64,
    cost: &Cost,
) -> i32 {
    state.launched(stream, cost);
    if kernels::run(name, params, blocks, &mut state.memory).is_err() {
        return state.give(ILLEGAL_ADDRESS);
    }
    if name == "util_clock" {
        show_clock(state, stream, params, blocks);
    }
    OK
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
        let cycles = state.memory.load::<u64>(at, 1).and_then(|words| words.first().copied());
        if let Some(cycles) = cycles {
            // The kernel was within its memory, or it would have been refused.
            let _ = state.memory.store(at + 8, &[(cycles as f64 / clock) as u64]);
        }
    }
}
