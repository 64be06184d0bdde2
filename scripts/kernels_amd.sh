#!/usr/bin/env bash
# Compiles every kernel of kernels/amd.toml for each of AMD's targets and proves what the list claims
# of it: instructions, no spilled registers, no scratch memory. Needs python3 (3.11) and, the first
# time, the network: the compiler is clang 22 as a Python wheel carries it, kept outside the
# repository. No GPU, no ROCm and no root is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${XDG_CACHE_HOME:-$HOME/.cache}/fizeau-ci/ziglang-0.17.1
if [ ! -e "$venv/complete" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check ziglang==0.17.1 >&2
    touch "$venv/complete"
fi
exec "$venv/bin/python3" scripts/kernels_amd.py "$@" -- "$venv/bin/python3" -m ziglang clang
