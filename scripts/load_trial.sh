#!/usr/bin/env bash
# What `fizeau load` says of real servers on this machine, and whether it can be believed: prints
# docs/appendix/load-trial.md. Needs a quiet machine with two cores and, the first time, the network (8 GB of
# packages); takes some 25 minutes.
#
#   scripts/load_trial.sh >docs/appendix/load-trial.md
#   scripts/load_trial.sh known | llama | vllm | join     one part alone
#
# FIZEAU takes another program than the release build.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

[ -n "${FIZEAU:-}" ] || cargo build --locked --release --quiet
program=$(realpath "${FIZEAU:-target/release/fizeau}")
export FIZEAU=$program

known() {
    echo "## The client, by a server with known laws"
    echo
    echo "\`fizeau load self-test --duration 60s\`: server and client share the machine."
    echo
    echo '```text'
    "$program" load self-test --duration 60s 2>&1 || echo "exit code $?"
    echo '```'
}
# Markdown of a report up to its section "Over time", headings one level lower.
shortened() {
    sed '/^## Over time/,$d; 1,/^$/d' | sed 's/^##/###/'
}
llama() {
    echo "## llama.cpp: rates of 2 to 20, closed loops of 1 to 16"
    echo
    echo "A Llama with random weights of 5 MiB and eight slots, one thread; prompts of 32 to 96 tokens,"
    echo "answers of 32 to 64. Limits: TTFT 200 ms, TPOT 50 ms."
    echo
    scripts/check_load.sh sweep 2>/dev/null | shortened
}
vllm() {
    echo "## vLLM on a CPU: its own client in turn with this one"
    echo
    echo "Five rounds of 60 requests at 3 a second, prompts of 50 tokens, answers of 20; the order of the"
    echo "two clients is swapped each round. \`vllm bench serve\` is a process of Python that starts anew"
    echo "each round: its CPU time has its start in it. Its TTFT is read by one event loop of Python,"
    echo "behind the chunks of other requests: that is likely what it is above this client's by."
    echo
    scripts/load_trial/vllm.sh 2>/dev/null
}
join_() {
    echo "## The join: llama.cpp on one core beside what this host allows"
    echo
    echo "A Llama of 170 million f16 weights (319 MiB), one thread. The record is of one core of this host,"
    echo "by the fastest kernel of each operation. Where the host says that its last cache holds the model,"
    echo "no weight has to come from memory, and L0 is arithmetic alone."
    echo
    scripts/check_load.sh join 2>/dev/null | shortened
}

case ${1:-all} in
known) known ;;
llama) llama ;;
vllm) vllm ;;
join) join_ ;;
all)
    cpu=$(sed -n '0,/^model name/s/^model name\s*: //p' /proc/cpuinfo)
    echo "# Trials of \`fizeau load\`"
    echo
    echo "Printed by \`scripts/load_trial.sh\` on $(date -u +%Y-%m-%d), on $(nproc) cores of a machine with"
    echo "$cpu. [load.md](../load.md) explains each number. Nothing here was measured on a GPU."
    for part in known llama vllm join_; do
        echo
        "$part"
    done
    ;;
*)
    echo "usage: $0 [known | llama | vllm | join]" >&2
    exit 2
    ;;
esac
