#!/usr/bin/env bash
# Compiles every kernel of kernels/kernels.toml for each of its targets, with nvcc and through NVRTC
# of two toolkits, and where none of them knows the target through a newer NVRTC, and proves what the
# list claims of it. No GPU is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/compilers.sh

exec "$cuda/bin/python3" scripts/kernels.py \
    --bin "$toolkit/bin" --nvrtc "$toolkit/lib" --nvrtc "$older/lib" --newer "$newer/lib" "$@"
