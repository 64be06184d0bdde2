#!/usr/bin/env bash
# Compiles every kernel of kernels/amd.toml for each of AMD's targets and proves what the list claims
# of it: instructions, no spilled registers, no scratch memory. Needs python3 (3.11) and, the first
# time, the network: the compiler is clang 22 as a Python wheel carries it, kept outside the
# repository. No GPU, no ROCm and no root is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

venv=$(environment ziglang-0.17.1 ziglang==0.17.1)
clang=$(echo "$venv"/lib/python3*/site-packages/ziglang)
exec "$venv/bin/python3" scripts/kernels_amd.py --files "$clang" "$@" -- \
    "$venv/bin/python3" -m ziglang clang
