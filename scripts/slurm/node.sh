# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by prolog.sh, epilog.sh and health_check.sh, which slurmd calls as root without PATH and
# HOME. What is set below can be set in settings.sh beside this file:
#
# FIZEAU             the program [fizeau]
# FIZEAU_RUN         a directory for temporary files [/run/fizeau]
# FIZEAU_STATE       a directory that keeps what epilogs found [/var/lib/fizeau]
# FIZEAU_LOG         a file that lines are added to [the system's log, by `logger`]
# FIZEAU_ARGUMENTS   an array of arguments for `fizeau accept`: (--profile h100-sxm --textfile FILE)
# FIZEAU_SECONDS     time limit of passive checks [4]
# FIZEAU_EXCLUSIVE   1 where jobs get whole nodes: before and after a job, any process on a GPU is
#                    then a failure, since a job has left it behind [0]
# FIZEAU_EPILOG      level of the check after a failed job: quick, passive or off [quick]
# FIZEAU_BUDGET      time that the quick level may take, in seconds [50]
# SLURM_CONF         (export it) where slurm.conf is, if not where scontrol looks for it
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME="${HOME:-/}"
cd / || exit 0
umask 022

FIZEAU_ARGUMENTS=()
# shellcheck source=/dev/null
[ ! -r "$here/settings.sh" ] || . "$here/settings.sh"
export FIZEAU FIZEAU_RUN
: "${FIZEAU:=fizeau}" "${FIZEAU_RUN:=/run/fizeau}" "${FIZEAU_STATE:=/var/lib/fizeau}"
: "${FIZEAU_SECONDS:=4}" "${FIZEAU_EXCLUSIVE:=0}" "${FIZEAU_EPILOG:=quick}" "${FIZEAU_BUDGET:=50}"
node=${SLURMD_NODENAME:-$(uname -n | cut -d . -f 1)}

log() { # PRIORITY WORDS
    if [ -n "${FIZEAU_LOG:-}" ]; then
        echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $node ${0##*/} $1: $2" >>"$FIZEAU_LOG"
    else
        timeout -k 1 1 logger -t "fizeau-${0##*/}" -p "daemon.$1" -- "$2" </dev/null >/dev/null 2>&1
    fi
}

# Runs the check; its line is in `said`.
judge() { # SECONDS ARGUMENTS_OF_ACCEPT..
    said=$("$here/judge.sh" "$@" "${FIZEAU_ARGUMENTS[@]}")
}

# Drains this node. One that is drained already keeps its reason, which a person may have written.
drain() { # REASON
    local state
    state=$(timeout -k 1 2 scontrol --oneliner show node "$node" </dev/null 2>/dev/null)
    if [[ $state =~ \ State=[^\ ]*DRAIN ]]; then
        [[ $state == *" Reason=fizeau: "* ]] || log notice "drained already, and keeps its reason: $1"
        return 0
    fi
    timeout -k 1 2 scontrol update NodeName="$node" State=DRAIN Reason="$1" \
        </dev/null >/dev/null 2>&1 && log err "drained: $1"
}
