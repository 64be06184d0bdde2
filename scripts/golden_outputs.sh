#!/usr/bin/env bash
# Prints the SHA-256 of what a build of the program makes of every committed record, a line for each
# command: reports in every format, comparisons, projections, claims, profiles, fleets. Two builds
# that should say the same, such as those before and after a clean-up, print the same lines:
#
#   scripts/golden_outputs.sh target/debug/fizeau >before
set -euo pipefail
cd "$(dirname "$0")/.."
fizeau=$(realpath "${1:?the program}")
export FIZEAU_PROGRESS=off LC_ALL=C
# No GPU of this machine is asked.
FIZEAU_LIBRARY_PATH=$(mktemp -d)
export FIZEAU_LIBRARY_PATH
trap 'rm -rf "$FIZEAU_LIBRARY_PATH"' EXIT
sum_of() { # the program's arguments
    local sum
    sum=$({ "$fizeau" "$@" 2>&1 </dev/null || echo "exit code $?"; } | sha256sum)
    echo "${sum%% *} $*"
}
mapfile -t records < <(find results tests/golden -name record.jsonl -o -name v1.jsonl | sort)
formats=(terminal markdown csv json html nccl-tests nvbandwidth superbench)
for record in "${records[@]}"; do
    for format in "${formats[@]}"; do sum_of report "$record" --format "$format"; done
    for more in --summary '--summary --json' '--format nccl-tests --json' \
        '--format nvbandwidth --json' '--vs h100-sxm' "--vs ${records[0]}"; do
        # shellcheck disable=SC2086 # words
        sum_of report "$record" $more
    done
    sum_of discover --from "$record"
    sum_of discover --from "$record" --format json
    for format in terminal csv json html; do
        sum_of project llama-3.1-8b --on "$record" --format "$format"
    done
done
for a in "${records[@]}"; do
    for b in "${records[@]}"; do sum_of compare "$a" --vs "$b" --across --format json; done
    sum_of compare "${records[0]}" --vs "$a" --across
done
for format in terminal html; do
    sum_of compare "${records[2]}" --vs "${records[3]}" --across --format "$format"
done
for part in h100-sxm h200-sxm mi300x b200-sxm; do
    for model in llama-3.1-8b llama-3.3-70b deepseek-v3; do
        for format in terminal json html; do
            sum_of project "$model" --on "$part" --layout tp8 --format "$format"
        done
    done
done
for claims in data/claims/*.toml; do
    for format in terminal json; do sum_of claim --from "$claims" --format "$format"; done
done
sum_of profile learn --across "${records[@]}"
sum_of fleet survey "${records[@]}"
for command in suites 'devices --parts' 'reproduce --list'; do
    # shellcheck disable=SC2086 # words
    sum_of $command
done
