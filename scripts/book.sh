#!/usr/bin/env bash
# Makes the pages of docs/ a book in target/book, by a pinned mdBook that is built once into the cache.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
version=0.4.52
tool=$cache/mdbook-$version
[ -x "$tool/bin/mdbook" ] || cargo install --quiet --locked "mdbook@$version" --root "$tool"
"$tool/bin/mdbook" build docs
echo "target/book/index.html"
