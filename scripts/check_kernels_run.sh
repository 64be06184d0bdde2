#!/usr/bin/env bash
# Runs the suite gpu-verify on stub drivers of every kind of GPU, whose kernels' own texts are executed
# on the CPU, and prints each row of kernels/kernels.toml and kernels/amd.toml with a case by which it
# was run and verified. Minutes of CPU; needs a C++ compiler ($CXX, else c++).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --locked --test stub -- --ignored --nocapture every_row_of_the_lists_runs_whole
