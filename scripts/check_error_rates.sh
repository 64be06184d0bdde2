#!/usr/bin/env bash
# Whether docs/appendix/error-rates.md and docs/appendix/accept-rates.md are what their commands print now.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/checks
for name in error accept; do
    page=$name-rates.md
    cargo run --locked --quiet --example "${name}_rates" >"target/checks/$page"
    if ! diff "docs/appendix/$page" "target/checks/$page"; then
        echo "docs/appendix/$page is not what cargo run --example ${name}_rates prints: a rule changed" >&2
        exit 1
    fi
done
