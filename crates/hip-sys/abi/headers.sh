#!/usr/bin/env bash
# Prints what HIP's headers say of each name in a file of this folder, in the file's lines and order:
#
#     headers.sh FOLDER FILE
#
# FOLDER/hip/hip_runtime_api.h is a header of HIP. A line `unknown NAME` is printed as it is; for
# another name that the headers do not have, the compiler's error says so.
set -euo pipefail
folder=$1 file=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
{
    cat <<'C'
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
// As C has them: for C++ the headers add templates of the same names.
#undef __cplusplus
#include <stdbool.h>
#undef bool
#undef true
#undef false
#define _Bool bool
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#include <hip/library_types.h>

using std::string;
// An integer or an enumeration by its size, a struct by its name, what is pointed to behind a star.
template <class T> struct Kind { static string is() { return "i" + std::to_string(sizeof(T)); } };
template <class T> struct Kind<T *> {
  static string is() { return "*" + Kind<std::remove_cv_t<T>>::is(); }
};
#define NAMED(T, NAME) template <> struct Kind<T> { static string is() { return NAME; } };
NAMED(void, "void") NAMED(float, "f4") NAMED(hipUUID, "hipUUID_t")
#define BY_NAME(T) NAMED(T, #T)
BY_NAME(ihipCtx_t) BY_NAME(ihipStream_t) BY_NAME(ihipEvent_t) BY_NAME(ihipModule_t)
BY_NAME(ihipModuleSymbol_t) BY_NAME(ihipGraph) BY_NAME(hipGraphExec) BY_NAME(_hiprtcProgram)
#ifdef hipGetDeviceProperties // HIP 6 puts a version into the names of both.
BY_NAME(hipDeviceProp_tR0600)
#else
typedef hipDeviceProp_t hipDeviceProp_tR0000;
BY_NAME(hipDeviceProp_tR0000)
#endif

template <class R, class... A> void function(const char *name, R (*)(A...)) {
  string all;
  ((all += (all.empty() ? "" : ", ") + Kind<A>::is()), ...);
  printf("fn %s(%s) -> %s\n", name, all.c_str(), Kind<R>::is().c_str());
}
int main() {
C
    sed -nE -e 's/^(#.*|unknown .*)$/puts("\1");/p' \
        -e 's/^fn (\w+)\(.*/function("\1", (decltype(\&\1))nullptr);/p' \
        -e 's/^number (\w+) .*/printf("number \1 = %ld\\n", (long)\1);/p' \
        -e 's/^size (\w+) .*/printf("size \1 = %zu\\n", sizeof(\1));/p' \
        -e 's/^field (\w+)\.(\w+) .*/printf("field \1.\2 = %zu, %zu\\n", offsetof(\1, \2), sizeof(((\1 *)0)->\2));/p' "$file"
    echo '}'
} >"$out/describe.cpp"
"${CXX:-c++}" -std=c++17 -w -I "$folder" -o "$out/describe" "$out/describe.cpp"
"$out/describe"
