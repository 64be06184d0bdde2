#!/usr/bin/env bash
# Runs every collective under a real Slurm of virtual nodes (scripts/slurm_cluster.sh): by MPI among
# hosts, and by the stub NCCL among GPUs that are not there; then scripts/slurm.sbatch, and `fizeau
# localise` by MPI. The first time it needs the network, for MPICH's wheel.
# Usage: scripts/check_slurm.sh [NODES]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
source scripts/slurm_cluster.sh

cluster_can || exit 0
mpi=$(environment mpich-5.0.2 --no-deps mpich==5.0.2)
build_program
cluster_up "${1:-3}" </dev/null
sinfo -N -h

cat >"$place/ranks.toml" <<'SUITE'
name = "ranks"
description = "Every collective at odd counts"
measure = { samples_min = 3, samples_max = 5, noise_max = 0.0, time_min = 0.0, time_max = 0.05, warmup_max = 0.01, sample_min = 0.00001, deadline = 60.0 }

[collective]
collectives = [
    "all_reduce", "all_to_all", "all_gather", "reduce_scatter", "broadcast", "send_receive",
    "reduce", "gather", "scatter", "all_to_allv",
]
dtypes = ["f32"]
granule = 1
from = "188"
to = "64KiB"
factor = 21
places = ["out_of_place", "in_place", "unaligned"]
SUITE
right() { # OUT KERNEL: every planned case was right on as many hosts as there are nodes
    python3 - "$place/$1/record.jsonl" "$2" "$nodes" <<'READ'
import json, sys
path, kernel, nodes = sys.argv[1], sys.argv[2], int(sys.argv[3])
lines = [json.loads(line) for line in open(path)]
plan, ranks = lines[0]["plan"], lines[0]["environment"]["ranks"]
outcomes = [line for line in lines if line["line"] == "outcome"]
right = 0
for outcome in outcomes:
    if outcome["outcome"] == "skipped":
        # MPI has no reduce_scatter whose result lies in the rank's own part.
        assert kernel == "mpi" and "own part" in outcome["reason"], outcome
        continue
    # Whether its time can be believed is another matter: cores are shared.
    seen = outcome.get("measurement", outcome)
    assert outcome["outcome"] in ("measured", "invalid"), outcome
    assert seen["case"]["kernel"] == kernel and seen["case"]["point"]["ranks"] == nodes
    assert seen["check"]["wrong"] == 0 and seen["check"]["compared"] > 0, outcome
    right += 1
assert len(outcomes) == len(plan) and right > 20, (len(outcomes), len(plan))
assert len({line.split(",")[0].split(": ")[1] for line in ranks}) == nodes, ranks
print(f"{kernel}: {right} of {len(plan)} collectives right on {nodes} nodes")
READ
}
program=$PWD/target/debug/fizeau scripts=$PWD/scripts
cd "$place"
ran() { # OUT ARGUMENTS: exit code 1 tells of times that cannot be believed, which `right` allows
    local out=$1 status=0
    shift
    timeout 240 srun -N "$nodes" -n "$nodes" --kill-on-bad-exit=1 "$@" "$program" run collective \
        --suite ranks.toml --out "$out" >"$out.txt" 2>&1 || status=$?
    if ((status > 1)); then
        cat "$out.txt" >&2
        return 1
    fi
}
export FIZEAU_MPI=$mpi/lib/libmpi_abi.so.1
ran mpi --mpi=pmi2
right mpi mpi

# Which of the nodes is slow, if any is: on one machine's cores any may be (1), or none can be told
# (4), so that only a fault counts.
status=0
timeout 120 srun -N "$nodes" -n "$nodes" --mpi=pmi2 "$program" localise --device host --size 64KiB \
    >localise.txt 2>&1 || status=$?
((status <= 1 || status == 4)) || { cat localise.txt >&2; exit 1; }
# The plan and where the rates are stand on lines of their own, after the program's name.
echo "localised by MPI: $(grep -v -m 1 "^fizeau: " localise.txt)"

# Wrong pairs are no result: N singletons are told from a world of N.
status=0
srun -N 2 -n 2 --mpi=none "$program" run collective --suite ranks.toml --out alone \
    >alone.txt 2>&1 || status=$?
grep -q "but MPI sees rank 0 of 1" alone.txt || { cat alone.txt >&2; exit 1; }
test "$status" = 3
echo "without a process manager: an error, and no result"

# GPUs that are not there, of which the ranks find each other through a folder that all share.
for library in libcuda.so.1 libnvidia-ml.so.1 libnvrtc.so.13; do
    ln -s "$(dirname "$program")/libfizeau_stub_driver.so" "lib/$library"
done
ln -s "$(dirname "$program")/libfizeau_stub_nccl.so" lib/libnccl.so.2
export FIZEAU_LIBRARY_PATH=$place/lib FIZEAU_RENDEZVOUS=file:$place
FIZEAU_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export FIZEAU_TOKEN
ran nccl --mpi=none
right nccl nccl

# The batch script that users start from, with nodes of one GPU each instead of eight.
export SUITE=$place/ranks.toml PATH=$(dirname "$program"):$PATH
unset FIZEAU_TOKEN FIZEAU_RENDEZVOUS
# What `localise` has left.
rm -rf results
timeout 240 sbatch --quiet --wait --nodes="$nodes" --ntasks-per-node=1 --gpus-per-node=0 \
    --cpus-per-task=1 --chdir="$place" --output=batch.txt "$scripts/slurm.sbatch" ||
    { cat batch.txt >&2; exit 1; }
mv results/local/* batch
right batch nccl
