#!/usr/bin/env bash
# The queries of docs/fleet.md on a store of a planted fleet, by DuckDB itself: it has to read every row
# and give the medians and the slow devices of `fizeau fleet survey`; a planted fault has to be seen.
# The first time it needs the network.
# Usage: scripts/check_fleet_store.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

database=$(environment fleet-store-1 duckdb==1.4.5)
fizeau=${FIZEAU:-target/debug/fizeau}
[ -x "$fizeau" ] || FIZEAU_KERNELS=off build_program
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$fizeau" fleet simulate examples/fleet/recipe.toml --gpus 800 --set faulty=0.05 \
    --out "$work/planted"
code=0
"$fizeau" fleet survey "$work/planted/store" --json --csv "$work/all.csv" >"$work/survey.json" || code=$?
((code == 1)) || { echo "fault: the survey ended with exit code $code" >&2; exit 1; }
"$database/bin/python3" scripts/check_fleet_store.py "$work"
# One value of one row is changed: the medians are not the survey's any more.
sed -i '0,/"values":\[0\./s//"values":[0.1,0.1,0.1,0.1,0.1,0./' "$work"/planted/store/*/*.jsonl
if "$database/bin/python3" scripts/check_fleet_store.py "$work" >/dev/null 2>&1; then
    echo "fault: a changed row was not seen" >&2
    exit 1
fi
echo "a changed row is seen"
