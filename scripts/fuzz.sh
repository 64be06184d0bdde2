#!/usr/bin/env bash
# Feeds every reader with COUNT strange inputs (records: ten times as many), each in an address
# space of 1 GiB and 5 seconds at most: examples/fuzz. Prints crashes, inputs over 1 GiB and over
# 5 s of each kind; fails where there is one, or where planted ones are not found.
#
#     scripts/fuzz.sh COUNT [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:?how many inputs of each kind} seed=${2:-1849}

cargo build --locked --quiet --profile fuzz --example fuzz
fuzz=target/fuzz/examples/fuzz

# What counts the faults must find those that are planted: one of each.
planted=$("$fuzz" planted 40 2>/dev/null) && planted+=" (exit code 0)"
case $planted in
*"1 crashes, 1 over 1 GiB, 1 over 5 s"*"(exit code 0)") echo "fault: faults are no failure" && exit 1 ;;
*"1 crashes, 1 over 1 GiB, 1 over 5 s"*) ;;
*) echo "fault: planted faults are not found: $planted" && exit 1 ;;
esac

status=0
for kind in $("$fuzz" kinds); do
    inputs=$count
    [ "$kind" = record ] && inputs=$((10 * count))
    "$fuzz" "$kind" "$inputs" "$seed" || status=1
done
"$fuzz" long || status=1
exit $status
