#!/usr/bin/env bash
# Every check of this repository, in the order in which they are quick to fail.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --locked --workspace --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
cargo test --locked --workspace

# What a new user runs first, from a release build: it must leave a record and a report.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo build --locked --release
timeout 120 target/release/fizeau run --out "$out/run" >"$out/report.txt"
test -s "$out/run/record.jsonl"
test -s "$out/run/report.html"
tail -n 5 "$out/report.txt"
