#!/usr/bin/env bash
# The way to AMD's driver, without a GPU. The structs and numbers of HIP 5 are by Debian's headers what
# this program takes them to be; with `abi`, functions, structs and numbers of HIP 6, HIP 7 and
# hipBLASLt too, by bindings made of their headers, which builds the tests once more. Through the real library that Debian
# packages (HIP 5.2): every function that the program calls is there, its hipRTC compiles every
# portable kernel from the text that the program embeds, and without a device the program says that
# there is none.
#
# The library and its headers are installed where they are not, which needs Debian 12 and root.
set -euo pipefail
cd "$(dirname "$0")/.."

version=5.2.3-8
packages=("libamdhip64-5=$version" "libamdhip64-dev=$version")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fizeau-ci/libamdhip64-$version
if ! ldconfig -p | grep -q 'libamdhip64\.so\.5' || [ ! -e "$cache/complete" ]; then
    sudo=
    ((EUID == 0)) || sudo=sudo
    $sudo apt-get update -q >&2
    $sudo env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${packages[0]}" >&2
    # The headers alone: the package would bring a compiler with it.
    rm -rf "$cache"
    mkdir -p "$cache"
    (cd "$cache" && apt-get download -q "${packages[1]}" >&2 && dpkg-deb -x ./*.deb .)
    touch "$cache/complete"
fi

# What the program has in its text, as HIP 5 declares it.
number() { # NAME
    sed -nE "s/^.*const $1: [a-z_]+ = ([0-9_]+);.*/\1/p" src/device/hip/properties.rs | tr -d _
}
"${CC:-cc}" -std=c11 -Werror -fsyntax-only -x c -I "$cache/usr/include" - <<EOF
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <stddef.h>
_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == $(number ARCHITECTURE_OLD), "its place");
_Static_assert(sizeof(((hipDeviceProp_t*)0)->gcnArchName) == 256, "its length");
_Static_assert(sizeof(hipDeviceProp_t) <= 4096, "the struct");
_Static_assert(hipDeviceAttributeClockRate == $(number CLOCK_RATE), "clock");
_Static_assert(hipDeviceAttributeL2CacheSize == $(number L2_CACHE_SIZE), "cache");
_Static_assert(hipDeviceAttributeMemoryBusWidth == $(number MEMORY_BUS_WIDTH), "bus");
_Static_assert(hipDeviceAttributeMemoryClockRate == $(number MEMORY_CLOCK_RATE), "memory");
_Static_assert(hipDeviceAttributeMultiprocessorCount == $(number MULTIPROCESSOR_COUNT), "units");
_Static_assert(hipDeviceAttributeWarpSize == $(number WARP_SIZE), "lanes");
_Static_assert(hipMemcpyDefault == 4 && hipErrorPeerAccessAlreadyEnabled == 704, "copies");
_Static_assert(hipErrorNotReady == 600 && hipErrorECCNotCorrectable == 214, "codes");
_Static_assert(hipStreamCaptureModeThreadLocal == 1 && hipStreamNonBlocking == 1, "streams");
EOF
echo "HIP ${version%-*}: structs and numbers are as the program has them"

features=()
[ "${1:-}" != abi ] || features=(--features fizeau/hip-abi)
said=$(cargo test --locked --workspace "${features[@]}" --lib device::hip -- --nocapture 2>&1) || {
    echo "$said"
    exit 1
}
grep '^test ' <<<"$said"
if grep skipped <<<"$said"; then
    echo "fault: the library was not found" >&2
    exit 1
fi
cargo build --locked --workspace --quiet
devices=$(target/debug/fizeau devices)
if ! grep -m 1 -e 'AMD GPU not found' -e '^hip:0' <<<"$devices"; then
    echo "fault: what the program says of AMD's devices:" >&2
    echo "$devices" >&2
    exit 1
fi
