#!/usr/bin/env bash
# Whether silent corruption is found: one flipped bit in one of 1,000 products for each of 1,000 seeds,
# a million small products, and the stated rate, on the host's kernels and on a stub driver that runs
# those for GPUs; then bits that the stub driver itself flips in a run. Prints docs/appendix/corruption-rates.md.
# A test build alone flips bits on the host. About ten minutes of CPU.
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-1000} each=${2:-1000} products=${3:-1000000} runs=${4:-2000}
cargo build --locked --quiet --workspace --examples --bins >&2
target=${CARGO_TARGET_DIR:-target}/debug
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in libcuda.so.1 libnvidia-ml.so.1 libnvrtc.so.13; do
    ln -s "$(realpath "$target/libfizeau_stub_driver.so")" "$folder/$name"
done
stub() { # SCRIPT COMMAND..
    FIZEAU_LIBRARY_PATH=$folder FIZEAU_STUB=$1 FIZEAU_STUB_CACHE=$folder \
        XDG_CACHE_HOME=$folder/cache "${@:2}"
}

cat <<'TEXT'
# Silent corruption: what is found

Printed by `scripts/check_corruption.sh`, which `scripts/check_long.sh` calls; `cargo test --test library
corruption` does the same with few seeds. A test build flips one bit in one of 1,000 products, at a site
and place that follow from a seed, and the case `sdc/product` has to find it. A flip that rounding
swallowed changed no bit of the product: it is drawn anew and counted. Sums are flipped between two
stretches along k in the host's own kernels. A payload is a bit of a NaN that stays one. Kernels,
element types and places change with the seed.

TEXT
"$target/examples/corruption_rates" host "$seeds" "$each" "$products" "$runs"
stub units=1 "$target/examples/corruption_rates" cuda:0 "$seeds" "$each" $((products / 50)) "$runs"

echo "## A stub driver that flips bits itself"
echo
echo "\`fizeau run\` on a device that flips one bit in one of each 100 products, without any hook in the"
echo "program. Flips that change no bit of a product are left out."
echo
echo "| bit of | products that were changed | found to differ (stub) |"
echo "| --- | ---: | ---: |"
cat >"$folder/suite.toml" <<'TEXT'
name = "flips"
description = "Products on a stub driver"

[measure]
samples_min = 20
samples_max = 20
noise_max = 0.0
time_min = 0.0
time_max = 60.0
warmup_max = 0.0
sample_min = 0.0
deadline = 600.0

[sdc]
dtypes = ["f32"]
shapes = [[24, 32, 40]]
products = 500
TEXT
for site in operand sum output; do
    rm -rf "$folder/out" "$folder/log"
    status=0
    FIZEAU_STUB_LOG=$folder/log stub "units=1,flip=$site/100,seed=11" "$target/fizeau" run \
        sdc/product/f32/24x32x40/500r/portable --suite "$folder/suite.toml" --out "$folder/out" \
        >/dev/null 2>&1 || status=$?
    shown=$(grep -c ': shows$' "$folder/log")
    found=$(grep -o '"mismatches":[0-9]*' "$folder/out/record.jsonl" | cut -d: -f2)
    echo "| $site | $shown | $found |"
    # 1: the case failed, as it must.
    [[ $status == 1 && $shown -gt 0 && $shown == "$found" ]]
done
