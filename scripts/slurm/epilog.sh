#!/bin/bash
# Slurm's Epilog: after a job that failed, measures the node for a minute if no other job runs on it,
# and only looks at it if one does. A node that fails is drained with the reason. What was found is
# kept in FIZEAU_STATE unless all passed. Install: docs/slurm.md.
here=${0%/*}
# shellcheck source=scripts/slurm/node.sh
. "$here/node.sh"

# Exit code and signal, of Slurm 21.08 or newer. Ends by SIGKILL or SIGTERM are not the job's own: its
# user, its time limit or its memory limit ended it.
ended=${SLURM_JOB_EXIT_CODE2:-0:0}
case $ended in
    0:0 | 0:9 | 0:15) exit 0 ;;
esac
[ "$FIZEAU_EPILOG" != off ] || exit 0

# Every step of a job has a process that names it: "slurmstepd: [123.batch]".
others() {
    pgrep -f -a '^slurmstepd: \[' | grep -v -F " [${SLURM_JOB_ID:-}."
}
level=passive limit=$FIZEAU_SECONDS
if [ "$FIZEAU_EPILOG" = quick ] && command -v pgrep >/dev/null && ! others >/dev/null; then
    # A round that has begun when the budget ends may take as long again.
    level=quick limit=$((2 * FIZEAU_BUDGET + 10))
fi
arguments=(--level "$level" --budget "${FIZEAU_BUDGET}s")
[ "$FIZEAU_EXCLUSIVE" = 1 ] || arguments+=(--shared)
if [ "$level" = quick ]; then
    mkdir -p "$FIZEAU_STATE"
    kept=$(mktemp -d "$FIZEAU_STATE/job-${SLURM_JOB_ID:-}.XXXXXX") && arguments+=(--out "$kept")
fi
judge "$limit" "${arguments[@]}"
code=$?
case $code in
    0) [ -z "${kept:-}" ] || rm -rf "$kept" ;;
    1)
        # Slurm drains the node as well where this could not, with the reason "Epilog error".
        drain "fizeau: $said" || log err "scontrol could not drain it: $said"
        exit 1
        ;;
    *)
        log warning "after job ${SLURM_JOB_ID:-} ($ended) nothing could be told (exit code $code): $said"
        ;;
esac
exit 0
