# shellcheck shell=bash disable=SC2154
# Sourced, after scripts/common.sh, by scripts that need a Slurm: brings up a real one of several
# virtual nodes on this machine, each with its own network, host name, processes and /tmp. Needs root,
# and Debian or Ubuntu; the first time the network, for Slurm's packages. Nothing of it stays up.

# Whether this machine can have one; where it cannot, the check is skipped or fails.
cluster_can() {
    if [[ $PWD == /tmp/* ]]; then
        echo "the virtual nodes have a /tmp of their own, and do not see $PWD: clone it elsewhere" >&2
        exit 2
    fi
    if ((EUID != 0)); then
        skipped "virtual nodes need root"
        return 1
    fi
    if ! ip link add fizeau-try type bridge 2>/dev/null; then
        skipped "this machine cannot make network bridges (a container without rights?)"
        return 1
    fi
    ip link del fizeau-try
    if ! command -v slurmctld slurmd srun munged >/dev/null; then
        install_packages munge slurmctld slurmd slurm-client iproute2 || {
            skipped "Slurm is missing, and its packages cannot be installed"
            return 1
        }
    fi
}

# Not below /tmp: each node has its own.
place=$cache/slurm.$$
bridge=fizeau0 net=10.78.0
slurmd_pids=()

cluster_ends() {
    set +e
    # The first process of a node's own process namespace: all others end with it.
    ((${#slurmd_pids[@]} == 0)) || kill -KILL "${slurmd_pids[@]}"
    for name in slurmctld munge/munged; do
        [ -s "$place/$name.pid" ] && kill "$(cat "$place/$name.pid")"
    done
    sleep 1
    for node in $(seq "$nodes"); do ip netns del "fizeau-n$node"; done
    ip link del $bridge
    rm -rf "$place"
} 2>/dev/null

# The settings that virtual nodes share; standard input has more lines of slurm.conf. A requeued job
# starts anew when its old credential has expired, which takes two minutes if nobody says less.
cluster_settings() { # NODES
    cat <<CONF
ClusterName=fizeau
SlurmctldHost=$(hostname -s)($net.254)
SlurmctldPort=16827
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge/munge.sock,cred_expire=5
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
$(for node in $(seq "$1"); do
        echo "NodeName=n$node NodeAddr=$net.$node Port=16828 CPUs=2 RealMemory=500 State=UNKNOWN"
    done)
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
    cat
}

cluster_node() { # NUMBER: starts its slurmd
    local node=$1
    ip netns add "fizeau-n$node"
    ip link add "fizeau-e$node" type veth peer name eth0 netns "fizeau-n$node"
    ip link set "fizeau-e$node" master $bridge up
    ip -n "fizeau-n$node" addr add "$net.$node/24" dev eth0
    ip -n "fizeau-n$node" link set eth0 up
    ip -n "fizeau-n$node" link set lo up
    mkdir -p "$place/spool.n$node"
    ip netns exec "fizeau-n$node" unshare --mount --uts --pid --fork --kill-child --mount-proc \
        bash -c "hostname n$node
            mount --make-rprivate /
            mount -t tmpfs none /tmp
            mount --bind '$place/hosts' /etc/hosts
            exec slurmd -D -N n$node" </dev/null >"$place/slurmd.n$node.said" 2>&1 &
    slurmd_pids+=($!)
}

# How many nodes are in a state, of those that answer.
cluster_count() { # STATE
    sinfo -h -N -o '%T' 2>/dev/null | grep -cx "$1"
}

cluster_up() { # NODES [more lines of slurm.conf on standard input]
    nodes=$1
    trap cluster_ends EXIT
    mkdir -p "$place"/{state,munge,lib}
    chmod 711 "$place/munge"
    head -c 128 /dev/urandom >"$place/munge.key"
    chmod 600 "$place/munge.key"
    ip link add $bridge type bridge
    ip addr add $net.254/24 dev $bridge
    ip link set $bridge up
    cp /etc/hosts "$place/hosts"
    for node in $(seq "$nodes"); do echo "$net.$node n$node" >>"$place/hosts"; done
    export SLURM_CONF=$place/slurm.conf
    cluster_settings "$nodes" >"$SLURM_CONF"
    echo "CgroupPlugin=cgroup/v1" >"$place/cgroup.conf"
    munged --key-file="$place/munge.key" --socket="$place/munge/munge.sock" \
        --pid-file="$place/munge/munged.pid" --seed-file="$place/munge/seed" \
        --log-file="$place/munge/munged.log" --force --num-threads=2
    slurmctld
    for node in $(seq "$nodes"); do cluster_node "$node"; done
    for _ in $(seq 120); do
        [ "$(cluster_count idle)" != "$nodes" ] || break
        sleep 0.5
    done
    if [ "$(cluster_count idle)" != "$nodes" ]; then
        tail -n 20 "$place"/*.log "$place"/*.said >&2
        echo "Slurm did not come up" >&2
        exit 1
    fi
}
