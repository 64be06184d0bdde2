#!/usr/bin/env bash
# Proves that kept verdicts (scripts/verdicts.py) hide no fault: with a warm cache, a fault planted in
# a kernel's text, in a header that it includes indirectly or in its row is found, and a damaged entry
# or a changed script means that everything is proved again. Needs what scripts/kernels.sh and
# kernels_amd.sh need.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp -r scripts kernels "$place"
cd "$place"
export FIZEAU_CHECK_CACHE=$place/cache

nvidia() { bash scripts/kernels.sh --only compute/sm120_mma.cu; }
amd() { bash scripts/kernels_amd.sh --only compute/rdna3_wmma.hip; }
expect() { # VENDOR WORDS: they are said, and the exit code is 0 where they are no fault
    local status=0
    "$1" >said 2>&1 || status=$?
    if ! grep -q -- "$2" said || { [[ $2 == *before ]] && ((status != 0)); } ||
        { [[ $2 != *before ]] && ((status == 0)); }; then
        cat said >&2
        echo "fault: exit code $status and no '$2'" >&2
        exit 1
    fi
    echo "$1: $2"
}
planted() { # FILE SED_SCRIPT VENDOR WORDS: after a change, which is then undone
    cp "$1" kept
    sed -i "$2" "$1"
    ! cmp -s "$1" kept || { echo "fault: nothing was planted in $1" >&2; exit 1; }
    expect "$3" "$4"
    cp kept "$1"
}
expect nvidia "3 compilations, 0 of them proved before"
expect amd "1 compilations, 0 of them proved before"
expect nvidia "3 compilations, 3 of them proved before"
expect amd "1 compilations, 1 of them proved before"
planted kernels/include/count.h '1i #error planted' nvidia "planted"
planted kernels/include/count.h '1i #error planted' amd "planted"
planted kernels/compute/sm120_mma.cu 's/compute_mxfp4_mma/compute_planted/' nvidia \
    "compute_planted is not listed"
planted kernels/kernels.toml 's/QMMA.SF.16832.F32.E4M3.E4M3/PLANTED/' nvidia "has no PLANTED"
planted kernels/amd.toml 's/v_wmma_f32_16x16x16_bf16/planted/' amd "has no planted"
planted scripts/kernels.py '$a # planted' nvidia "3 compilations, 0 of them proved before"
planted scripts/verdicts.py '$a # planted' amd "1 compilations, 0 of them proved before"
for entry in cache/*.json; do truncate -s 30 "$entry"; done
expect amd "1 compilations, 0 of them proved before"
for entry in cache/*.json; do sed -i 's/compute_/other_/' "$entry"; done
expect amd "1 compilations, 0 of them proved before"
expect amd "1 compilations, 1 of them proved before"
