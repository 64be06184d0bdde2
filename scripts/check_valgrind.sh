#!/usr/bin/env bash
# Runs the program on the stub driver under valgrind: no read or write beyond memory, no use of what
# was never written, nothing lost. Kernels run their own text, on stacks that stand further apart than
# any function's frame is long. The stub driver learns what a launch touches by page faults and has the
# instruction repeated, so that registers have to be exact at each access to memory.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

# valgrind reads the names of libc's functions from libc6-dbg.
command -v valgrind >/dev/null || install_packages valgrind libc6-dbg
build_program
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
stub_driver "$place/lib" libcublasLt.so.13

run() { # SCRIPT EXIT_CODE
    local status=0 own
    own=$(mktemp -d "$place/XXXXXX")
    FIZEAU_STUB=$1 FIZEAU_LIBRARY_PATH=$place/lib XDG_CACHE_HOME=$own/cache \
        FIZEAU_STUB_CACHE=$place/kernels \
        valgrind --quiet --max-stackframe=60000 \
        --vex-iropt-register-updates=allregs-at-mem-access \
        --leak-check=full --errors-for-leak-kinds=definite \
        --show-leak-kinds=definite --error-exitcode=99 \
        target/debug/fizeau run --suite tests/stub/suite.toml --out "$own/out" \
        'latency/4KiB/*' 'gemm/*/5x7x3/*' 'gemm/bf16/*/sm80_mma' 'stream/copy/512KiB/*' \
        'transfer/*/8B/*' 'launch/*' >"$own/said" 2>&1 || status=$?
    if [ "$status" != "$2" ]; then
        cat "$own/said"
        echo "FIZEAU_STUB='$1': exit code $status, not $2" >&2
        return 1
    fi
    echo "FIZEAU_STUB='$1': clean"
}

# Two at a time: valgrind runs the threads of a program one after the other.
run "devices=2" 0 &
run "cuLaunchKernelEx=1@9" 1
wait $!
run "cuMemAlloc_v2=2@6" 1 &
run "cuMemcpyAsync=1@7" 1
wait $!
