#!/bin/sh
# The host's kernels beside their peers, on the same cores and by turns in one run: medians of paired
# ratios with their intervals. Products stand beside OpenBLAS, BLIS and oneDNN; products of few rows
# beside the stream of reads; attention beside the best product and that stream.
#
# Installs the libraries, where apt can. They choose kernels by CPU family and fall back to old or
# plain ones on a CPU younger than they are; where the CPU has AVX-512, OpenBLAS and BLIS are told to
# use it, so that they are met at their best whatever the environment says.
set -eu
cd "$(dirname "$0")/.."
for library in libopenblas0-pthread libblis4-pthread libdnnl2; do
    dpkg -s "$library" >/dev/null 2>&1 || apt-get install -y -q "$library"
done
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
if grep -qw avx512bw /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=SkylakeX BLIS_ARCH_TYPE=skx
fi
[ "$#" -gt 0 ] || set -- f32/2048x2048x2048 f64/1024x1024x1024 int8/2048x2048x2048 \
    f32/1x4096x4096 f32/16x4096x4096 f64/1x4096x4096 bf16/1x4096x4096 bf16/16x4096x4096 \
    int8/1x4096x4096 int8/16x4096x4096 attention
[ -n "${NO_BUILD:-}" ] || cargo build -q --release --locked --example peers_host
target/release/examples/peers_host "$@"
