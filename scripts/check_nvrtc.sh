#!/usr/bin/env bash
# Compiles every GPU kernel from the text that the program embeds, for every target, through the
# program's own way to NVRTC: with the NVRTC of two toolkits. No GPU is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/compilers.sh

cargo test --locked --quiet --lib --no-run
check() { # folder of NVRTC
    FIZEAU_LIBRARY_PATH=$1 cargo test --locked --quiet --lib \
        every_kernel_compiles_from_its_embedded_text
}
# Two versions do not live in one process; they do in two.
check "$toolkit/lib" &
first=$!
check "$older/lib"
wait "$first"
