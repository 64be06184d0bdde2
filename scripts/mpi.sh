#!/usr/bin/env bash
# Brings an MPI with the standard ABI (MPICH, from PyPI, into target/mpi), runs the tests of ranks in
# processes of their own, then sets fizeau beside IMB-MPI1 on the same library, alternating.
# Usage: scripts/mpi.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
mpi=$PWD/target/mpi imb=$PWD/target/imb
if [ ! -x "$mpi/bin/mpiexec" ]; then
    python3 -m venv "$mpi"
    "$mpi/bin/pip" install --quiet mpich==5.0.2
fi
# Its own folder: it brings an mpiexec and an MPI library too.
if [ ! -x "$imb/bin/IMB-MPI1" ]; then
    python3 -m venv "$imb"
    "$imb/bin/pip" install --quiet --no-deps impi-rt==2021.19.0
fi
export PATH=$mpi/bin:$PATH
cargo test --locked --test mpi
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
dtype = "f32"
from = "4KiB"
to = "1MiB"
factor = 256
places = ["out_of_place"]
SUITE
imb() { # OPERATION LENGTHS
    LD_LIBRARY_PATH=$mpi/lib mpiexec -n 2 "$imb/bin/IMB-MPI1" "$1" -msglen "$out/$2" \
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
    if row["case"].startswith("collective/"):
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
          f"ratio {one / other:.3f}")
COMPARE
