#!/bin/bash
# Accepts fresh nodes by ssh, where there is neither Slurm nor Kubernetes: `fizeau accept` on each node
# of a list, many at once, with a bundle for each node in a folder that all nodes share. A node that has
# its bundle already is left out, so that it can be started again.
#     scripts/fleet/ssh.sh nodes.txt /shared/fleet --profile h100-sxm
#     fizeau fleet survey /shared/fleet --expected nodes.txt
#
# FIZEAU          the program on the nodes [fizeau]
# FIZEAU_AT_ONCE  nodes at once [64]
# FIZEAU_SSH      what starts a command on a node [ssh -n -o BatchMode=yes -o ConnectTimeout=10]
set -u
if (($# < 2)); then
    echo "usage: $0 NODES.txt FOLDER [ARGUMENTS OF fizeau accept]" >&2
    exit 2
fi
nodes=$1 place=$(realpath -m "$2")
shift 2
mkdir -p "$place" || exit 3
ssh=${FIZEAU_SSH:-ssh -n -o BatchMode=yes -o ConnectTimeout=10}
arguments=$(printf ' %q' "$@")
[ $# -gt 0 ] || arguments=
accept() { # NODE
    local node=$1 code
    if [ -e "$place/$node/manifest.json" ]; then return; fi
    # shellcheck disable=SC2086 # The command that starts it has words of its own.
    $ssh "$node" "${FIZEAU:-fizeau} accept --out '$place/$node'$arguments" >"$place/$node.txt" 2>&1
    code=$?
    echo "$node: exit code $code: $(head -n 1 "$place/$node.txt")"
}
# A node's name is a word; a list may have `,GPUS` after it, as --expected takes it.
while IFS=, read -r node _; do
    [[ $node =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ && $node != node ]] || continue
    while (($(jobs -rp | wc -l) >= ${FIZEAU_AT_ONCE:-64})); do wait -n; done
    accept "$node" &
done <"$nodes"
wait
