#!/usr/bin/env bash
# Describes products to the real cuBLASLt, which does that without a GPU: numbers and sizes of
# attributes, as the library itself has them. It comes as a Python wheel, kept outside the
# repository.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/compilers.sh

cublas=$(environment nvidia-cublas-13.0.0.19 --no-deps nvidia-cublas==13.0.0.19)
FIZEAU_LIBRARY_PATH=$(echo "$cublas"/lib/python3*/site-packages/nvidia/cu13/lib) \
    required_tests --lib the_library_takes_every_description
echo "cuBLASLt 13.0.0.19 takes the description of a product of each element type"
