#!/usr/bin/env bash
# The checks that scripts/check.sh leaves out, since they take long or bring up real servers: MPI
# libraries, a Slurm of virtual nodes, formats that other programs read, HIP's functions by bindings
# made of its headers, NVIDIA's kernels by nvcc, the program as it is released, a million strange
# inputs, bits that are flipped, and in simulations how often judgements and `fizeau localise` are
# right. Needs root and Debian 12 for all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
source scripts/stages.sh
source scripts/compilers.sh

check_families() {
    for library in "$toolkit/lib" "$older/lib"; do
        "$cuda/bin/python3" scripts/check_families.py "$library"
    done
}

# With its symbols, which the machine code is read by; but for them, all below is as users build it.
export CARGO_PROFILE_RELEASE_STRIP=none

# With kernels for every target by the compiler of CUDA 12, which drivers from 525 on load, and by that
# of CUDA 13.5 where the other one does not know the target.
both=$older/lib/libnvrtc.so.12:$newer/lib/libnvrtc.so.13

release() {
    FIZEAU_KERNELS=require FIZEAU_NVCC=$both cargo build --locked --release
}

release_kernels() {
    local found
    # Its exit code is about this machine, and not about the kernels.
    found=$( (target/release/fizeau doctor || true) | grep 'CUDA kernels')
    echo "$found"
    [[ $found == *sm_80*sm_90a*"by NVRTC 12.9"* && $found == *"sm_107a by NVRTC 13.5"* ]]
}

release_pack() {
    FIZEAU_KERNELS=require FIZEAU_NVCC=$both scripts/release.sh here
}

config_oracle() {
    local folder=target/config-oracle
    [ -x "$folder/bin/python" ] || python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet transformers==5.24.0
    "$folder/bin/python" scripts/config_oracle.py
    "$folder/bin/python" scripts/config_oracle.py --planted
}

# docs/appendix/serving-trial.md is what its records and this program say.
serving_page() {
    scripts/serving_trial.sh report results/serving/2026-11-22-one-core | diff docs/appendix/serving-trial.md -
}

stage "kernels: NVIDIA by nvcc" summarised kernels --by nvcc
# Fails where the model of docs/appendix/expected-shares.md takes no notice of a fault planted into a loop.
stage "expected shares: planted faults" scripts/expected_shares.sh --check
stage "HIP's bindings" summarised check_hip abi
stage "MPI" summarised check_mpi
stage "Slurm: collectives" summarised check_slurm
stage "Slurm: acceptance" summarised check_slurm_accept
stage "Slurm: a fleet" summarised check_slurm_fleet
stage "formats of others" summarised check_formats
stage "every kernel's text" scripts/check_kernels_run.sh
stage "bundles: keys and agents" summarised check_evidence
stage "stops, kills, other users" required_tests --test runs -- --ignored
stage "error rates" scripts/check_error_rates.sh
# Fails where a flipped bit is not found; docs/appendix/corruption-rates.md has what it prints.
stage "silent corruption" scripts/check_corruption.sh
# Every fault on a stub node of eight GPUs, by the whole program; fails where one is not found.
stage "acceptance on a stub node" scripts/accept_stub.sh
stage "families of targets" check_families
stage "release: build" release
stage "served model: the page" serving_page
stage "release: kernels" release_kernels
# What README says that a release is: its size and the oldest glibc that it needs.
stage "release: pack" release_pack
# No call is left in a loop of a host kernel. Builds of tests are optimised less, and have some.
stage "release: machine code of host kernels" \
    python3 scripts/check_host_code.py target/release/fizeau
# Fails where an answer is wrong more often than docs/appendix/localise-rates.md allows.
stage "localise: rates of right and wrong answers" \
    cargo run --locked --release --quiet --example localise_rates
# 10^5 random models, layouts and hardware, 20,000 made-up records: tiers keep their order; 10^4 points
# in five seconds.
stage "projections: 100,000 cases" \
    cargo test --locked --quiet --test library -- --ignored project::
stage "projections: 20,000 records" \
    cargo test --locked --quiet --test library -- --ignored projected_records::
stage "projections: figures" cargo run --locked --quiet --example project_figures
# Kinds of layers and sizes of caches beside the configuration classes of the transformers package,
# then with each default made wrong, which has to be found.
stage "configurations: the transformers package" config_oracle
# 10^6 strange records and 10^5 of each other input; fails where one does harm.
stage "strange inputs" scripts/fuzz.sh 100000
stage "release: first run" first_run target/release/fizeau
