#!/usr/bin/env bash
# scripts/gpu.sh on a machine that has nothing but a driver, a PyTorch and what was carried to it.
#
#   PROGRAM=fizeau.tar.xz WHEELS=wheels OUT=DIR scripts/carried.sh tune --limit 420
#
# PROGRAM: an archive with the program, which is unpacked; WHEELS: a folder of wheels of peers, which are installed
# into a folder of their own. NVRTC and cuBLASLt are looked for below /usr, /opt and the home. Every five seconds the
# table and the samples are copied to OUT, so that they are there if the machine goes away; at the end OUT has
# rest.tar.xz as well, with all records. Options and exit codes are those of scripts/gpu.sh.
set -uo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
if [ -n "${PROGRAM:-}" ]; then
    tar -xJf "$PROGRAM" -C "$work" || exit 2
    export FIZEAU=$work/fizeau
fi
libraries=$(find /usr /opt "$HOME" \( -name 'libnvrtc.so.1[23]' -o -name 'libcublasLt.so.1[23]' \) \
    -printf '%h\n' 2>/dev/null | sort -u | paste -sd:)
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ -n "${WHEELS:-}" ]; then
    "${PYTHON:-python3}" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir \
        --target "$work/peers" "$WHEELS"/*.whl || exit 2
    export PYTHONPATH=$work/peers${PYTHONPATH:+:$PYTHONPATH}
fi
part=${1:-}
# Without an argument scripts/gpu.sh says how it is used.
shift || true
out=${OUT:-$work/kept}
mkdir -p "$work/out" "$out"
copy() {
    find "$work/out" -maxdepth 1 \( -name '*.md' -o -name '*.xz' -o -name '*.gz' -o -name said.txt \) \
        -exec cp {} "$out" \;
}
(while sleep 5; do copy; done) &
copier=$!
scripts/gpu.sh "$part" --out "$work/out" "$@"
code=$?
kill "$copier"
copy
tar -cJf "$out/rest.tar.xz" --exclude=variants -C "$work/out" .
rm -rf "$work"
exit "$code"
