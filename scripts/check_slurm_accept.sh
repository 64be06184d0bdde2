#!/usr/bin/env bash
# The files of scripts/slurm under a real Slurm of four virtual nodes with eight stub GPUs each, on
# which faults are planted: an array job that accepts fresh nodes, the prolog, the health check and the
# epilog. Says line by line what happened, and fails where that is not what docs/slurm.md says. No
# number of it is of a GPU. What a virtual node is: scripts/slurm_cluster.sh.
# Usage: scripts/check_slurm_accept.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
source scripts/slurm_cluster.sh

cluster_can || exit 0
build_program
program=$PWD/target/debug/fizeau
cluster_up 4 <<CONF
SchedulerParameters=nohold_on_prolog_fail,bf_interval=2,sched_interval=2
PrologFlags=Alloc
PrologEpilogTimeout=400
MinJobAge=600
CONF
mkdir -p "$place"/{opt,root,run,out,kernels}
say() { echo "$*"; }
fault() { # WHAT
    echo "fault: $1" >&2
    # Some of the logs may not be there yet; the fault is what counts.
    tail -n 20 "$place"/log.* "$place"/*.log >&2 || true
    scontrol show node >&2
    exit 1
}
say "$(slurmctld -V) with 4 virtual nodes; their GPUs are stubs"

# As an administrator installs them.
cp scripts/slurm/{judge,node,prolog,health_check,epilog}.sh "$place/opt/"
stub_node "$place" 8
# The program, on a node at which a fault may be planted: a script of the stub driver, or arguments.
cat >"$place/opt/fizeau" <<PROGRAM
#!/bin/bash
export FIZEAU_LIBRARY_PATH=$place/lib FIZEAU_STUB=devices=8 FIZEAU_STUB_CACHE=$place/kernels
[ ! -e "$place/plant.\$(uname -n)" ] || . "$place/plant.\$(uname -n)"
exec "$program" "\$@"
PROGRAM
chmod +x "$place/opt/fizeau"
cat >"$place/opt/settings.sh" <<SETTINGS
export SLURM_CONF=$SLURM_CONF
FIZEAU=$place/opt/fizeau
FIZEAU_RUN=$place/run/\$SLURMD_NODENAME
FIZEAU_STATE=$place/state.\$SLURMD_NODENAME
FIZEAU_LOG=$place/log.\$SLURMD_NODENAME
FIZEAU_ARGUMENTS=(--profile $place/node.toml --root $place/root)
FIZEAU_BUDGET=150
SETTINGS
plant() { # NODE SHELL
    echo "$2" >"$place/plant.$1"
}
drained() { # the nodes that are drained, in order
    sinfo -h -N -o '%N %T' | awk '$2 ~ /^(drain|drng)/ { printf "%s%s", sep, $1; sep = " " }'
}
drained_are() { # WHEN NODES
    local found
    found=$(drained)
    [ "$found" = "$2" ] || fault "$1: drained are '$found' and should be '$2'"
    say "$1: drained are: ${found:-none}"
}
reason_of() { # NODE
    scontrol --oneliner show node "$1" | sed -n 's/.* Reason=\(.*\) \[[^]]*\].*/\1/p'
}
reason_is() { # NODE BEGINNING
    local found
    found=$(reason_of "$1")
    [[ $found == "$2"* ]] || fault "$1's reason is '$found' and should begin with '$2'"
    say "  sinfo -R: $1: $found"
}
until_true() { # SECONDS COMMAND..
    local tries=$(($1 * 2))
    shift
    for _ in $(seq "$tries"); do
        "$@" && return 0
        sleep 0.5
    done
    return 1
}
job() { # FIELD JOB: of scontrol's description
    scontrol --oneliner show job "$2" | sed -n "s/.* $1=\([^ ]*\).*/\1/p"
}
submit() { # OPTIONS AND COMMAND of sbatch: prints the job
    sbatch --parsable --chdir="$place/out" --output="%j.txt" "$@"
}
ended() { # JOBS..: whether all have completed
    local one
    for one in "$@"; do [ "$(job JobState "$one")" = COMPLETED ] || return 1; done
}
reload() { # adds standard input to slurm.conf
    cat >>"$SLURM_CONF"
    scontrol reconfigure
    sleep 2
}

# 1. Fresh nodes, of which n3 has half of its lanes.
plant n3 'FIZEAU_STUB+=,lanes=8'
export FIZEAU=$place/opt/fizeau
array=$(submit --array=1-4 --export=ALL scripts/slurm/array.sbatch --level passive \
    --profile "$place/node.toml" --root "$place/root")
over() { [ -z "$(squeue -h -j "$array" -o %T)" ]; }
until_true 120 over || fault "the array does not end"
for node in n1 n2 n3 n4; do
    one=$place/out/accept-$array/$node
    [ -s "$one/verdict.json" ] || fault "$node has no verdict of the array"
    verdict=$(python3 -c 'import json, sys
one = json.load(open(sys.argv[1]))
assert one["complete"] and one["node"] == sys.argv[2], one
print(one["verdict"])' "$one/verdict.json" "$node")
    wanted=pass
    [ $node != n3 ] || wanted=fail
    [ "$verdict" = $wanted ] || fault "the array's verdict on $node is $verdict"
    say "array: $(head -n 1 "$one/verdict.txt")"
done
[ "$(find "$place/out/accept-$array" -name verdict.json | wc -l)" = 4 ] || fault "not four verdicts"
for task in 1 2 3 4; do echo "$(job NodeList "${array}_$task") $(job ExitCode "${array}_$task")"; done |
    sort >"$place/tasks"
[ "$(tr '\n' ' ' <"$place/tasks")" = "n1 0:0 n2 0:0 n3 1:0 n4 0:0 " ] || fault "$(cat "$place/tasks")"
say "array: four tasks on four nodes, and the exit code of n3's is 1"
drained_are "array" ""

# 2. The prolog: four jobs on four nodes, whichever they get.
reload <<CONF
Prolog=$place/opt/prolog.sh
CONF
jobs=()
for _ in 1 2 3 4; do jobs+=("$(submit --exclusive --nodes=1 --wrap 'uname -n; sleep 2')"); done
until_true 120 ended "${jobs[@]}" || fault "not all jobs completed: $(squeue)"
drained_are "prolog" "n3"
reason_is n3 "fizeau: FAIL cuda:0 PCI Express lanes: x8 of x16"
requeued=0
for one in "${jobs[@]}"; do
    on=$(cat "$place/out/$one.txt")
    [[ $on == n[124] ]] || fault "job $one ran on '$on'"
    if [ "$(job Restarts "$one")" != 0 ]; then
        requeued=$((requeued + 1))
        say "prolog: job $one was requeued $(job Restarts "$one") time(s), and ran on $on"
    else
        say "prolog: job $one ran on $on"
    fi
done
[ "$requeued" = 1 ] || fault "$requeued jobs were requeued"

# 3. What could not be decided drains nothing: could not run (3), inconclusive (4), a driver that hangs.
plant n1 'set -- "$@" --textfile /nowhere/fizeau.prom'
plant n2 'FIZEAU_STUB+=,ecc=0'
plant n4 'FIZEAU_STUB+=,stuck=600'
for node in n1 n2 n4; do
    began=$EPOCHREALTIME
    one=$(submit -w $node --wrap 'uname -n')
    until_true 30 ended "$one" || fault "job $one on $node does not end"
    took=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    say "prolog: job $one on $node ended after $took s; $(tail -n 1 "$place/log.$node")"
done
grep -q "prolog.sh warning: .*exit code 3.*: COULD NOT RUN: exit code 3" "$place/log.n1" || fault "n1's log"
grep -q "prolog.sh warning: .*exit code 4.*: INCONCLUSIVE cuda:0 ECC" "$place/log.n2" || fault "n2's log"
grep -q "prolog.sh warning: .*exit code 3.*: COULD NOT RUN: no verdict within 4 s" "$place/log.n4" ||
    fault "n4's log"
drained_are "prolog, codes 3 and 4 and a hung driver" "n3"

# 4. The health check, while a job runs on the node that it drains; and one that a person has drained.
rm "$place"/plant.n{1,2,4}
running=$(submit -w n2 --wrap 'uname -n; sleep 20')
on_n2() { [ "$(job JobState "$running")" = RUNNING ]; }
until_true 30 on_n2 || fault "job $running does not start"
scontrol update NodeName=n1 State=DRAIN Reason="a person's reason"
plant n1 'FIZEAU_STUB+=,lanes=4'
plant n2 'FIZEAU_STUB+=,devices=7'
reload <<CONF
HealthCheckProgram=$place/opt/health_check.sh
HealthCheckInterval=2
CONF
three() { [ "$(drained)" = "n1 n2 n3" ]; }
until_true 60 three || fault "drained are '$(drained)'"
kept() { grep -q "health_check.sh notice: drained already" "$place/log.n1"; }
until_true 30 kept || fault "n1's log does not say that it is drained already"
drained_are "health check" "n1 n2 n3"
reason_is n2 "fizeau: FAIL node GPU count: 7 of 8 GPUs"
reason_is n1 "a person's reason"
reason_is n3 "fizeau: FAIL cuda:0 PCI Express lanes: x8 of x16"
on_n2 || fault "the job on n2 did not go on"
say "health check: job $running goes on on n2"
until_true 60 ended "$running" || fault "job $running does not complete"
say "health check: job $running completed"

# 5. The epilog on n4: nothing after a job that succeeds, a look beside another job, a measurement alone.
reload <<CONF
HealthCheckInterval=0
Epilog=$place/opt/epilog.sh
CONF
# Nothing is there until the first check: no levels.
checks() { cat "$place/calls.n4" 2>/dev/null || true; }
plant n4 "echo \"\$*\" | grep -o -- '--level [a-z]*' >>$place/calls.n4"
settled() { # JOB STATES: the job is over, and n4 in one of these states
    [[ $(job JobState "$1") =~ ^(COMPLETED|FAILED|CANCELLED)$ && $(sinfo -h -n n4 -o %T) =~ ^($2)$ ]]
}
one=$(submit -w n4 --wrap true)
until_true 60 settled "$one" idle || fault "the epilog of job $one"
[ "$(checks)" = "--level passive" ] || fault "after a job that succeeds: $(checks)"
say "epilog: nothing after job $one, which succeeded (the check is the prolog's)"
beside=$(submit -w n4 --wrap 'sleep 30')
one=$(submit -w n4 --wrap 'sleep 2; exit 3')
until_true 60 settled "$one" "mixed|allocated" || fault "the epilog of job $one"
[ "$(checks | tail -n 1)" = "--level passive" ] || fault "beside another job: $(checks)"
say "epilog: a look alone after job $one, which failed while job $beside ran there"
scancel "$beside"
until_true 60 settled "$beside" idle || fault "the epilog of job $beside"
checks=$(checks | wc -l)
# Of its devices the GPUs alone are measured: this host has other work.
plant n4 "FIZEAU_STUB=devices=8,gpu2.hbm=0.83,noise=0.002,seed=3
$(cat "$place/plant.n4")
set -- \"\$@\" $(printf -- '--device cuda:%d ' 0 1 2 3 4 5 6 7)"
one=$(submit -w n4 --wrap 'exit 3')
fourth() { [ "$(drained)" = "n1 n2 n3 n4" ]; }
until_true 400 fourth || fault "the epilog of job $one drained nothing: $(sinfo -R)"
[[ $(checks | tail -n +$((checks + 1))) == *"--level quick" ]] || fault "alone: $(checks)"
reason_is n4 "fizeau: FAIL cuda:2 memory copy"
verdict=$(find "$place/state.n4" -name verdict.json)
[ -s "$verdict" ] || fault "the epilog kept no verdict"
say "epilog: a measurement after job $one, which failed alone; n4 is drained, and its verdict is kept"
sinfo -R
say "Slurm: fresh nodes, prolog, health check and epilog do as docs/slurm.md says"
