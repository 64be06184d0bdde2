#!/usr/bin/env bash
# How long `fizeau fleet survey` takes for stores of large planted fleets, and how much memory: 20 metrics,
# 5 repeats of each. Prints a table of Markdown. Each size is surveyed three times after the store was
# written; the table has the median time and the largest memory. Needs GNU time, and 1 KiB of disk for
# each metric of each GPU.
#
#     scripts/fleet_speed.sh                     # 100,000 and 200,000 GPUs
#     scripts/fleet_speed.sh 10000               # other sizes
set -euo pipefail
cd "$(dirname "$0")/.."

fizeau=${FIZEAU:-target/release/fizeau}
[ -x "$fizeau" ] || cargo build --release --locked
work=$(mktemp -d "${FLEET_SPEED_DIR:-${TMPDIR:-/tmp}}/fleet-speed-XXXXXX")
trap 'rm -rf "$work"' EXIT
sizes=("$@")
((${#sizes[@]})) || sizes=(100000 200000)

echo "$(nproc) cores, $("$fizeau" --version), $(date -u +%Y-%m-%d)."
echo
echo "| GPUs | rows | store | written in | surveyed in (median of 3) | memory at most |"
echo "| --- | --- | --- | --- | --- | --- |"
for gpus in "${sizes[@]}"; do
    began=$(date +%s.%N)
    "$fizeau" fleet simulate examples/fleet/speed.toml --gpus "$gpus" --write-fleet "$work/fleet" >&2
    written=$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.0f", b - a }')
    rows=$(cat "$work"/fleet/store/*/*.jsonl | wc -l)
    size=$(du -sm --apparent-size "$work/fleet/store" | cut -f1)
    : >"$work/times"
    for _ in 1 2 3; do
        code=0
        /usr/bin/time -f '%e %M' -a -o "$work/times" "$fizeau" fleet survey "$work/fleet/store" \
            --labels "$work/fleet/labels.csv" --expected "$work/fleet/expected.csv" >"$work/said" || code=$?
        ((code == 1)) || { echo "fault: the survey ended with exit code $code" >&2; exit 1; }
    done
    # GNU time adds a line about the exit code, which is 1 since GPUs fail.
    seconds=$(grep -v Command "$work/times" | sort -n | awk 'NR == 2 { print $1 }')
    memory=$(grep -v Command "$work/times" | awk '$2 > most { most = $2 } END { printf "%.2f", most / 1048576 }')
    echo "| $gpus | $rows | $size MiB | $written s | $seconds s | $memory GiB |"
    rm -rf "$work/fleet"
done
