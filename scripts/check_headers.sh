#!/usr/bin/env bash
# Holds every function, number and struct that this program declares of NVIDIA's driver, NVML,
# NVRTC, cuBLASLt and NCCL against NVIDIA's own headers, and describes products to the real
# cuBLASLt, which does that without a GPU. The headers and the library come as Python wheels, kept
# outside the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/compilers.sh

nvml=$(environment nvidia-nvml-dev-13.0.87 --no-deps nvidia-nvml-dev==13.0.87)
nccl=$(environment nvidia-nccl-cu13-2.28.3 --no-deps nvidia-nccl-cu13==2.28.3)
cublas=$(environment nvidia-cublas-13.0.0.19 --no-deps nvidia-cublas==13.0.0.19)
packages() { echo "$1"/lib/python3*/site-packages/nvidia; }

python3 scripts/check_headers.py "$toolkit/include" "$(packages "$nvml")/cu13/include" \
    "$(packages "$cublas")/cu13/include" "$(packages "$nccl")/nccl/include"

FIZEAU_LIBRARY_PATH=$(packages "$cublas")/cu13/lib \
    required_tests --lib the_library_takes_every_description
echo "cuBLASLt 13.0.0.19 takes the description of a product of each element type"
