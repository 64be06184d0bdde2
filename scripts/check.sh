#!/usr/bin/env bash
# Every check of this repository that needs no other machine and no other server, in the order in
# which they are quick to fail. scripts/check_long.sh has the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
source scripts/stages.sh

# A disk that fills up half way fails as a compiler's fault would. A build and its tests take 5 GiB.
free=$(df --output=avail --block-size=1G . | tail -n 1)
if ((free < 6)); then
    echo "fault: the checks need 6 GiB of disk below $PWD, and $((free)) GiB are free" >&2
    exit 1
fi

# What the stub driver made of kernels' texts, and nobody has asked for in a month. The folder may not
# be there yet, and another run may remove a file first.
find "${FIZEAU_CHECK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fizeau-checks}/stub" -type f -mtime +30 \
    -delete 2>/dev/null || true

stage "format" cargo fmt --all --check
stage "picture of crates" python3 scripts/crates.py --check
# A renamed word in a kernel leaves a planted fault without its place.
stage "planted faults" bash scripts/check_loops.sh --plant-only
stage "clippy" cargo clippy --locked --workspace --all-targets -- -D warnings
# As users build it: with tests among what is built, features of their dependencies hide what is missing.
stage "as users build it" cargo check --locked --workspace --quiet
RUSTDOCFLAGS="-D warnings" stage "documentation" \
    cargo doc --locked --workspace --no-deps --quiet
stage "tests: build" cargo test --locked --workspace --no-run --quiet
# Scripts below bring the first four, and check_long.sh the last.
FIZEAU_ELSEWHERE="nvrtc cublaslt hip nccl mpi" stage "tests: run" cargo test --locked --workspace
stage "tests: alone" required_tests --test runs -- --ignored fleet::bundles_are_collected_once

# GPU kernels and the way to the driver, which need no GPU: every kernel for every target by the two
# compilers whose code runs (NVRTC 12 makes what a release carries, NVRTC 13 what a machine compiles
# for itself), the program's own way to them, cuBLASLt's own library, and the program on a stub driver
# under valgrind.
stage "kernels: NVIDIA" summarised kernels --by NVRTC
stage "kernels: AMD" summarised kernels_amd
stage "kernels: verdicts" summarised check_verdicts
stage "kernels: loops" summarised check_loops
stage "NVRTC" summarised check_nvrtc
stage "cuBLASLt" summarised check_cublaslt
# What peers give PyTorch, whose kernels need a GPU: by a stand-in.
stage "peers" python3 scripts/check_peers.py
stage "peers: packages" python3 scripts/check_packages.py
stage "peers: in turns" python3 scripts/check_contenders.py
stage "valgrind" summarised check_valgrind
# Debian's own HIP, which opens without a GPU.
stage "HIP" summarised check_hip
# NVIDIA's own NCCL, which opens without a GPU.
stage "NCCL" summarised check_nccl

# A real llama.cpp server on a model with random weights, loaded by `fizeau load`.
stage "llama.cpp" summarised check_load
# The store of a fleet, by DuckDB itself.
stage "fleet: the store" summarised check_fleet_store
# Whoever forges a bundle, hides in a fleet or frames another node is named.
stage "bundles: forgeries" tabled forgeries target/debug/fizeau
stage "fleet: ways to hide" tabled fleet_attacks target/debug/fizeau 18 bundles

# The program that the tests ran, whose own code is optimised; check_long.sh runs the released one.
# Without what goes far beyond the caches, which takes minutes where those are large.
mapfile -t large < <(exclusions target/debug/fizeau 'stream/*GiB' 'latency/*GiB' 'gemm/*x4096x4096')
stage "first run" first_run target/debug/fizeau "${large[@]}"
