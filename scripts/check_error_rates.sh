#!/usr/bin/env bash
# Whether docs/error-rates.md is what its command prints now.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/checks
cargo run --locked --quiet --example error_rates >target/checks/error-rates.md
if ! diff docs/error-rates.md target/checks/error-rates.md; then
    echo "docs/error-rates.md is not what cargo run --example error_rates prints: a rule changed" >&2
    exit 1
fi
