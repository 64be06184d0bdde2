#!/usr/bin/env bash
# The first minutes on a machine with an NVIDIA GPU: verified figures beside those of its peers.
#
#   scripts/gpu.sh            all of it, one part after the other
#   scripts/gpu.sh verify     every kernel at small and odd shapes: right or wrong
#   scripts/gpu.sh figures    memory, links, launches and matrix products, in turn with the peers
#   scripts/gpu.sh tune       which kernel is best at which shape of language models
#   scripts/gpu.sh verify 'gemm/fp8/*'    only cases that a selector of `fizeau run` names
#
# Each part takes at most ten minutes. Needs the NVIDIA driver; for the peers a python3 with PyTorch
# (Triton comes with it). No network: the program is target/release/fizeau, built before, or what
# FIZEAU names. FIZEAU_DEVICE chooses a device (cuda:0), OUT the folder of the records
# (results/local/gpu). docs/first-gpu-day.md says more.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${FIZEAU:-target/release/fizeau}
device=${FIZEAU_DEVICE:-cuda:0}
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
if ! said=$("$program" list --device "$device" --suite gpu-verify 2>&1 >/dev/null); then
    echo "$said" >&2
    echo "no NVIDIA GPU can be measured here as $device: nothing was run" >&2
    exit 3
fi

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
