#!/bin/bash
# Runs `fizeau accept` within a time limit that a hung driver cannot break, and prints one line.
#
# A process that waits inside a driver cannot be killed, so nobody waits for its end: this script
# leaves it behind, and starts no second one while it is there. Nothing that is left behind holds the
# caller's standard output open.
#
# Exit code: that of `fizeau accept` (0 pass, 1 fail, 2 usage, 3 could not run, 4 inconclusive), and
# 3 where it did not end in time. 0, 1 and 4 only together with a verdict that says the same: a shell,
# a loader or another program of this name that exits with 1 has not judged the node.
#
# Usage: judge.sh SECONDS ARGUMENTS_OF_ACCEPT..
# FIZEAU       the program [fizeau]
# FIZEAU_RUN   a directory for temporary files, which other users cannot write to [/run/fizeau]
set -u
# What bash says of a child that a signal has ended is in the line below as well.
exec 2>/dev/null
# Without a PATH, bash searches the working directory as well.
[[ $(declare -p PATH) == "declare -x"* ]] ||
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022
limit=$1
shift
run=${FIZEAU_RUN:-/run/fizeau}
left=$run/left

could_not() { # WHY
    echo "COULD NOT RUN: $1"
    exit 3
}
# When a process began, in the kernel's ticks; nothing where there is none, or where it has ended and
# nobody has asked how.
began() { # PROCESS
    awk '{ sub(/^.*\) /, ""); if ($1 != "Z" && $1 != "X") print $20 }' "/proc/$1/stat"
}
line() { # FILE: its first line that can be printed, without what a terminal would obey
    LC_ALL=C tr -cd '\n -~' <"$1" | awk '/./ && !lines++' | cut -c 1-400
}

if [ -e "$left" ] && read -r process ticks <"$left"; then
    [ -z "$ticks" ] || [ "$(began "$process")" != "$ticks" ] ||
        could_not "process $process, an earlier check, still hangs: a driver does not answer"
    rm -f "$left"
fi
mkdir -p "$run"
work=$(mktemp -d "$run/judge.XXXXXX") || could_not "cannot write to $run (FIZEAU_RUN)"

"${FIZEAU:-fizeau}" accept --one-line "$@" </dev/null >"$work/out" 2>"$work/err" &
process=$!
ticks=$(began "$process")
sleep "$limit" >/dev/null &
timer=$!
# Not before: a child that is ended before it has become its program would call this too.
trap 'rm -rf "$work"' EXIT
wait -n
if kill -0 "$timer"; then
    kill "$timer"
elif kill -0 "$process"; then
    # It ends what it has started, if it still can.
    kill -TERM "$process"
    for _ in 1 2 3 4 5; do
        kill -0 "$process" || break
        sleep 0.1
    done
    disown "$process"
    kill -KILL "$process"
    echo "$process $ticks" >"$left"
    could_not "no verdict within $limit s: a driver may not answer"
fi
wait "$process"
code=$?
said=$(line "$work/out")
case "$code $said" in
    "0 PASS "* | "1 FAIL "* | "4 INCONCLUSIVE "*)
        echo "$said"
        exit "$code"
        ;;
esac
# With 3 it may have judged the node, and not have written a file that was asked for.
when="without a verdict"
case "$code $said" in "3 PASS "* | "3 INCONCLUSIVE "*) when="after a verdict" ;; esac
said=$(line "$work/err")
echo "COULD NOT RUN: exit code $code $when${said:+: $said}"
[ "$code" != 2 ] || exit 2
exit 3
