# Sourced by the scripts that run many checks: each is a stage, and how long each took is said at the
# end, with the CPU time of its processes.

stages=$(mktemp -d)
trap stages_end EXIT

cpu() { # CPU seconds of all processes that this shell has waited for
    times >"$stages/times"
    awk 'NR == 2 { split($1, u, "[ms]"); split($2, s, "[ms]")
        print (u[1] + s[1]) * 60 + u[2] + s[2] }' "$stages/times"
}
# `times` counts for the shell that calls it, so `cpu` is not called in a shell of its own.
stage() { # NAME COMMAND..
    local name=$1 began=$EPOCHREALTIME
    shift
    echo "== $name" >&2
    cpu >"$stages/before"
    "$@"
    cpu >"$stages/after"
    awk -v name="$name" -v began="$began" -v ended="$EPOCHREALTIME" '
        { at[FILENAME] = $1 }
        END { printf "%-28s %7.0f %7.0f\n", name, ended - began, at[ARGV[2]] - at[ARGV[1]] }' \
        "$stages/before" "$stages/after" >>"$stages/table"
}
stages_end() {
    local status=$?
    printf '%-28s %7s %7s\n' stage 'wall, s' 'CPU, s' >&2
    [ ! -e "$stages/table" ] || awk '{ print; wall += $(NF - 1); cpu += $NF }
        END { printf "%-28s %7.0f %7.0f\n", "all", wall, cpu }' "$stages/table" >&2
    rm -rf "$stages"
    [ "$status" = 0 ] || echo "a check failed" >&2
}
# A script whose output is long: its end is shown, all of it if it fails and in target/checks/.
summarised() { # SCRIPT ARGUMENTS..
    local said=target/checks/$1.txt script=scripts/$1.sh
    shift
    mkdir -p target/checks
    if ! bash "$script" "$@" >"$said" 2>&1; then
        grep -m 40 '^fault' "$said" >&2 || true
        tail -n 40 "$said" >&2
        echo "$script failed; all that it said is in $said" >&2
        exit 1
    fi
    tail -n 3 "$said"
}
# A script that prints a table: its last line is shown, all of it if it fails.
tabled() { # SCRIPT ARGUMENTS..
    local said=target/checks/$1.txt script=scripts/$1.py
    shift
    mkdir -p target/checks
    python3 "$script" "$@" >"$said" 2>&1 || { cat "$said" >&2; exit 1; }
    tail -n 1 "$said"
}
# Selectors that exclude cases, of those that select any here: one that excludes nothing is an error.
exclusions() { # PROGRAM SELECTORS..
    local program=$1 selector
    shift
    for selector in "$@"; do
        if "$program" list "$selector" >/dev/null 2>&1; then echo "!$selector"; fi
    done
}

# What a new user runs first: it must leave a record and a report.
first_run() { # PROGRAM SELECTORS..
    local program=$1
    shift
    timeout 600 "$program" run --out "$stages/run" "$@" >"$stages/report.txt" || {
        grep -A 3 '^!' "$stages/report.txt" # which case failed, and why
        return 1
    }
    test -s "$stages/run/record.jsonl"
    test -s "$stages/run/report.html"
    tail -n 5 "$stages/report.txt"
}
