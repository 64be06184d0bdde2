#!/usr/bin/env bash
# What `fizeau project` says of one core of this host, beside llama.cpp serving a model with random
# weights on that core. Writes docs/appendix/serving-trial.md.
#
#   scripts/serving_trial.sh prepare         what needs no quiet machine: packages, program, model
#   scripts/serving_trial.sh [measure]       five rounds into results/serving/LABEL, and the page
#   scripts/serving_trial.sh report FOLDER   the page again, from what is kept there
#
# FIZEAU takes another program than the release build; ROUNDS, LABEL and CORE other than 5, the date
# and 0. Models lie in the cache (5 GB); the machine needs two cores and 10 GB of free memory.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

parts=scripts/serving_trial
models=$cache/serving-model-1
# llama-cpp-py-sync has the declarations of llama.h of the build before, and is never loaded.
packages=(xllamacpp==2026.10.11549 llama-cpp-py-sync==0.11548 gguf==0.19.0 numpy==2.4.6 cffi==2.1.1)

# Of each operation the kernel that is fastest here, so that a round takes two minutes; of a prompt
# neither the widest product nor attention over the longest.
slow='*/{portable,plain},attention/*/avx2,stream/read/*/avx512,stream/triad/*/{avx512,*_4s,avx2*}'
cases=("!{$slow,gemm/*/128x35840x6656,attention/prefill/*-k2048-*}")

prepare() {
    [ -n "${FIZEAU:-}" ] || cargo build --locked --release --quiet
    venv=$(environment serving-xllamacpp-2026.10.11549 "${packages[@]}")
    "$venv/bin/python" "$parts/model.py" "$models" >&2
}

report() { # folder
    python3 "$parts/report.py" --fizeau "${FIZEAU:-target/release/fizeau}" --trial "$1"
}

what=${1:-measure}
case $what in
prepare) prepare ;;
measure)
    prepare
    out=results/serving/${LABEL:-$(date -u +%Y-%m-%d)-one-core}
    "$venv/bin/python" "$parts/trial.py" --fizeau "${FIZEAU:-target/release/fizeau}" \
        --models "$models" --out "$out" --rounds "${ROUNDS:-5}" --core "${CORE:-0}" -- "${cases[@]}"
    report "$out" >docs/appendix/serving-trial.md
    ;;
report) report "${2:?which folder of results/serving?}" ;;
*)
    echo "usage: $0 [prepare | measure | report FOLDER]" >&2
    exit 2
    ;;
esac
