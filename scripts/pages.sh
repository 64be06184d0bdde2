#!/usr/bin/env bash
# Pictures of the pages that people read (run, gpu, compare, accept, project, load, fleet, claim), at
# the widths of a desk (1400) and of a phone (390), light and dark, and printed (PAGE-print.pdf), to
# look at. Chromium is installed where it is missing (Debian's package).
#
#   scripts/pages.sh DIRECTORY [PAGE..]
#
# `run`, `gpu` and `compare` are pages of records in results/. The others are made here, in about
# two minutes: an acceptance of this host, a projection of two parts, load on the program's own
# server, of which every tenth request is refused, a simulated fleet, and the built-in claims. Set
# FIZEAU to take another program than the debug build.
set -euo pipefail
directory=$(realpath -m "${1:?usage: scripts/pages.sh DIRECTORY [PAGE..]}")
shift
(($# > 0)) || set -- run gpu compare accept project load fleet claim
cd "$(dirname "$0")/.."
. scripts/common.sh

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT

command -v chromium >/dev/null || install_packages chromium fonts-dejavu-core
[ -n "${FIZEAU:-}" ] || cargo build --quiet
fizeau=$(realpath "${FIZEAU:-${CARGO_TARGET_DIR:-target}/debug/fizeau}")
export FIZEAU_PROGRESS=off
mkdir -p "$directory"

run() {
    "$fizeau" report results/epyc-9005/2026-11-21-kvm-2-cores --out "$work/run.html"
}

gpu() {
    "$fizeau" report results/h200-sxm/2026-11-26-figures/attention --out "$work/gpu.html"
}

compare() {
    # 1 or 4: cases got worse, or nothing can be told. The two records are of other kernels.
    "$fizeau" compare results/h200-sxm/2026-11-26-few-rows-before \
        --vs results/h200-sxm/2026-11-26-few-rows-figures/gemm --out "$work/compare.html" ||
        (($? == 1 || $? == 4))
}

claim() {
    "$fizeau" claim --from built-in --out "$work/claim.html"
}

accept() {
    # Its exit code is its verdict on this machine.
    "$fizeau" accept --level quick --device host --out "$work/accepted" >/dev/null || (($? != 2))
    mv "$work/accepted/verdict.html" "$work/accept.html"
}

project() {
    "$fizeau" project llama-3.1-70b --on h200 --vs mi355x --layout tp8 --slo tpot=20ms \
        --out "$work/project.html"
}

load() {
    "$fizeau" load serve --slots 4 --fault 429/10 >"$work/served" &
    server=$!
    for _ in $(seq 100); do [ -s "$work/served" ] && break || sleep 0.1; done
    # 1: more requests failed than may.
    "$fizeau" load "$(grep -o 'http://[0-9.:]*' "$work/served")" --rate 20,40 --duration 5s \
        --isl 32 --osl 16 --out "$work/loaded" >/dev/null || (($? == 1))
    mv "$work/loaded/report.html" "$work/load.html"
}

fleet() {
    "$fizeau" fleet simulate examples/fleet/recipe.toml --gpus 256 --out "$work/planted" \
        >/dev/null
    # 1: its planted GPUs fail.
    "$fizeau" fleet survey "$work/planted/store" --labels "$work/planted/labels.csv" \
        --html "$work/fleet.html" >/dev/null || (($? == 1))
}

# A window is never as narrow as a phone: a frame is.
shoot() { # page, picture, width, options..
    echo "<body style='margin:0'><iframe src='$1' style='border:0;width:$3px;height:2000px'>" \
        >"$work/frame.html"
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars \
        --user-data-dir="$work/profile" --screenshot="$2" --window-size="$3,2000" "${@:4}" \
        "file://$work/frame.html" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
}

for page in "$@"; do
    "$page"
    for width in 1400 390; do
        shoot $page.html "$directory/$page-$width.png" $width
        shoot $page.html "$directory/$page-$width-dark.png" $width \
            --force-dark-mode --blink-settings=preferredColorScheme=0
    done
    chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
        --print-to-pdf="$directory/$page-print.pdf" "file://$work/$page.html" >"$work/log" 2>&1
    cp "$work/$page.html" "$directory/"
    echo "$page: $directory/$page-{1400,390}{,-dark}.png"
done
