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
export PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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
    awk '{ sub(/^.*\) /, ""); if ($1 != "Z" && $1 != "X") print $20 }' "/proc/$1/stat" 2>/dev/null
}
line() { # FILE: its first line that can be printed, without what a terminal would obey
    LC_ALL=C tr -cd '\n -~' <"$1" | grep -m 1 . | cut -c 1-400
}

mkdir -p "$run" 2>/dev/null
work=$(mktemp -d "$run/judge.XXXXXX" 2>/dev/null) || could_not "cannot write to $run (FIZEAU_RUN)"
trap 'rm -rf "$work"' EXIT
if [ -e "$left" ] && read -r process ticks <"$left"; then
    [ "$(began "$process")" != "$ticks" ] ||
        could_not "process $process, an earlier check, still hangs: a driver does not answer"
    rm -f "$left"
fi

"${FIZEAU:-fizeau}" accept --one-line "$@" </dev/null >"$work/out" 2>"$work/err" &
process=$!
ticks=$(began "$process")
sleep "$limit" >/dev/null 2>&1 &
timer=$!
wait -n
if kill -0 "$timer" 2>/dev/null; then
    kill "$timer"
elif kill -0 "$process" 2>/dev/null; then
    # It ends what it has started, if it still can.
    kill -TERM "$process" 2>/dev/null
    for _ in 1 2 3 4 5; do
        kill -0 "$process" 2>/dev/null || break
        sleep 0.1
    done
    disown "$process"
    kill -KILL "$process" 2>/dev/null
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
said=$(line "$work/err")
echo "COULD NOT RUN: exit code $code without a verdict${said:+: $said}"
[ "$code" != 2 ] || exit 2
exit 3
