#!/usr/bin/env bash
# Real trials of `fizeau ab` on this machine, by a test build: 12 cases against themselves (nothing
# may be found), then with one of them planted 10 % slower (it should be found), COUNT times each.
# Prints a line for each trial. Takes about 15 seconds for each on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-20}
cases='stream/{read,triad}/{24,48,96,192,384,768}KiB/1u/*'
planted='stream/triad/96KiB/1u/*'
cargo build --locked --quiet
records=$(mktemp -d)
trap 'rm -rf "$records"' EXIT
trial() { # NAME ARGUMENTS..
    local name=$1 status=0
    shift
    target/debug/fizeau ab "$cases" --out "$records/$name" --format csv "$@" \
        >"$records/$name.csv" 2>/dev/null || status=$?
    # Where grep counts none its exit code is 1, which is no failure here.
    echo "$name: exit code $status; slower: $(grep -c ',slower,' "$records/$name.csv" || true);" \
        "load $(cut -d' ' -f1 /proc/loadavg)"
}
for number in $(seq "$count"); do
    trial "same-$number" --seed "$number" --program target/debug/fizeau
    trial "planted-$number" --seed "$number" --env-b "FIZEAU_PLANT=$planted=0.1"
done
