#!/usr/bin/env bash
# The first minutes on a machine with a GPU of NVIDIA or AMD: verified figures beside those of its peers.
#
#   scripts/gpu.sh            all of it, one part after the other
#   scripts/gpu.sh verify     every kernel at small and odd shapes: right or wrong
#   scripts/gpu.sh figures    memory, links, launches and matrix products, in turn with the peers
#   scripts/gpu.sh tune       which kernel is best at which shape of language models
#   scripts/gpu.sh verify 'gemm/fp8/*'    only cases that a selector of `fizeau run` names
#
# Each part takes at most ten minutes. Needs the NVIDIA driver or the ROCm runtime; for the peers a
# python3 with PyTorch (Triton comes with it), on AMD also rocm_bandwidth_test, TransferBench and rvs
# where they are. No network: the program is target/release/fizeau, built before, or what FIZEAU
# names. FIZEAU_DEVICE chooses a device (the first of cuda:0 and hip:0 that there is), OUT the folder
# of the records (results/local/gpu). docs/first-gpu-day.md says more.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${FIZEAU:-target/release/fizeau}
out=${OUT:-results/local/gpu}
part=${1:-all}
shift || true

case $part in all | verify | figures | tune) ;; *)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
    ;;
esac
if [ ! -x "$program" ]; then
    cargo build --release --locked --offline >&2 || {
        echo "there is no $program, and it cannot be built here without a network" >&2
        exit 3
    }
fi
# The plan of a device that is not there is an error: nothing is claimed without a GPU.
device=
for one in ${FIZEAU_DEVICE:-cuda:0 hip:0}; do
    if said=$("$program" list --device "$one" --suite gpu-verify 2>&1 >/dev/null); then
        device=$one
        break
    fi
    echo "$said" >&2
done
if [ -z "$device" ]; then
    echo "no GPU can be measured here as ${FIZEAU_DEVICE:-cuda:0 or hip:0}: nothing was run" >&2
    exit 3
fi
# PyTorch multiplies by hipBLASLt on AMD's GPUs where it is told to.
export TORCH_BLAS_PREFER_HIPBLASLT=1

python=${PYTHON:-python3}
selectors=("$@")
run() { # part
    echo "== $1"
    timeout 600 "$python" scripts/gpu.py "$1" "${selectors[@]}" --program "$program" \
        --device "$device" --out "$out"
}
if [ "$part" = all ]; then
    status=0
    for each in verify figures tune; do run "$each" || status=$?; done
    exit "$status"
fi
run "$part"
