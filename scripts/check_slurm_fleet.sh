#!/usr/bin/env bash
# The commands of docs/fresh-fleet.md under a real Slurm of four virtual nodes with two stub GPUs each, of
# which one is planted as slow: an array of `fizeau accept`, the survey, the plan of a retest, the retest,
# the verdict, and boards.csv. Two GPUs cannot judge each other, so that no node finds it by itself. Says
# line by line what happened, and fails where the slow GPU is not named, or another one is. No number of it
# is of a GPU. What a virtual node is: scripts/slurm_cluster.sh.
# Usage: scripts/check_slurm_fleet.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
source scripts/slurm_cluster.sh

cluster_can || exit 0
command -v jq >/dev/null || install_packages jq
build_program
program=$PWD/target/debug/fizeau
cluster_up 4 <<CONF
SchedulerParameters=bf_interval=2,sched_interval=2
MinJobAge=600
CONF
mkdir -p "$place"/{opt,root,shared,kernels}
say() { echo "$*"; }
fault() { # WHAT
    echo "fault: $1" >&2
    # Some of the logs may not be there yet; the fault is what counts.
    tail -n 20 "$place"/shared/*.out "$place"/*.log >&2 || true
    exit 1
}
say "$(slurmctld -V) with 4 virtual nodes; their GPUs are stubs"

# Nodes and what is planted: cuda:1 of n3 loses 8 % of its memory's bandwidth.
stub_node "$place" 2
cat >"$place/opt/fizeau" <<PROGRAM
#!/bin/bash
export FIZEAU_LIBRARY_PATH=$place/lib FIZEAU_STUB_CACHE=$place/kernels
FIZEAU_STUB=devices=2,noise=0.002,seed=\$((\$(date +%N | sed 's/^0*//') % 100000))
[ \$(uname -n) != n3 ] || FIZEAU_STUB+=,gpu1.hbm=0.92
export FIZEAU_STUB
cd $place || exit 3
exec "$program" "\$@"
PROGRAM
chmod +x "$place/opt/fizeau"
export FIZEAU=$place/opt/fizeau
printf 'node,gpus\nn1,2\nn2,2\nn3,2\nn4,2\n' >"$place/shared/nodes.csv"
printf 'node,rack\nn1,r1\nn2,r1\nn3,r2\nn4,r2\n' >"$place/shared/labels.csv"
fizeau() { # on this machine, which has no GPU
    local code=0
    "$program" "$@" || code=$?
    # Verdicts are no faults.
    case $code in 0 | 1 | 4) ;; *) fault "fizeau $* ended with exit code $code" ;; esac
}
submit() { # OPTIONS AND COMMAND of sbatch: waits for the job's end
    local job
    job=$(sbatch --parsable --chdir="$place/shared" --output="$place/shared/%A-%a.out" "$@")
    for _ in $(seq 1200); do
        [ -n "$(squeue -h -j "$job" -o %T 2>/dev/null)" ] || return 0
        sleep 0.5
    done
    fault "job $job does not end: $(squeue)"
}
ask() { # FILTER: of the survey's JSON
    jq -r "$1" "$place/shared/fleet.json"
}

# 1 to 3: an array of accept, one task on each node.
export FIZEAU_OUT=$place/shared/full
submit --array=1-4 --export=ALL scripts/slurm/array.sbatch --profile "$place/node.toml" --root "$place/root" \
    --device cuda:0 --device cuda:1 --budget 60s
for node in n1 n2 n3 n4; do
    [ -s "$FIZEAU_OUT/$node/rows.jsonl" ] || fault "$node has no rows: $(cat "$FIZEAU_OUT/$node/verdict.txt")"
    say "array: $node: $(head -n 1 "$FIZEAU_OUT/$node/verdict.txt")"
done

# 4: collect and survey.
cd "$place/shared"
fizeau fleet collect full --store store
survey=(fleet survey store --expected nodes.csv --labels labels.csv --html fleet.html)
fizeau "${survey[@]}" | sed 's/^/survey: /'
fizeau "${survey[@]}" --json >fleet.json
failed=$(ask '[.flagged[] | select(.verdict == "fail") | "\(.node) \(.device) \(.confirmed)"] | join(", ")')
[ "$failed" = "n3 cuda:1 false" ] || fault "what fails is '$failed' and should be 'n3 cuda:1 false'"

# 5: measure it again in turn with one that passed, by a job on both nodes.
fizeau fleet retest store --labels labels.csv --out retest | sed 's/^/retest: /'
submit --export=ALL retest/session-1.sbatch
records=$(find retest/results -name record.jsonl | wc -l)
[ "$records" = 14 ] || fault "$records records of the retest, and 14 should be there"
say "retest: $records records by a job on $(jq -r '.pairs[0] | "\(.failed.node) and \(.partner.node)"' retest/plan.json)"

# 6: the verdict, and the list of boards.
fizeau "${survey[@]}" --retest retest | sed 's/^/verdict: /'
fizeau "${survey[@]}" --retest retest --json >fleet.json
jq -r '.flagged[] | select(.confirmed) | [.node, .device, .uuid, .serial, .metric, .loss] | @csv' fleet.json >boards.csv
say "boards.csv: $(cat boards.csv)"
[[ $(cat boards.csv) == '"n3","cuda:1",'*'"memory copy",0.0'[6-9]* ]] || fault "boards.csv is wrong"
[ -s fleet.html ] || fault "there is no page"
say "fleet: array, survey, retest and verdict do as docs/fresh-fleet.md says"
