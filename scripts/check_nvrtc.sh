#!/usr/bin/env bash
# Compiles every GPU kernel from the text that the program embeds, for every target, through the
# program's own way to NVRTC: with the NVRTC of two toolkits. Needs python3 and, the first time, the
# network: the libraries are Python wheels, kept outside the repository. No GPU is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/fizeau
for package in nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-nvrtc-cu12==12.9.86; do
    venv=$cache/$package
    if [ ! -e "$venv/complete" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check "$package" >&2
        touch "$venv/complete"
    fi
    folder=$(dirname "$(find "$venv"/lib/python3*/site-packages/nvidia -name 'libnvrtc.so.1?')")
    echo "$package"
    FIZEAU_LIBRARY_PATH=$folder cargo test --locked --quiet --lib \
        every_kernel_compiles_from_its_embedded_text
done
