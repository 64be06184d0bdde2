#!/usr/bin/env bash
# How long `fizeau fleet survey` takes for stores of large planted fleets, and how much memory: 20 metrics,
# 5 repeats of each; how fast bundles are taken in; what a page of 10^5 GPUs weighs; and a node that
# reports 10^6 GPUs. Prints docs/appendix/fleet-speed.md, and fails where a limit is not held. Each size is surveyed
# three times after the store was written; the table has the median time and the largest memory. Needs GNU
# time, Chromium, and 1 KiB of disk for each metric of each GPU. The bundles are of stub GPUs, made by the program and
# the stub driver in target/debug.
#
#     scripts/fleet_speed.sh > docs/appendix/fleet-speed.md      # 100,000 and 200,000 GPUs, 1,000 bundles
#     FLEET_SPEED_BUNDLES=200 scripts/fleet_speed.sh 10000
set -euo pipefail
cd "$(dirname "$0")/.."

fizeau=${FIZEAU:-target/release/fizeau}
[ -x "$fizeau" ] || cargo build --release --locked
source scripts/common.sh
command -v chromium >/dev/null && [ -x /usr/bin/time ] || install_packages chromium time
[ -e target/debug/libfizeau_stub_driver.so ] || FIZEAU_KERNELS=off build_program
work=$(mktemp -d "${FLEET_SPEED_DIR:-${TMPDIR:-/tmp}}/fleet-speed-XXXXXX")
trap 'rm -rf "$work"' EXIT
sizes=("$@")
((${#sizes[@]})) || sizes=(100000 200000)
bundles=${FLEET_SPEED_BUNDLES:-1000}
faults=0
limit() { # WORDS VALUE OPERATOR LIMIT
    if awk -v a="$2" -v b="$4" "BEGIN { exit !(a $3 b) }"; then
        echo "- $1: $2, to be $3 $4: held."
    else
        echo "- $1: $2, to be $3 $4: **not held**."
        faults=1
    fi
}
timed() { # FILE COMMAND..: seconds, KiB, CPU seconds into FILE; exit codes 0, 1 and 4 are verdicts
    local file=$1 code=0
    shift
    /usr/bin/time -f '%e %M %U %S' -a -o "$file" "$@" >"$work/said" 2>"$work/errors" || code=$?
    case $code in
        0 | 1 | 4) ;;
        *) cat "$work/errors" >&2; echo "fault: $* ended with exit code $code" >&2; exit 1 ;;
    esac
    # GNU time adds a line about exit codes that are not 0.
    sed -i '/^Command/d' "$file"
}

cpu=$(sed -n '0,/^model name/s/^model name\s*: //p' /proc/cpuinfo)
version=$("$fizeau" --version | sed -n 1p)
echo "# How fast \`fizeau fleet\` is"
echo
echo "Measured by \`scripts/fleet_speed.sh\` on $(nproc) cores ($cpu, a virtual machine that others may" \
    "use too), $version," \
    "$(date -u +%Y-%m-%d). Fleets are planted and bundles are of stub GPUs: the figures are about this" \
    "program, and not about any GPU."
echo
echo "## Stores"
echo
echo "| GPUs | rows | store | written in | surveyed in (median of 3) | CPU time (median) | memory at most |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
: >"$work/sizes"
for gpus in "${sizes[@]}"; do
    began=$(date +%s.%N)
    "$fizeau" fleet simulate examples/fleet/speed.toml --gpus "$gpus" --out "$work/fleet" >&2
    written=$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.0f", b - a }')
    rows=$(cat "$work"/fleet/store/*/*.jsonl | wc -l)
    size=$(du -sm --apparent-size "$work/fleet/store" | cut -f1)
    survey=("$fizeau" fleet survey "$work/fleet/store" --labels "$work/fleet/labels.csv"
        --expected "$work/fleet/expected.csv")
    : >"$work/times"
    for _ in 1 2 3; do timed "$work/times" "${survey[@]}"; done
    seconds=$(sort -n "$work/times" | awk 'NR == 2 { print $1 }')
    cpu=$(awk '{ print $3 + $4 }' "$work/times" | sort -n | sed -n 2p)
    memory=$(awk '$2 > most { most = $2 } END { printf "%.2f", most / 1048576 }' "$work/times")
    echo "| $gpus | $rows | $size MiB | $written s | $seconds s | $cpu s | $memory GiB |"
    echo "$gpus $seconds $memory $cpu" >>"$work/sizes"
    if [ "$gpus" = "${sizes[0]}" ]; then
        timed "$work/page-time" "${survey[@]}" --html "$work/page.html"
    fi
    rm -rf "$work/fleet"
done
echo
read -r _ first memory _ <"$work/sizes"
limit "Seconds for ${sizes[0]} GPUs" "$first" "<" 30
limit "GiB for ${sizes[0]} GPUs" "$memory" "<" 2
if ((${#sizes[@]} > 1 && sizes[1] == 2 * sizes[0])); then
    # By CPU time, which others on the machine change less.
    limit "Times the CPU time for twice the fleet" \
        "$(awk 'NR == 1 { a = $4 } NR == 2 { printf "%.2f", $4 / a }' "$work/sizes")" "<=" 2.3
fi
echo
echo "## The page of ${sizes[0]} GPUs"
echo
limit "MB" "$(stat -c %s "$work/page.html" | awk '{ printf "%.1f", $1 / 1e6 }')" "<" 10
# Start of the browser included: an empty page is timed beside it.
chromium() { # PAGE: seconds of five loads, sorted
    local began
    for _ in 1 2 3 4 5; do
        began=$EPOCHREALTIME
        command chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/chromium" \
            --window-size=1400,2000 --screenshot="$work/page.png" "$1" >"$work/said" 2>&1
        awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", b - a }'
        rm -rf "$work/chromium"
    done | sort -n
}
limit "Seconds in which Chromium starts, loads and paints it (median of five)" \
    "$(chromium "file://$work/page.html" | sed -n 3p)" "<" 3
echo "- The same of an empty page: $(chromium about:blank | sed -n 3p)."
limit "Elements" "$(grep -o '<[a-z]' "$work/page.html" | wc -l)" "<=" 20000
echo
echo "## Bundles"
echo
read -r records bytes < <(python3 scripts/fleet_bundles.py target/debug "$work/bundles" "$bundles" | tail -n 1)
timed "$work/survey" "$fizeau" fleet survey "$work/bundles"
timed "$work/collect" "$fizeau" fleet collect "$work/bundles" --store "$work/store"
timed "$work/records" "$fizeau" fleet survey "$work/bundles" --from-records
echo "$bundles bundles of eight GPUs each, of $records records and $((bytes / 1024)) KiB."
echo
rate() { awk -v n="$bundles" '{ printf "%.0f", n / $1 }' "$1"; }
limit "Bundles surveyed in a second" "$(rate "$work/survey")" ">=" 200
limit "Bundles collected in a second" "$(rate "$work/collect")" ">=" 200
echo "- Bundles surveyed in a second by their records (\`--from-records\`): $(rate "$work/records")."
echo
echo "## A node that reports 10^6 GPUs"
echo
awk 'BEGIN { for (at = 0; at < 1000000; at++)
    printf "{\"format\":1,\"session\":\"s\",\"time\":\"2026-11-20T10:00:00Z\",\"node\":\"flood\"," \
        "\"device\":\"cuda:%d\",\"metric\":\"m\",\"unit\":\"1\",\"least_effect\":0.02,\"values\":[1]}\n", at
}' >"$work/flood.jsonl"
timed "$work/flood" "$fizeau" fleet survey "$work/flood.jsonl"
read -r seconds memory _ <"$work/flood"
echo "Surveyed in $seconds s with $((memory / 1024)) MiB; what it says of it:"
echo
grep -o 'flood reports .*' "$work/said" | sed 's/^/    /' || faults=1
exit "$faults"
