#!/usr/bin/env bash
# Opens NVIDIA's own NCCL, from its Python wheel, on a machine without a GPU: its version, its
# functions, and its errors where there is no driver. Needs python3 and, the first time, the
# network: the wheel is kept outside the repository.
# Usage: scripts/check_nccl.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

version=${1:-2.28.3}
venv=$(environment "nvidia-nccl-cu13-$version" --no-deps "nvidia-nccl-cu13==$version")
echo "NCCL $version"
NCCL_LIBRARY=$(find "$venv" -name libnccl.so.2) NCCL_VERSION_WANTED=$version \
    required_tests --test wheel
