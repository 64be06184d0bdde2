#!/usr/bin/env bash
# Pictures of reports, by Chromium without a window (Debian's packages chromium and poppler-utils;
# they are installed where they are missing).
#
#   scripts/picture.sh                    makes docs/report.png, the picture that README shows, from
#                                         a record of results/
#   scripts/picture.sh RECORD DIRECTORY   a record's page at the widths of a desk and of a phone,
#                                         dark, and printed, to look at
#
# `cargo run --example made_up -- DIRECTORY` makes a record of a thousand cases to look at. Set
# FIZEAU to take another program than the debug build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

record=${1:-results/epyc-9005/2026-11-21-kvm-2-cores}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v chromium >/dev/null && command -v pdftoppm >/dev/null ||
    install_packages chromium poppler-utils fonts-dejavu-core
[ -n "${FIZEAU:-}" ] || cargo build --quiet
"${FIZEAU:-target/debug/fizeau}" report "$record" --out "$work/report.html"

browse() { # options..
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars \
        --user-data-dir="$work/profile" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
}

shoot() { # page, picture, width, height, options..
    browse --screenshot="$2" --window-size="$3,$4" "${@:5}" "file://$1"
}

if [ $# -lt 2 ]; then
    shoot "$work/report.html" "$work/report.png" 1120 1700 --force-device-scale-factor=1
    size=$(stat -c %s "$work/report.png")
    ((size < 300000)) || { echo "the picture has $size bytes: at most 300000" >&2; exit 1; }
    mv "$work/report.png" docs/report.png
    echo "docs/report.png: $size bytes"
    exit
fi
mkdir -p "$2"
out=$(realpath "$2")
shoot "$work/report.html" "$out/desk.png" 1280 6000
shoot "$work/report.html" "$out/dark.png" 1280 6000 --force-dark-mode \
    --blink-settings=preferredColorScheme=0
# A window is never as narrow as a phone: a frame is.
echo "<body style='margin:0'><iframe src='report.html' style='border:0;width:390px;height:6000px'>" \
    >"$work/phone.html"
shoot "$work/phone.html" "$out/phone.png" 390 6000
browse --no-pdf-header-footer --print-to-pdf="$out/printed.pdf" "file://$work/report.html"
pdftoppm -r 60 -png -l 6 "$out/printed.pdf" "$out/printed"
ls "$out"
