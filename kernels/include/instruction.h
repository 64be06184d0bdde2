// Chains of one instruction: each takes the result of the one before, so that the time of one is its
// latency. One warp makes them, and nothing else is on the way.
//
// Half of the instructions of a round take back what the other half did: the value ends where it
// began, and one that was left out shows. A chain that cannot says by itself what had to come out. crates/bench/src/instruction.rs reads what is left.
#pragma once
#include "params.h"

// Instructions of a round, and of a stretch in one direction: what fits into the exponent of f32.
CONSTANT u32 CHAIN_ROUND = 1024, CHAIN_RUN = 64;
CONSTANT u32 CHAIN_START = 1;

// A chain has STEP, the instructions of a step, makes one `up` or `down`, and is told how many there were
// when it gives its value.
template <class Chain> DEVICE void run_chain(const LatencyParams& p, u32 rounds) {
  Chain chain;
  for (u32 i = 0; i < rounds * (CHAIN_ROUND / CHAIN_RUN / 2); i++) {
    UNROLL for (u32 j = 0; j < CHAIN_RUN / Chain::STEP; j++) chain.up();
    UNROLL for (u32 j = 0; j < CHAIN_RUN / Chain::STEP; j++) chain.down();
  }
  const f64 value = chain.value(rounds * CHAIN_ROUND);
  if (thread_index() != 0) return;
  *reinterpret_cast<f64*>(p.position) = value;
  reinterpret_cast<u64*>(p.position)[1] = rounds;
}
