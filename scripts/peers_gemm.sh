#!/bin/sh
# The bundled matrix products beside OpenBLAS and BLIS on the same cores, by turns in one run.
# Installs the two, where apt can. Both choose kernels by CPU family and fall back to old or plain
# ones on a CPU younger than they are; where the CPU has AVX-512 they are told to use theirs, so
# that they are met at their best whatever the environment says.
set -eu
cd "$(dirname "$0")/.."
for library in libopenblas0-pthread libblis4-pthread; do
    dpkg -s "$library" >/dev/null 2>&1 || apt-get install -y -q "$library"
done
if grep -qw avx512bw /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=SkylakeX BLIS_ARCH_TYPE=skx
fi
[ "$#" -gt 0 ] || set -- f32/2048x2048x2048 f32/4096x4096x4096 f64/2048x2048x2048
cargo build -q --release --example peers_gemm
for cores in 0 "0-$(($(nproc) - 1))"; do
    taskset -c "$cores" target/release/examples/peers_gemm "$@"
done
