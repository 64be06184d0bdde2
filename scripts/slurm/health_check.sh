#!/bin/bash
# Slurm's HealthCheckProgram: looks at the node every few minutes, without load, whatever jobs run on
# it. A node that fails is drained: its jobs end as they would, and no new one starts. What could not
# be told is logged. Install: docs/slurm.md.
here=${0%/*}
# shellcheck source=scripts/slurm/node.sh
. "$here/node.sh"

judge "$FIZEAU_SECONDS" --level passive --shared
code=$?
case $code in
    0) ;;
    1)
        drain "fizeau: $said" || log err "scontrol could not drain it: $said"
        exit 1
        ;;
    *) log warning "nothing could be told (exit code $code): $said" ;;
esac
exit 0
