#!/bin/bash
# Custom plugin of Kubernetes's node-problem-detector: looks at the node without load, whatever runs on
# it, and prints one line. judge.sh (scripts/slurm) has to lie beside it. Install: docs/kubernetes.md.
# Exit codes are those of the detector, and not those of fizeau:
#   0  OK        fizeau accept: 0, pass
#   1  problem   fizeau accept: 1, fail
#   2  unknown   fizeau accept: 2, 3, 4 (usage, could not run, inconclusive), or no end in time
# Usage: npd_plugin.sh ARGUMENTS_OF_ACCEPT..
# FIZEAU_SECONDS   time limit [4]; FIZEAU and FIZEAU_RUN as in judge.sh
"${0%/*}/judge.sh" "${FIZEAU_SECONDS:-4}" --level passive --shared "$@"
case $? in
    0) exit 0 ;;
    1) exit 1 ;;
    *) exit 2 ;;
esac
