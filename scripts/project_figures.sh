#!/usr/bin/env bash
# Writes docs/appendix/project-figures.md: how near published rates of tokens come to the tiers of `fizeau project`,
# and how long a projection takes on this machine. Fails where a point takes longer than 10 ms, or 10^4
# points longer than 5 s.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/checks
cargo run --locked --quiet --example project_figures >target/checks/project-figures.md
mv target/checks/project-figures.md docs/appendix/project-figures.md
echo "docs/appendix/project-figures.md is written"
