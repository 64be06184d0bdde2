#!/usr/bin/env bash
# Computes what a stage of AMD's matrix products takes of a unit, from their machine code, and writes
# docs/appendix/amd-products.md. Nothing is measured. Needs what scripts/kernels_amd.sh needs.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

venv=$(environment ziglang-0.17.1 ziglang==0.17.1)
exec "$venv/bin/python3" scripts/amd_stages.py --out docs/appendix/amd-products.md "$@" -- \
    "$venv/bin/python3" -m ziglang clang
