#!/usr/bin/env bash
# Real trials of `fizeau accept` on this machine's host CPU, by released code that can plant a slowdown
# (feature `plants`): learns a profile from five own quick runs, then judges the machine by it 20 times
# as it is, 10 times each with a real fault, and 3 times beside a process that writes to memory without
# end. Needs root (control groups) and a machine on which nothing else runs.
#
#     scripts/accept_trials.sh                            # all of it, and prints the table
#     scripts/accept_trials.sh --write                    # the same, into docs/appendix/accept-trials.md
#     scripts/accept_trials.sh --learn 3 --runs 2 --faults 1 --budget 20s --out /tmp/few
#
# A run takes 10 to 60 s on two cores (--budget is the most that each may take), so that all 58
# take about half an hour and never more than --limit (75 minutes): what is not done by then is said in
# the table. It continues where it was ended: each trial that is done is kept in --out. A profile is
# for the build that it was learnt with, so that the program is copied there too; remove the folder to
# begin anew.
#
# The faults, each on its own:
#   quota  a control group with half of this machine's CPU time
#   slow   one kernel made 20 % slower by FIZEAU_PLANT
#   busy   one core taken by a process that does nothing but count
#   hog    a process that writes to memory without end
set -euo pipefail
cd "$(dirname "$0")/.."

learn=5 runs=20 faults=10 hogs=3 budget=60s limit=75 write=
place=results/local/accept-trials
while (($#)); do
    case $1 in
    --learn) learn=$2 && shift ;;
    --runs) runs=$2 && shift ;;
    --faults) faults=$2 && shift ;;
    --hogs) hogs=$2 && shift ;;
    --budget) budget=$2 && shift ;;
    --limit) limit=$2 && shift ;;
    --out) place=$2 && shift ;;
    --write) write=docs/appendix/accept-trials.md ;;
    *) echo "$1 is no option; the head of this file has them" >&2 && exit 2 ;;
    esac
    shift
done
until=$((SECONDS + 60 * limit))
mkdir -p "$place"
place=$(realpath "$place")
program=$place/fizeau

if [ ! -e "$program" ]; then
    # Compiled kernels of GPUs play no part here.
    FIZEAU_KERNELS=off cargo build --locked --quiet --release --features plants
    # Moved, since nobody should take it for a release.
    mv "${CARGO_TARGET_DIR:-target}/release/fizeau" "$program"
fi

group=/sys/fs/cgroup/fizeau-trials
beside=
end_what_is_beside() {
    # It may have ended by itself, and its exit code is that of the signal.
    [ -z "$beside" ] || { kill "$beside" && wait "$beside"; } 2>/dev/null || true
    beside=
}
clean_up() {
    end_what_is_beside
    for folder in "$group" /sys/fs/cgroup/cpu/fizeau-trials; do
        # One that is in use stays, with rmdir's words; it must not hide how the trials ended.
        [ ! -d "$folder" ] || rmdir "$folder" || true
    done
}
trap clean_up EXIT

half_of_the_time() { # prints the file by which a process joins the group
    local cpus period=100000 quota
    cpus=$(nproc)
    quota=$((cpus * period / 2))
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
        mkdir -p "$group"
        echo "$quota $period" >"$group/cpu.max"
        echo "$group/cgroup.procs"
    else
        local old=/sys/fs/cgroup/cpu/fizeau-trials
        mkdir -p "$old"
        echo "$period" >"$old/cpu.cfs_period_us"
        echo "$quota" >"$old/cpu.cfs_quota_us"
        echo "$old/cgroup.procs"
    fi
}

# One acceptance in a folder of its own, unless it is done already. What the program says is kept.
trial() { # KIND NUMBER ARGUMENTS..
    local kind=$1 name=$1-$2 status=0 began=$SECONDS join=
    shift 2
    [ ! -e "$place/$name/code" ] || return 0
    ((SECONDS < until)) || return 0
    rm -rf "${place:?}/$name"
    mkdir "$place/$name"
    local words=(accept --device host --level quick --budget "$budget" --out "$place/$name/out" "$@")
    case $kind in
    quota)
        join=$(half_of_the_time)
        sh -c 'echo $$ >"$1" && shift && exec "$@"' sh "$join" "$program" "${words[@]}" \
            >"$place/$name/said" 2>&1 || status=$?
        clean_up
        ;;
    slow)
        # Time and a quarter is a rate of four fifths.
        FIZEAU_PLANT='gemm/f32/*=0.25' "$program" "${words[@]}" >"$place/$name/said" 2>&1 || status=$?
        ;;
    *)
        if [ "$kind" = busy ]; then
            taskset -c 0 sh -c 'while :; do :; done' &
            beside=$!
        elif [ "$kind" = hog ]; then
            taskset -c 1 dd if=/dev/zero of=/dev/null bs=64M 2>/dev/null &
            beside=$!
        fi
        "$program" "${words[@]}" >"$place/$name/said" 2>&1 || status=$?
        end_what_is_beside
        ;;
    esac
    echo $((SECONDS - began)) >"$place/$name/seconds"
    echo "$status" >"$place/$name/code"
    echo "$name: exit code $status, $((SECONDS - began)) s, $(head -n 1 "$place/$name/said")"
}

for number in $(seq "$learn"); do
    trial learn "$number"
done
profile=$place/learnt.toml
if [ ! -e "$profile" ]; then
    "$program" profile learn "$place"/learn-*/out --device host --out "$profile.new" >&2
    mv "$profile.new" "$profile"
fi
# Kinds take turns, so that a change of the machine is in all of them.
most=$((runs > faults ? runs : faults))
for number in $(seq "$most"); do
    ((number > runs)) || trial as-is "$number" --profile "$profile"
    for kind in quota slow busy; do
        ((number > faults)) || trial "$kind" "$number" --profile "$profile"
    done
    ((number > hogs)) || trial hog "$number" --profile "$profile"
done

status=0
table=$(python3 scripts/accept_trials.py "$place" "$learn" "$runs" "$faults" "$hogs") || status=$?
echo "$table"
[ -z "$write" ] || echo "$table" >"$write"
exit "$status"
