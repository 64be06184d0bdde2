#!/usr/bin/env bash
# Brings up a real Slurm of several virtual nodes on this machine, each with its own network, host
# name and /tmp, and runs every collective between them under `srun`: by MPI among hosts, and by the
# stub NCCL among GPUs that are not there; then scripts/slurm.sbatch, and `fizeau localise` by MPI.
# Needs root, and Debian or Ubuntu; the first time the network, for Slurm's packages and MPICH's
# wheel. Nothing of it stays up.
# Usage: scripts/check_slurm.sh [NODES]
set -euo pipefail
cd "$(dirname "$0")/.."
nodes=${1:-3}
source scripts/common.sh

if [[ $PWD == /tmp/* ]]; then
    echo "the virtual nodes have a /tmp of their own, and would not see $PWD: clone it elsewhere" >&2
    exit 2
fi
if ((EUID != 0)); then
    skipped "virtual nodes need root"
    exit 0
fi
if ! ip link add fizeau-try type bridge 2>/dev/null; then
    skipped "this machine cannot make network bridges (a container without rights?)"
    exit 0
fi
ip link del fizeau-try
if ! command -v slurmctld slurmd srun munged >/dev/null; then
    install_packages munge slurmctld slurmd slurm-client iproute2
fi
mpi=$(environment mpich-5.0.2 --no-deps mpich==5.0.2)
build_program

# Not below /tmp: each node has its own.
place=$cache/slurm.$$
bridge=fizeau0 net=10.78.0
mkdir -p "$place"/{state,munge,lib}
chmod 711 "$place/munge"
ends() {
    set +e
    for name in slurmctld $(seq -f 'slurmd.n%g' "$nodes") munge/munged; do
        [ -s "$place/$name.pid" ] && kill "$(cat "$place/$name.pid")"
    done
    sleep 1
    for node in $(seq "$nodes"); do ip netns del "fizeau-n$node"; done
    ip link del $bridge
    rm -rf "$place"
} 2>/dev/null
trap ends EXIT

head -c 128 /dev/urandom >"$place/munge.key"
chmod 600 "$place/munge.key"
ip link add $bridge type bridge
ip addr add $net.254/24 dev $bridge
ip link set $bridge up
cp /etc/hosts "$place/hosts"
for node in $(seq "$nodes"); do echo "$net.$node n$node" >>"$place/hosts"; done
export SLURM_CONF=$place/slurm.conf
cat >"$SLURM_CONF" <<CONF
ClusterName=fizeau
SlurmctldHost=$(hostname -s)($net.254)
SlurmctldPort=16827
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool.%n
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.%n.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd.%n.log
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
$(for node in $(seq "$nodes"); do
    echo "NodeName=n$node NodeAddr=$net.$node Port=16828 CPUs=2 RealMemory=500 State=UNKNOWN"
done)
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
echo "CgroupPlugin=cgroup/v1" >"$place/cgroup.conf"
munged --key-file="$place/munge.key" --socket="$place/munge/munge.sock" \
    --pid-file="$place/munge/munged.pid" --seed-file="$place/munge/seed" \
    --log-file="$place/munge/munged.log" --force --num-threads=2
slurmctld
for node in $(seq "$nodes"); do
    ip netns add "fizeau-n$node"
    ip link add "fizeau-e$node" type veth peer name eth0 netns "fizeau-n$node"
    ip link set "fizeau-e$node" master $bridge up
    ip -n "fizeau-n$node" addr add "$net.$node/24" dev eth0
    ip -n "fizeau-n$node" link set eth0 up
    ip -n "fizeau-n$node" link set lo up
    mkdir -p "$place/spool.n$node"
    ip netns exec "fizeau-n$node" unshare -m -u bash -c "hostname n$node
        mount --make-rprivate /
        mount -t tmpfs none /tmp
        mount --bind '$place/hosts' /etc/hosts
        exec slurmd -N n$node"
done
up() { [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = "$nodes" ]; }
for _ in $(seq 120); do up && break || sleep 0.5; done
if ! up; then
    tail -n 20 "$place"/*.log >&2
    echo "Slurm did not come up" >&2
    exit 1
fi
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
timeout 240 sbatch --quiet --wait --nodes="$nodes" --ntasks-per-node=1 --gpus-per-node=0 \
    --cpus-per-task=1 --chdir="$place" --output=batch.txt "$scripts/slurm.sbatch" ||
    { cat batch.txt >&2; exit 1; }
mv results/local/* batch
right batch nccl
