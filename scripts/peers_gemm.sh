#!/bin/sh
# The host's products beside OpenBLAS, BLIS and oneDNN, few rows beside the stream of reads, and
# attention beside both, on the same cores and by turns in one run: medians of paired ratios with their
# intervals. Installs the two that apt has. They choose kernels by CPU family and fall back to old or
# plain ones on a CPU younger than they are; where the CPU has AVX-512 they are told to use theirs, so
# that they are met at their best whatever the environment says. oneDNN 3 is met where the loader finds
# it: LD_LIBRARY_PATH may name its folder.
set -eu
cd "$(dirname "$0")/.."
for library in libopenblas0-pthread libblis4-pthread; do
    dpkg -s "$library" >/dev/null 2>&1 || apt-get install -y -q "$library"
done
if grep -qw avx512bw /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=SkylakeX BLIS_ARCH_TYPE=skx
fi
[ "$#" -gt 0 ] || set -- f32/2048x2048x2048 f64/1024x1024x1024 int8/2048x2048x2048 \
    f32/1x4096x4096 f32/16x4096x4096 f64/1x4096x4096 bf16/1x4096x4096 bf16/16x4096x4096 \
    int8/1x4096x4096 int8/16x4096x4096 attention
[ -n "${NO_BUILD:-}" ] || cargo build -q --release --example peers_host
"${PEERS_HOST:-target/release/examples/peers_host}" "$@"
