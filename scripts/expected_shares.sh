#!/usr/bin/env bash
# Computes what share of the hardware and of public kernels each kernel for NVIDIA can be expected to reach,
# from its machine code by the pinned nvcc: docs/appendix/expected-shares.md and docs/tuning.md. Nothing is measured
# and no GPU is needed. `--check` plants faults instead and fails where the model takes no notice.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/compilers.sh

if (($# == 0)); then
    set -- --out docs
fi
exec "$cuda/bin/python3" scripts/expected_shares.py --bin "$toolkit/bin" "$@"
