#!/usr/bin/env bash
# Every check of this repository, in the order in which they are quick to fail.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --locked --workspace --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
cargo test --locked --workspace

# GPU kernels and the way to the driver, which need no GPU: every kernel for every target by three
# compilers, from the text that the program embeds too; what it declares of NVIDIA's libraries by
# their headers; and the program on a stub driver under valgrind. The whole of what they say is kept
# in target/checks/.
mkdir -p target/checks
summarised() { # script
    local said=target/checks/$1.txt
    if ! bash "scripts/$1.sh" >"$said" 2>&1; then
        grep '^fault' "$said" | head -n 40 >&2 || true
        tail -n 40 "$said" >&2
        echo "scripts/$1.sh failed; the whole of it: $said" >&2
        exit 1
    fi
    echo "scripts/$1.sh:"
    tail -n 3 "$said"
}
summarised kernels
summarised kernels_amd
summarised check_nvrtc
summarised check_headers
# What peers give PyTorch, whose kernels need a GPU: by a stand-in.
python3 scripts/check_peers.py
summarised check_valgrind
# Debian's own HIP, which opens without a GPU.
summarised check_hip
# NVIDIA's own NCCL, which opens without a GPU.
summarised check_nccl

# What a new user runs first, from a release build: it must leave a record and a report.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo build --locked --release
timeout 120 target/release/fizeau run --out "$out/run" >"$out/report.txt"
test -s "$out/run/record.jsonl"
test -s "$out/run/report.html"
tail -n 5 "$out/report.txt"
