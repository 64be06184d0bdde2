#!/usr/bin/env bash
# Opens NVIDIA's own NCCL, from its Python wheel, on a machine without a GPU: its version, its
# functions, and its errors where there is no driver. Needs python3 and, the first time, the
# network: the wheel is kept outside the repository.
# Usage: scripts/check_nccl.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/fizeau-ci
version=${1:-2.28.3}
venv=$cache/nvidia-nccl-cu13-$version
if [ ! -e "$venv/complete" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        "nvidia-nccl-cu13==$version" >&2
    touch "$venv/complete"
fi
echo "NCCL $version"
NCCL_LIBRARY=$(find "$venv" -name libnccl.so.2) NCCL_VERSION_WANTED=$version \
    cargo test --locked --quiet -p nccl-rs --test wheel
