#!/usr/bin/env bash
# Streams beside those of likwid-bench, alternating on the same cores over the same working set:
# `scripts/peers_stream.sh [ROUNDS] [CORES] [OPERATION ..]`. Prints for each operation the best
# kernel of either by its median over the rounds, and their ratio. likwid counts bytes as
# STREAM does: a write-allocate is not counted.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-5}
cores=${2:-$(nproc)}
shift $(($# < 2 ? $# : 2))
operations=("$@")
((${#operations[@]})) || operations=(read write copy triad)
bytes=$((1 << 30))
seconds=0.2

if ! command -v likwid-bench >/dev/null; then
    echo "installing likwid (Debian, Ubuntu)" >&2
    sudo=$( ((EUID == 0)) || echo sudo)
    $sudo apt-get install -y -q likwid >&2
fi
[[ -n ${NO_BUILD:-} ]] || cargo build --release --locked --quiet --example stream

# likwid's kernels of an operation: plain stores and non-temporal ones, AVX and AVX-512.
declare -A peers=(
    [read]="load_avx load_avx512 load_mem"
    [write]="store_avx store_avx512 store_mem_avx store_mem_avx512"
    [copy]="copy_avx copy_avx512 copy_mem_avx copy_mem_avx512"
    [triad]="stream_avx_fma stream_avx512_fma stream_mem_avx_fma stream_mem_avx512"
)

# A kernel whose instructions the CPU lacks would end by a signal.
if ! grep -qw avx512f /proc/cpuinfo; then
    for operation in "${!peers[@]}"; do
        peers[$operation]=$(tr ' ' '\n' <<<"${peers[$operation]}" | grep -v avx512 | tr '\n' ' ')
    done
fi

# The first memory domain, or the whole node where a virtual machine hides it.
domain=$(likwid-bench -p 2>/dev/null | awk '$1 == "Tag" && $2 ~ /^M0:/ {print "M0"}')
domain=${domain:-N}

likwid() { # KERNEL ITERATIONS
    likwid-bench -t "$1" -w "$domain:${bytes}B:$cores" -i "$2" 2>/dev/null |
        awk -v kernel="$1" '$1 == "MByte/s:" {printf "%s %.2f\n", kernel, $2 / 1000}'
}

times=$(mktemp)
trap 'rm -f "$times"' EXIT
for ((round = 0; round < rounds; round++)); do
    for operation in "${operations[@]}"; do
        target/release/examples/stream "$operation" "$bytes" "$cores" "$seconds" |
            sed "s/^/$operation fizeau /" >>"$times"
        for kernel in ${peers[$operation]}; do
            likwid "$kernel" 10 | sed "s/^/$operation likwid /" >>"$times"
        done
    done
done

echo "$rounds rounds, $cores cores, $((bytes >> 20)) MiB; GB/s, medians of the best kernel"
sort -k1,3 -k4,4n "$times" | awk '
    { key = $1 " " $2 " " $3; count[key]++; value[key, count[key]] = $4 }
    END {
        for (key in count) {
            n = count[key]
            median = (value[key, int((n + 1) / 2)] + value[key, int(n / 2) + 1]) / 2
            split(key, part, " ")
            who = part[1] " " part[2]
            if (median > best[who]) { best[who] = median; kernel[who] = part[3] }
            operations[part[1]] = 1
        }
        form = "%-6s %8.2f %-14s %8.2f %-20s %5.3f\n"
        printf "%-6s %8s %-14s %8s %-20s %5s\n", "", "fizeau", "", "likwid", "", "ratio"
        for (operation in operations) {
            ours = best[operation " fizeau"]; theirs = best[operation " likwid"]
            printf form, operation, ours, kernel[operation " fizeau"], theirs, \
                kernel[operation " likwid"], ours / theirs
        }
    }'
