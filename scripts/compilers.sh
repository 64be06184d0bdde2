# Sourced by the scripts that compile GPU kernels: pinned compilers as Python packages, in a cache
# outside the repository, installed where they are not there yet. Needs python3 and, the first
# time, the network. Sets `toolkit` (nvcc, its tools and NVRTC 13.0) and `older` (NVRTC 12.9).

cache=${XDG_CACHE_HOME:-$HOME/.cache}/fizeau-ci

install_packages() { # apt packages..
    local sudo=
    ((EUID == 0)) || sudo=sudo
    $sudo apt-get update -q >&2
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@" >&2
}

command -v g++ >/dev/null || install_packages g++
python3 -c 'import ensurepip' 2>/dev/null || install_packages python3 python3-venv

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
older=$(echo "$nvrtc"/lib/python3*/site-packages/nvidia/cuda_nvrtc)
