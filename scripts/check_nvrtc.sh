#!/usr/bin/env bash
# Compiles GPU kernels from the text that the program embeds, through the program's own way to NVRTC:
# one for every target, and the examples for users, with the NVRTC of two toolkits. No GPU is needed.
# The program's tests prove that it embeds the files' own text and gives NVRTC the options of
# scripts/kernels.py, which compiles all files.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/compilers.sh

FIZEAU_LIBRARY_PATH=$newer/lib:$older/lib \
    required_tests --lib cuda::nvrtc
