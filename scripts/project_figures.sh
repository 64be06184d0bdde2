#!/usr/bin/env bash
# Writes docs/appendix/project-figures.md: how near published rates of tokens come to the tiers of `fizeau project`,
# and how long a projection takes on this machine. Fails where a point takes longer than 10 ms, or 10^4
# points longer than 5 s.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target/checks
cargo run --locked --quiet --example project_figures >target/checks/project-figures.md
{
    printf '\n## All measurements by class\n\n'
    printf 'What `fizeau project --validate built-in --format markdown` prints, without its table of all.\n\n'
    cargo run --locked --quiet --bin fizeau -- project --validate built-in --format markdown |
        sed -n '/^### Measured/,/^### All measurements/p' | sed '/^### All measurements/d'
} >>target/checks/project-figures.md
mv target/checks/project-figures.md docs/appendix/project-figures.md
echo "docs/appendix/project-figures.md is written"
