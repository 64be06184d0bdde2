#!/usr/bin/env bash
# The first minutes on a machine with a GPU of NVIDIA or AMD.
#
#   scripts/gpu.sh verify     every kernel at small and odd shapes: right or wrong (about 4 minutes)
#   scripts/gpu.sh figures    memory, links, launches, matrix products and attention, in turn with
#                             other people's kernels (about 8 minutes)
#   scripts/gpu.sh tune       variants of kernels, libraries and peers in rotation (about 9 minutes)
#   scripts/gpu.sh verify 'gemm/fp8/*'    only the cases that a selector of `fizeau run` names
#
# Options, after the part: --out DIR, where the summary and an archive of all records go; --limit
# SECONDS, after which the command ends by itself; --new, not to go on with what is unfinished;
# --rounds N, how often figures are measured (2); --without PEER, a peer to leave out, such as triton,
# which takes minutes to choose its kernels. A command that was ended or killed goes on where it
# stopped when it is started again. Exit codes: 0 all went through, 1 something was wrong, 2 usage, 3
# there is no GPU, 4 time was over before the end.
#
# Needs the NVIDIA driver or the ROCm runtime and a python3; the other people's kernels need a PyTorch,
# on AMD also rocm_bandwidth_test, TransferBench and rvs where they are. No network: the program is
# target/release/fizeau, built before, or what FIZEAU names. FIZEAU_DEVICE chooses a device (the first
# of cuda:0 and hip:0 that there is), OUT is the same as --out, WORK the folder of what is unfinished
# (results/local/gpu, which is also where the files go by default). docs/first-gpu-day.md says more.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${FIZEAU:-target/release/fizeau}
work=${WORK:-results/local/gpu}
out=${OUT:-$work}
part=${1:-}
shift || true

case $part in
    # A little more than the limits in scripts/gpu.py: it ends by itself, and this is for when it hangs.
    verify) guard=390 ;;
    figures) guard=570 ;;
    # Its own limit is --limit, 540 s where none is given.
    tune) guard=620 ;;
    *)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
        exit 2
        ;;
esac
if [ ! -x "$program" ]; then
    echo "there is no $program: build it (cargo build --release) or name one in FIZEAU" >&2
    exit 3
fi
# The plan of a device that is not there is an error: nothing is claimed without a GPU.
device=
for one in ${FIZEAU_DEVICE:-cuda:0 hip:0}; do
    if said=$(timeout 60 "$program" list --device "$one" --suite gpu-verify 2>&1 >/dev/null); then
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

script=scripts/gpu.py
if [ "$part" = tune ]; then
    script=scripts/tune.py
fi
exec timeout --kill-after=10 "$guard" "${PYTHON:-python3}" "$script" $([ "$part" = tune ] || echo "$part") "$@" \
    --program "$program" --device "$device" --work "$work" --default-out "$out"
