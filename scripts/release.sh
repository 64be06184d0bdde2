#!/usr/bin/env bash
# Builds fizeau for other machines and packs it: a stripped binary, completions, the manual page,
# README and licences, as target/release-pack/fizeau-VERSION-x86_64-linux.tar.xz with its SHA-256.
#
# A binary runs where glibc is at least as new as the one it was linked against. The oldest one that
# can be had here is taken:
#   1. cargo-zigbuild (pip install cargo-zigbuild ziglang) links against GLIBC below;
#   2. podman or docker builds in a container of an old Debian (IMAGE below, glibc 2.31);
#   3. else this machine's own linker does, and the glibc that the binary then needs is printed.
# Usage: scripts/release.sh [zigbuild|container|here]
set -euo pipefail
cd "$(dirname "$0")/.."

GLIBC=${GLIBC:-2.28}
IMAGE=${IMAGE:-docker.io/library/rust:1.95-bullseye}
# Bytes of the program. It is there to notice symbols, debug information or a second copy of the kernels.
# A release without GPU kernels had 22.4 MB on 2026-11-27: three quarters are code, a tenth is data, the
# rest are tables for unwinding and relocation. Kernels of all targets come on top: 445 binaries of NVIDIA's
# and AMD's, 69.7 MB on 2026-11-29, of which xz leaves 6.5 MB. What travels is the archive, which is less than
# half as large.
LARGEST=$((45 * 1000 * 1000))
target=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n '0,/^version = /s/^version = "\(.*\)"/\1/p' Cargo.toml)
pack=target/release-pack

engine() { # the container engine that is there and answers; nothing where none is
    local engine
    for engine in podman docker; do
        if "$engine" info >/dev/null 2>&1; then
            echo "$engine"
            return
        fi
    done
}
way=${1:-}
if [ -z "$way" ]; then
    if cargo zigbuild --version >/dev/null 2>&1; then
        way=zigbuild
    elif [ -n "$(engine)" ]; then
        way=container
    else
        way=here
    fi
fi

case $way in
zigbuild)
    cargo zigbuild --locked --release --bin fizeau --target "$target.$GLIBC"
    built=target/$target/release/fizeau
    ;;
container)
    "$(engine)" run --rm -v "$PWD:/source" -w /source -e CARGO_TARGET_DIR=/source/target/container \
        "$IMAGE" cargo build --locked --release --bin fizeau
    built=target/container/release/fizeau
    ;;
here)
    cargo build --locked --release --bin fizeau
    built=target/release/fizeau
    ;;
*)
    echo "usage: scripts/release.sh [zigbuild|container|here]" >&2
    exit 2
    ;;
esac

name=fizeau-$version-$(uname -m)-linux
folder=$pack/$name
rm -rf "$folder"
mkdir -p "$folder/completions" "$folder/man"
cp "$built" "$folder/fizeau"
strip "$folder/fizeau"
for shell in bash zsh fish; do
    "$folder/fizeau" completions "$shell" >"$folder/completions/fizeau.$shell"
done
"$folder/fizeau" man >"$folder/man/fizeau.1"
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE crates/report/src/format/fonts/LICENCE "$folder/"
mv "$folder/LICENCE" "$folder/LICENCE-DejaVu"

size=$(stat -c %s "$folder/fizeau")
if [ "$size" -gt "$LARGEST" ]; then
    echo "fizeau has $size bytes, more than the $LARGEST that a release may have" >&2
    exit 1
fi
# The newest version of glibc that any symbol asks for.
needed=$(objdump -T "$folder/fizeau" | grep -o 'GLIBC_[0-9][0-9.]*' | sort -Vu | tail -n 1)
XZ_OPT=-9e tar -C "$pack" -cJf "$pack/$name.tar.xz" "$name"
(cd "$pack" && sha256sum "$name.tar.xz" >"$name.tar.xz.sha256")
echo "$pack/$name.tar.xz: built by $way, binary $size bytes, needs ${needed/_/ } or newer"
