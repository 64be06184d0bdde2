#!/usr/bin/env bash
# Compiles every kernel of kernels/kernels.toml for each of its targets, with nvcc and through NVRTC
# of two toolkits, and proves what the list claims of it. Needs python3, gcc and, the first time,
# the network: the compilers are Python wheels, kept outside the repository. No GPU is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/fizeau

# What an environment holds is part of its name: another pin is another environment.
environment() { # name, packages..
    local venv=$cache/$1
    shift
    if [ ! -e "$venv/complete" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" >&2
        touch "$venv/complete"
    fi
    echo "$venv"
}

# cuobjdump and nvdisasm are not packaged for 13.0; newer ones read older machine code.
cuda=$(environment cuda-13.0.3 \
    "cuda-toolkit[nvcc,cccl,nvrtc,cudart]==13.0.3.0" \
    nvidia-cuda-cuobjdump==13.2.86 nvidia-cuda-nvdisasm==13.2.86)
nvrtc=$(environment nvrtc-12.9.86 nvidia-cuda-nvrtc-cu12==12.9.86)

toolkit=$(echo "$cuda"/lib/python3*/site-packages/nvidia/cu13)
older=$(echo "$nvrtc"/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib)
exec "$cuda/bin/python3" scripts/kernels.py \
    --bin "$toolkit/bin" --nvrtc "$toolkit/lib" --nvrtc "$older" "$@"
