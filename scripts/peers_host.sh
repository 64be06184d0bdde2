#!/bin/sh
# The host's kernels beside their peers, on the same cores and by turns in one run: medians of paired
# ratios with their intervals. Products, with B row by row and (nt) column by column, stand beside
# OpenBLAS, BLIS and oneDNN; products of few rows beside the stream of reads; attention beside the best
# product and that stream.
#
# Installs the libraries, where apt can. They choose kernels by CPU family and fall back to old or
# plain ones on a CPU younger than they are; where the CPU has AVX-512, OpenBLAS and BLIS are told to
# use it, so that they are met at their best whatever the environment says. Each is tried alone first:
# one whose build does not know that choice ends its process, and is then left to choose by itself;
# one that ends its process even so is left out, and the comparison goes on with the others.
set -eu
cd "$(dirname "$0")/.."
for library in libopenblas0-pthread libblis4-pthread libdnnl2; do
    dpkg -s "$library" >/dev/null 2>&1 || apt-get install -y -q "$library"
done
[ -n "${NO_BUILD:-}" ] || cargo build -q --release --locked --example peers_host
program=${CARGO_TARGET_DIR:-target}/release/examples/peers_host
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE BLIS_ARCH_TYPE
without=
for library in openblas blis onednn; do
    # Set one after the other: the program opens all libraries whichever it tries, and one that dies
    # of its choice must not be taken for another.
    if grep -qw avx512bw /proc/cpuinfo; then
        case $library in
        openblas) export OPENBLAS_CORETYPE=SkylakeX ;;
        blis) export BLIS_ARCH_TYPE=skx ;;
        esac
    fi
    if "$program" --probe "$library"; then continue; fi
    case $library in
    openblas) choice=OPENBLAS_CORETYPE ;;
    blis) choice=BLIS_ARCH_TYPE ;;
    *) choice=ONEDNN_MAX_CPU_ISA ;;
    esac
    unset "$choice"
    if "$program" --probe "$library"; then
        echo "$library failed by the kernels it was told to use, and chooses them by itself."
    else
        echo "$library failed alone, and is left out."
        without="$without --without $library"
    fi
done
[ "$#" -gt 0 ] || set -- f32/2048x2048x2048 f64/1024x1024x1024 int8/2048x2048x2048 \
    f32/1x4096x4096 f32/16x4096x4096 f64/1x4096x4096 bf16/1x4096x4096 bf16/16x4096x4096 \
    int8/1x4096x4096 int8/16x4096x4096 \
    f32/nt/2048x2048x2048 f64/nt/1024x1024x1024 bf16/nt/2048x2048x2048 int8/nt/2048x2048x2048 \
    f32/nt/1x4096x4096 f32/nt/16x4096x4096 f64/nt/1x4096x4096 bf16/nt/1x4096x4096 \
    bf16/nt/16x4096x4096 int8/nt/1x4096x4096 int8/nt/16x4096x4096 attention
# The words of $without are options of their own.
# shellcheck disable=SC2086
"$program" $without "$@"
