#!/usr/bin/env bash
# Does ten tasks of a newcomer with the help and the README alone, and writes what was typed and what
# came out to docs/first-steps.md. Figures are of the machine that this runs on; those of stub drivers
# say so. Usage: scripts/first_steps.sh [PROGRAM]   (a debug build and its stubs: cargo build --workspace)
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/debug/fizeau}")
stubs=$(dirname "$program")
page=$PWD/docs/first-steps.md
repository=$PWD
results=$PWD/results
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/bin" "$place/none" "$place/driver"
ln -s "$program" "$place/bin/fizeau"
for library in libcuda.so.1 libnvidia-ml.so.1 libnvrtc.so.13 libcublasLt.so.13; do
    ln -s "$stubs/libfizeau_stub_driver.so" "$place/driver/$library"
done
ln -s "$stubs/libfizeau_stub_nccl.so" "$place/driver/libnccl.so.2"
ln -s "$results" "$place/results"
cd "$place"
export PATH="$place/bin:$PATH" FIZEAU_PROGRESS=off FIZEAU_LIBRARY_PATH="$place/none"

# Copies of memory, and between GPUs.
cat - "$repository/tests/stub/node/copies.toml" >node.toml <<'SUITE'
name = "node"
description = "Copies of memory and between GPUs"
measure = { samples_min = 10, samples_max = 12, noise_max = 0.01, time_min = 0.0, time_max = 0.005, warmup_max = 0.001, sample_min = 0.0001, deadline = 60.0 }

[transfer]
transfers = ["device_to_device_memcpy_read"]
sizes = [1048576]
host = ["pinned"]

SUITE

task() { # TITLE WORDS
    printf '\n## %s\n\n%s\n' "$1" "$2"
}
# Runs a command line and shows it with what it prints, of which LINES lines are kept, and its exit
# code where it is not 0.
try() { # LINES COMMAND LINE
    local lines=$1 code=0
    shift
    bash -c "$*" >said 2>&1 || code=$?
    # Folders of this machine are nobody's business.
    sed -i "s|$place/||g; s|$place|.|g; s|$HOME|~|g; s| of $(uname -n), side by| of node-1, side by|" said
    printf '\n```console\n$ %s\n' "$*"
    head -n "$lines" said
    [ "$(wc -l <said)" -le "$lines" ] || echo "[...]"
    [ "$code" = 0 ] || echo "[exit code $code]"
    printf '```\n'
}
# The same on a stub driver of a node with eight GPUs.
stub() { # LINES SCRIPT COMMAND LINE
    local lines=$1 script=$2
    shift 2
    FIZEAU_LIBRARY_PATH="$place/driver" FIZEAU_STUB="$script" XDG_CACHE_HOME="$place" try "$lines" "$@"
}

{
    cat <<'END'
# Ten first steps

Ten tasks of a new user. `fizeau --help`, the help of each command and the README suffice for all but task 3, which
uses a fake device for tests.

`scripts/first_steps.sh` runs each command after `$` and records its output. The machine is a small virtual one that
does other work at the same time: its figures only show the form of an answer. With a stub driver nothing is
measured: absolute figures are replaced by `stub`, and ratios are marked `(stub)`.
END

    task "1. Which GPU is slow?" "\`--device all\` measures each GPU by itself and sets them beside each other: a row for each, with \
its board's UUID and place on the PCI bus, and a sentence for each that is slow. Here a stub driver stands for a \
node of four GPUs: the memory of one is slower by 15 %, and the link between two others has half of its rate. \
\`node.toml\` is a suite of a few small cases, as a stub can have; without it, \`gpu-quick\` is measured."
    local_node="gpus=4,gpu2.hbm=0.85,link0-1=0.5,units=1,seed=7,noise=0.002"
    stub 40 "$local_node" \
        "fizeau run --device all --suite node.toml --out node"
    printf '\nCopies from GPU to GPU are a matrix in the full report:\n'
    stub 20 "$local_node" "fizeau report node | sed -n '/relative to the median pair/,/^\$/p'"
    printf '\n`--ranks 4` takes the GPUs through the same cases in step, as one job would use them:\n'
    stub 24 "gpus=4,gpu2.hbm=0.85,units=1,memory=268435456" \
        "fizeau run stream/copy --ranks 4 --no-host-name --out gpus"

    task "2. Is my memory as fast as promised?" "Measure it by \`fizeau run stream/read stream/copy\`; \`fizeau list\` \
shows what that selects. Each rate has its share of a named limit. If the share is low and Fizeau knows the reason, the line names it."
    try 4 "fizeau list stream/read stream/copy"
    printf '\nThe answer, from a record in the repository of a machine whose part is known:\n'
    try 9 "fizeau report results/epyc-9005/2026-11-21-kvm-2-cores --summary"

    task "3. What failed, and why?" "A fake device for tests gives wrong results (\`--device fake:wrong-result\`). The run ends with the first failed cases, the report lists all of them, and the exit code is 1."
    try 16 "fizeau run 'stream/copy/*/2u/*' --device fake:wrong-result --no-host-name --out failed"

    task "4. What changed between two runs?" "Two runs of the same machine. With three on each side \
(\`compare A1 A2 A3 --vs B1 B2 B3\`) a regression can be distinguished from noise."
    try 1 "fizeau run 'compute/f32/*' --no-host-name --out before >/dev/null"
    try 1 "fizeau run 'compute/f32/*' --no-host-name --out after >/dev/null"
    try 12 "fizeau compare before after"

    task "5. Only bf16 matrix products, please" "A selector is the beginning of ids, or a glob. \`fizeau list\` \
shows what it selects."
    try 12 "fizeau list gemm/bf16"
    try 20 "fizeau run gemm/bf16/768x768x768 --no-host-name --out products"

    task "6. A CSV of attention" "One line for each case, in SI units. The columns that matter first are cut out."
    try 1 "fizeau run 'attention/prefill/f32/*/avx*' --no-host-name --out attention >/dev/null"
    try 6 "fizeau report attention --out attention.csv; cut -d, -f1-6 attention.csv"

    task "7. Four ranks" "Ranks are threads on a host, GPUs where there are some (\`--ranks 8\`), processes by \
\`fizeau launch\` or mpiexec."
    try 16 "fizeau run collective/all_reduce --ranks 4 --no-host-name --out ranks"

    task "8. Continue after an interruption" "The run is interrupted after two seconds, as by Ctrl-C, and continued."
    try 3 "timeout -s INT 2 fizeau run 'compute/*' gemm/f32/768x768x768 --no-host-name --out cut >/dev/null"
    try 6 "fizeau run --resume cut --no-host-name"

    task "9. What is this case?" "\`explain\` says what a case measures, its work, its limits with their sources, its kernel, and how to repeat it."
    try 40 "fizeau explain compute/f32/2u/avx512"

    task "10. What would spoil my numbers?" "The number of findings, then one line for each with the remedy below it, the worst first."
    try 60 "fizeau doctor"
} >"$page.new"
mv "$page.new" "$page"
