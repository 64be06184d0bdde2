#!/usr/bin/env python3
"""Holds what this program declares of NVIDIA's libraries against their headers: each function's
parameters (number, width, and whether integer, float or struct), numbers, sizes and places in
structs. Called by scripts/check_headers.sh, which installs the headers."""

import argparse
import pathlib
import re
import subprocess
import sys

# Where functions are declared, and the headers of those that begin so.
TABLES = [
    "src/device/cuda/driver.rs",
    "src/device/cuda/nvml.rs",
    "src/device/cuda/nvrtc.rs",
    "src/device/cuda/cublaslt.rs",
    "crates/nccl-rs/src/table.rs",
]
HEADERS = {
    "cu": "cuda.h",
    "nvml": "nvml.h",
    "nvrtc": "nvrtc.h",
    "cublasLt": "cublasLt.h",
    "nccl": "nccl.h",
}

# Parameters by how they travel: a pointer as an integer of 8 bytes.
KINDS = {
    "c_int": "i4", "c_uint": "i4", "i32": "i4", "u32": "i4", "u64": "i8", "i64": "i8",
    "usize": "i8", "u8": "i1", "c_char": "i1", "f32": "f4", "UniqueId": "s128",
    "Handle": "i8", "Sensor": "i8", "Program": "i8", "Comm": "i8", "Stream": "i8",
}

# Numbers: file, name here, name there.
NUMBERS = [
    ("src/device/cuda/code.rs", "NOT_READY", "CUDA_ERROR_NOT_READY"),
    ("src/device/cuda/driver.rs", "MAX_DYNAMIC_SHARED",
     "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"),
    ("src/device/cuda/driver.rs", "NON_PORTABLE_CLUSTER",
     "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"),
    ("src/device/cuda/driver.rs", "CLUSTER_DIMENSION", "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"),
    ("src/device/cuda/device.rs", "STREAM_NON_BLOCKING", "CU_STREAM_NON_BLOCKING"),
    ("src/device/cuda/device.rs", "PERSISTING_SIZE", "CU_LIMIT_PERSISTING_L2_CACHE_SIZE"),
    ("src/device/cuda/device.rs", "NOT_SUPPORTED", "CUDA_ERROR_NOT_SUPPORTED"),
    ("src/device/cuda/device.rs", "PROMOTE_256_BYTES", "CU_TENSOR_MAP_L2_PROMOTION_L2_256B"),
    ("src/device/cuda/graph.rs", "THREAD_LOCAL", "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL"),
    ("src/device/cuda/graph.rs", "NON_BLOCKING", "CU_STREAM_NON_BLOCKING"),
    ("src/device/cuda/lane.rs", "PORTABLE", "CU_MEMHOSTALLOC_PORTABLE"),
    ("src/device/cuda/lane.rs", "ALREADY_ENABLED", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"),
    ("src/device/cuda/nvml.rs", "CLOCK_SM", "NVML_CLOCK_SM"),
    ("src/device/cuda/nvml.rs", "CLOCK_MEMORY", "NVML_CLOCK_MEM"),
    ("src/device/cuda/nvml.rs", "FIELD_MEMORY_TEMPERATURE", "NVML_FI_DEV_MEMORY_TEMP"),
    ("src/device/cuda/nvml.rs", "EVENT_XID", "nvmlEventTypeXidCriticalError"),
    ("src/device/cuda/nvml.rs", "VOLATILE", "NVML_VOLATILE_ECC"),
    ("src/device/cuda/nvml.rs", "TIMEOUT", "NVML_ERROR_TIMEOUT"),
    ("src/device/cuda/cublaslt.rs", "SCALES", "CUBLASLT_MATMUL_DESC_A_SCALE_POINTER"),
    ("src/device/cuda/cublaslt.rs", "SCALE_MODE", "CUBLASLT_MATMUL_DESC_A_SCALE_MODE"),
    ("src/device/cuda/cublaslt.rs", "WORKSPACE_MAX", "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES"),
    ("crates/nccl-rs/src/types.rs", "IN_PROGRESS", "ncclInProgress"),
    ("crates/nccl-rs/src/types.rs", "SIZE", "NCCL_UNIQUE_ID_BYTES"),
    ("crates/nccl-rs/src/communicator.rs", "SYMMETRIC", "NCCL_WIN_COLL_SYMMETRIC"),
]

# Enums whose variants are named as there: file, name here, what stands before there.
ENUMS = [
    ("src/device/cuda/driver.rs", "Attribute", "CU_DEVICE_ATTRIBUTE_"),
    ("crates/nccl-rs/src/types.rs", "DataType", "nccl"),
]

# Facts about structs and types, as the program takes them to be.
FACTS = """
sizeof(CUlaunchConfig) == 56 && offsetof(CUlaunchConfig, blockDimX) == 12
offsetof(CUlaunchConfig, sharedMemBytes) == 24 && offsetof(CUlaunchConfig, hStream) == 32
offsetof(CUlaunchConfig, attrs) == 40 && offsetof(CUlaunchConfig, numAttrs) == 48
sizeof(CUlaunchAttribute) == 72 && offsetof(CUlaunchAttribute, value) == 8
sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) <= 128
sizeof(CUuuid) == 16
(long)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT == 1 && (long)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT == 2
CU_TENSOR_MAP_DATA_TYPE_UINT8 == 0 && CU_TENSOR_MAP_DATA_TYPE_FLOAT16 == 6
CU_TENSOR_MAP_DATA_TYPE_FLOAT32 == 7 && CU_TENSOR_MAP_DATA_TYPE_FLOAT64 == 8
CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 == 9 && CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B == 13
CU_TENSOR_MAP_SWIZZLE_32B == 1 && CU_TENSOR_MAP_SWIZZLE_64B == 2 && CU_TENSOR_MAP_SWIZZLE_128B == 3
sizeof(nvmlPciInfo_t) == 68 && offsetof(nvmlPciInfo_t, pciDeviceId) == 28
sizeof(nvmlFieldValue_t) == 40 && offsetof(nvmlFieldValue_t, value) == 32
offsetof(nvmlFieldValue_t, nvmlReturn) == 28
sizeof(nvmlEventData_t) == 32 && offsetof(nvmlEventData_t, eventData) == 16
NVML_TEMPERATURE_GPU == 0 && NVML_MEMORY_ERROR_TYPE_UNCORRECTED == 1
NVML_ERROR_NO_PERMISSION == 4 && NVML_ERROR_DRIVER_NOT_LOADED == 9
NVML_ERROR_GPU_IS_LOST == 15 && NVML_ERROR_LIB_RM_VERSION_MISMATCH == 18
nvmlClocksThrottleReasonHwSlowdown == 0x8 && nvmlClocksEventReasonSwThermalSlowdown == 0x20
nvmlClocksThrottleReasonHwThermalSlowdown == 0x40
nvmlClocksThrottleReasonHwPowerBrakeSlowdown == 0x80
sizeof(cublasLtMatmulHeuristicResult_t) == 96 && sizeof(cublasLtMatmulAlgo_t) == 64
offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64
offsetof(cublasLtMatmulHeuristicResult_t, state) == 72
CUBLASLT_MATMUL_DESC_TRANSA == 3 && CUBLAS_OP_T == 1 && CUBLASLT_MATMUL_DESC_FAST_ACCUM == 25
CUBLAS_STATUS_NOT_SUPPORTED == 15 && CUBLAS_STATUS_INVALID_VALUE == 7
CUDA_R_32F == 0 && CUDA_R_64F == 1 && CUDA_R_16F == 2 && CUDA_R_8I == 3 && CUDA_R_32I == 10
CUDA_R_16BF == 14 && CUDA_R_8F_E4M3 == 28 && CUDA_R_4F_E2M1 == 33
CUBLASLT_MATMUL_DESC_B_SCALE_POINTER == 18 && CUBLASLT_MATMUL_DESC_B_SCALE_MODE == 32
CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 == 1 && CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 == 2
CUBLAS_COMPUTE_32F == 68 && CUBLAS_COMPUTE_32F_FAST_TF32 == 77 && CUBLAS_COMPUTE_64F == 70
CUBLAS_COMPUTE_32I == 72
offsetof(ncclConfig_t, magic) == 8 && offsetof(ncclConfig_t, version) == 12
offsetof(ncclConfig_t, blocking) == 16 && NCCL_CONFIG_UNDEF_INT == INT_MIN
((ncclConfig_t)NCCL_CONFIG_INITIALIZER).magic == 0xcafebeef
ncclSuccess == 0 && ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4
"""

SOURCE = """
#include <climits>
#include <cstddef>
#include <type_traits>
#include <cuda.h>
#include <nvml.h>
#include <nvrtc.h>
#include <cublasLt.h>
#include <nccl.h>

template <class T> constexpr int kind() {
  if constexpr (std::is_floating_point_v<T>) return 'f' * 1000 + sizeof(T);
  else if constexpr (std::is_class_v<T>) return 's' * 1000 + sizeof(T);
  else return 'i' * 1000 + sizeof(T);
}
template <int... K> struct Kinds {};
template <class R, class... A> constexpr Kinds<kind<R>(), kind<A>()...> kinds(R (*)(A...));
template <auto F, int... K> constexpr bool like =
    std::is_same_v<decltype(kinds(F)), Kinds<K...>>;
"""


def functions(text):
    """Names, parameters' types and the result's of each function of a table."""
    row = r'\w+ = ("\w+"(?:\s*or "\w+")*)\s*\(((?:[^()])*)\)\s*(?:->\s*([^;]+))?;'
    for names, parameters, result in re.findall(row, text):
        types = [one.split(": ")[-1].strip() for one in re.split(r",(?![^\[]*\])", parameters)]
        yield re.findall(r'"(\w+)"', names), [one for one in types if one], result or "c_int"


def kind(of):
    """How a parameter of a type of Rust's travels, as the C++ below counts."""
    plain = "i8" if of.startswith("*") else KINDS[of.split("::")[-1]]
    return f"'{plain[0]}' * 1000 + {plain[1:]}"


def header_of(names):
    """The header of functions by the longest beginning that is known; none where none is."""
    for begins in sorted(HEADERS, key=len, reverse=True):
        if any(name.startswith(begins) for name in names):
            return HEADERS[begins]
    return None


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def lower(found):
    return found[0].lower()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", help="folders of headers")
    folders = [pathlib.Path(one) for one in parser.parse_args().folders]
    texts = {}
    for header in HEADERS.values():
        found = [folder / header for folder in folders if (folder / header).exists()]
        if not found:
            sys.exit(f"fault: {header} is in none of {', '.join(map(str, folders))}")
        texts[header] = found[0].read_text()
    asserts, checked, faults = [], 0, []
    for table in TABLES:
        for names, types, result in functions(pathlib.Path(table).read_text()):
            ours = [name for name in names if not name.startswith(("hip", "fizeau"))]
            header = header_of(ours)
            if header is None:
                continue
            declared = [one for one in ours if re.search(rf"\b{one}\b", texts[header])]
            if not declared:
                faults.append(f"{table}: {header} declares no {' or '.join(ours)}")
            for name in declared:
                all_kinds = ", ".join([kind(result), *map(kind, types)])
                asserts.append((f"{table}: {name}", f"like<&{name}, {all_kinds}>"))
                checked += 1
    for file, here, there in NUMBERS:
        text = pathlib.Path(file).read_text()
        value = re.search(rf"\bconst {here}: \w+ = (0x[0-9a-f_]+|[0-9_]+);", text)
        if value is None:
            faults.append(f"{file}: no number {here}")
            continue
        asserts.append((f"{file}: {here}", f"(long){there} == {value[1].replace('_', '')}"))
    for file, here, before in ENUMS:
        body = re.search(rf"pub enum {here} {{(.*?)\n}}", pathlib.Path(file).read_text(), re.S)[1]
        for name, value in re.findall(r"^\s*(\w+) = (\d+),", body, re.M):
            there = before + (snake(name) if before.isupper() else re.sub(r"E\dM\d", lower, name))
            asserts.append((f"{file}: {here}::{name}", f"(long){there} == {value}"))
    asserts += [(fact, fact) for fact in FACTS.strip().splitlines()]
    codes = pathlib.Path("src/device/cuda/code.rs").read_text()
    listed = re.findall(r"^\s*\((\d+), \"", codes, re.M)
    results = re.search(r"typedef enum cudaError_enum {(.*?)} CUresult;", texts["cuda.h"], re.S)[1]
    results = set(re.findall(r"=\s*(\d+)", results))
    faults += [f"code.rs: cuda.h has no code {code}" for code in listed if code not in results]

    # One line for each, so that a fault names it.
    source = SOURCE + "".join(f'static_assert({what}, "{name}");\n' for name, what in asserts)
    command = ["g++", "-std=c++17", "-fsyntax-only", "-x", "c++", "-"]
    command += [f"-I{folder}" for folder in folders]
    run = subprocess.run(command, input=source, capture_output=True, text=True)
    if run.returncode != 0:
        faults += [line for line in run.stderr.splitlines() if " error: " in line]
    for fault in faults:
        print(f"fault: {fault}")
    others = len(asserts) - checked
    print(f"{checked} functions, {others} numbers and facts, {len(listed)} codes, "
          f"{len(faults)} faults")
    sys.exit(bool(faults))


main()
