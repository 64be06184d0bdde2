#!/usr/bin/env bash
# AMD's HIP without a GPU, by what Debian 12 packages (HIP 5.2). The headers say of every declaration of
# crates/hip-sys what crates/hip-sys/abi/hip-5.2.txt says; the real library exports every function that
# the crate calls; its hipRTC compiles every portable kernel from the text that the program embeds;
# and without a device the program says that there is none.
#
# With `abi`, also: the other files of crates/hip-sys/abi are what bindings of HIP 6, HIP 7 and
# hipBLASLt say. That compiles the bindings, and matters only where these files change: the tests of
# the crate compare its declarations with all files in any case.
#
# The library and its headers are installed where they are not, which needs Debian 12 and root.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

version=5.2.3-8
packages=("libamdhip64-5=$version" "libamdhip64-dev=$version")
headers=$cache/libamdhip64-$version
if ! grep -q 'libamdhip64\.so\.5' <<<"$(ldconfig -p)" || [ ! -e "$headers/complete" ]; then
    install_packages --no-install-recommends "${packages[0]}"
    # The headers alone: the package would bring a compiler with it.
    rm -rf "$headers"
    mkdir -p "$headers"
    (cd "$headers" && apt-get download -q "${packages[1]}" >&2 && dpkg-deb -x ./*.deb .)
    touch "$headers/complete"
fi

held=crates/hip-sys/abi/hip-5.2.txt
if ! diff "$held" <(bash crates/hip-sys/abi/headers.sh "$headers/usr/include" "$held"); then
    echo "fault: $held is not what the headers of HIP ${version%-*} say" >&2
    exit 1
fi
echo "HIP ${version%-*}: $(grep -vc '^[#u]' "$held") functions, numbers and places are as in $held"

if [ "${1:-}" = abi ]; then
    # One feature for one version of the headers: the newest of those asked for is taken.
    for features in abi abi,rocmrc/rocm-07024; do
        cargo test --locked -p hip-sys --features "$features" --lib abi::
    done
fi

required_tests --test tables the_real_library
required_tests --lib hip::
build_program
devices=$(target/debug/fizeau devices)
if ! grep -m 1 -e 'AMD GPU not found' -e '^hip:0' <<<"$devices"; then
    echo "fault: what the program says of AMD's devices:" >&2
    echo "$devices" >&2
    exit 1
fi
