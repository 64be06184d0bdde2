#!/usr/bin/env bash
# `fizeau accept` as a whole on a node of eight stub GPUs: healthy nodes and every fault, three seeds
# of each, judged by profiles learnt from healthy stub nodes. Prints docs/appendix/accept-stub.md; fails where a
# fault was not found, a healthy node failed, or a verdict does not follow from its records. Takes about
# 20 minutes of one core.
#
#     scripts/accept_stub.sh > docs/appendix/accept-stub.md
#     scripts/accept_stub.sh --gpus 4 --seeds 1 --faults memory,pcie      # a part of it
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
FIZEAU_KERNELS=off build_program
exec python3 scripts/accept_stub.py "${CARGO_TARGET_DIR:-target}/debug" "$@"
