#!/bin/bash
# Slurm's Prolog: looks at the node before a job starts, without load and within five seconds. A node
# that fails is drained with the reason, and the job is requeued. What could not be decided is logged,
# and the job starts. Install: docs/slurm.md.
here=${0%/*}
# shellcheck source=scripts/slurm/node.sh
. "$here/node.sh"

shared=(--shared)
[ "$FIZEAU_EXCLUSIVE" != 1 ] || shared=()
judge "$FIZEAU_SECONDS" --level passive "${shared[@]}"
code=$?
case $code in
    0) exit 0 ;;
    1)
        # Slurm drains the node as well where this could not, with the reason "Prolog error".
        drain "fizeau: $said" || log err "scontrol could not drain it: $said"
        exit 1
        ;;
    *)
        log warning "job ${SLURM_JOB_ID:-} starts, nothing could be told (exit code $code): $said"
        exit 0
        ;;
esac
