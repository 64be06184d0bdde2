#!/usr/bin/env bash
# The checks that scripts/check.sh leaves out, since they take long or bring up real servers: MPI
# libraries, a Slurm of virtual nodes, HIP's functions by bindings made of its headers, the program as
# it is released, and in simulations how often judgements and `fizeau localise` are right. Needs root
# and Debian 12 for all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
source scripts/stages.sh

stage "HIP's bindings" summarised check_hip abi
stage "MPI" summarised check_mpi
stage "Slurm" summarised check_slurm
stage "every kernel's text" scripts/check_kernels_run.sh
stage "error rates" scripts/check_error_rates.sh
stage "release: build" cargo build --locked --release
# Fails where an answer is wrong more often than docs/localise-rates.md allows.
stage "localise: rates of right and wrong answers" \
    cargo run --locked --release --quiet --example localise_rates
stage "release: first run" first_run target/release/fizeau
