#!/usr/bin/env bash
# One rank for each slot of a host file, by the mpiexec of an MPI with the standard ABI (MPICH 5,
# Open MPI 6), which also brings the ranks of GPUs together.
# Usage: scripts/mpirun.sh RANKS HOSTFILE [ARGUMENTS OF fizeau run]
set -euo pipefail
ranks=$1 hosts=$2
shift 2
exec "${MPIEXEC:-mpiexec}" -n "$ranks" --hostfile "$hosts" fizeau run collective "$@"
