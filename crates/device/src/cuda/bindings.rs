//! What is called of NVIDIA's libraries and what they are given, against NVIDIA's headers:
//! functions by the crates that were made from them, and what those crates say of structs and
//! numbers by what a C++ compiler said of the headers of CUDA 13.0. For tests.

use super::{cublaslt, driver::CUDA};
use crate::gpu::{
    blas_lt, compiler,
    sensors::{is_throttled, spelled},
    table,
};
use cudarc::{
    cublaslt::sys as lt,
    driver::sys::{self as cu, CUdevice_attribute as Attribute},
};
use fizeau_domain::dtype::Dtype;
use fizeau_signatures::{Called, Passed, Signature, Table, declared, faults, nvidia};
use nvml_wrapper_sys::bindings as nvml;
use std::mem::offset_of;

fn driver() -> Vec<(&'static str, Signature)> {
    nvidia! { driver declared [unsafe fn] cudarc::driver::sys:
        cuLaunchKernel(_, _, _, _, _, _, _, _, _, _, _)
    }
}

fn nvrtc() -> Vec<(&'static str, Signature)> {
    nvidia! { nvrtc declared [unsafe fn] cudarc::nvrtc::sys: }
}

fn blas() -> Vec<(&'static str, Signature)> {
    nvidia! { cublaslt declared [unsafe fn] cudarc::cublaslt::sys: }
}

const NONE: [&str; 0] = [];

#[test]
fn functions_are_called_as_the_headers_declare_them() {
    assert_eq!(faults(&table::Functions::called(), "cu", &driver()), NONE);
    assert_eq!(faults(&compiler::Functions::called(), "nvrtc", &nvrtc()), NONE);
    assert_eq!(faults(&blas_lt::Functions::called(), "cublasLt", &blas()), NONE);
}

#[test]
fn a_planted_wrong_signature_is_found() {
    let with = |name: &str, plant: &dyn Fn(&mut Vec<Passed>)| -> Vec<Called> {
        let mut called = table::Functions::called();
        let found = called.iter_mut().find(|(names, _)| names.contains(&name));
        plant(&mut found.expect("in the table").1.takes);
        called
    };
    let wide = with("cuMemAlloc_v2", &|takes| takes[1] = Passed::Value(4));
    let told = ["cuMemAlloc_v2: parameter 2 is Value(4), Value(8) by the headers"];
    assert_eq!(faults(&wide, "cu", &driver()), told);
    let short = with("cuEventQuery", &|takes| takes.clear());
    let told = ["cuEventQuery: 0 parameters, 1 by the headers"];
    assert_eq!(faults(&short, "cu", &driver()), told);
}

/// What differs between what is there and what the headers say.
fn differing(rows: &[(&str, usize, usize)]) -> Vec<String> {
    let faults = rows.iter().filter(|(_, here, there)| here != there);
    let told = |(what, here, there): &(&str, usize, usize)| {
        format!("{what} is {here}, {there} by the headers")
    };
    faults.map(told).collect()
}

#[test]
fn structs_are_laid_out_as_in_the_headers() {
    type Config = cu::CUlaunchConfig;
    type Field = nvml::nvmlFieldValue_t;
    let layouts = [
        ("CUlaunchConfig", size_of::<Config>(), 56),
        ("CUlaunchConfig.blockDimX", offset_of!(Config, blockDimX), 12),
        ("CUlaunchConfig.sharedMemBytes", offset_of!(Config, sharedMemBytes), 24),
        ("CUlaunchConfig.hStream", offset_of!(Config, hStream), 32),
        ("CUlaunchConfig.attrs", offset_of!(Config, attrs), 40),
        ("CUlaunchConfig.numAttrs", offset_of!(Config, numAttrs), 48),
        ("CUlaunchAttribute", size_of::<cu::CUlaunchAttribute>(), 72),
        ("CUlaunchAttribute's alignment", align_of::<cu::CUlaunchAttribute>(), 8),
        ("CUlaunchAttribute.value", offset_of!(cu::CUlaunchAttribute, value), 8),
        ("CUtensorMap", size_of::<cu::CUtensorMap>(), 128),
        ("CUtensorMap's alignment", align_of::<cu::CUtensorMap>(), 128),
        ("CUuuid", size_of::<cu::CUuuid>(), size_of::<[u8; 16]>()),
        ("cublasLtMatmulAlgo_t", cublaslt::CUBLASLT.algorithm, 64),
        ("cublasLtMatmulHeuristicResult_t", cublaslt::CUBLASLT.found[0], 96),
        ("cublasLtMatmulHeuristicResult_t.state", cublaslt::CUBLASLT.found[1], 72),
        ("nvmlPciInfo_t", size_of::<nvml::nvmlPciInfo_t>(), 68),
        ("nvmlPciInfo_t.pciDeviceId", offset_of!(nvml::nvmlPciInfo_t, pciDeviceId), 28),
        ("nvmlFieldValue_t", size_of::<Field>(), 40),
        ("nvmlFieldValue_t.nvmlReturn", offset_of!(Field, nvmlReturn), 28),
        ("nvmlFieldValue_t.value", offset_of!(Field, value), 32),
        ("nvmlEventData_t", size_of::<nvml::nvmlEventData_t>(), 32),
        ("nvmlEventData_t.eventData", offset_of!(nvml::nvmlEventData_t, eventData), 16),
    ];
    assert_eq!(differing(&layouts), NONE);
    // One of another version, or of another struct, would be told.
    let planted = differing(&[("CUlaunchConfig.attrs", offset_of!(Config, hStream), 40)]);
    assert_eq!(planted, ["CUlaunchConfig.attrs is 32, 40 by the headers"]);
}

#[test]
fn numbers_are_those_of_the_headers() {
    let flags = CUDA.flags;
    let products = &cublaslt::CUBLASLT;
    let scales = products.scales.as_ref().expect("types with scales");
    let attributes = [
        (Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13),
        (Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16),
        (Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36),
        (Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37),
        (Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38),
        (Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75),
        (Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76),
        (Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97),
    ];
    let mut rows: Vec<(&str, usize, usize)> = vec![
        ("a stream that does not block", flags.non_blocking as usize, 1),
        ("a capture of one thread", flags.thread_local as usize, 1),
        ("portable host memory", flags.portable as usize, 1),
        ("mapped host memory", flags.mapped as usize, 2),
        ("a launch's parameters", flags.extras[0], 1),
        ("their size", flags.extras[1], 2),
        ("the end of a launch's extras", flags.extras[2], 0),
        ("what of the cache is set aside", CUDA.set_aside.map_or(0, |of| of as usize), 6),
        ("a product's transposed operand", products.transpose.0 as usize, 3),
        ("transposed", products.transpose.1 as usize, 1),
        ("fast sums", products.fast_sums.map_or(0, |of| of as usize), 25),
        ("scratch memory", products.workspace_max as usize, 1),
        ("the scales of A", scales.pointers[0] as usize, 17),
        ("the scales of B", scales.pointers[1] as usize, 18),
        ("how A has scales", scales.modes[0] as usize, 31),
        ("how B has scales", scales.modes[1] as usize, 32),
        ("scales of nvfp4", (scales.mode)(Dtype::Nvfp4).map_or(0, |of| of as usize), 1),
        ("scales of mxfp8", (scales.mode)(Dtype::Mxfp8).map_or(0, |of| of as usize), 2),
        ("not supported", products.unsupported[0] as usize, 15),
        ("an invalid value", products.unsupported[1] as usize, 7),
    ];
    rows.extend(attributes.map(|(of, number)| ("an attribute", of as usize, number)));
    assert_eq!(differing(&rows), NONE);
    // A number of another name would be told.
    let planted = cu::CU_MEMHOSTALLOC_WRITECOMBINED as usize;
    let planted = differing(&[("mapped host memory", planted, 2)]);
    assert_eq!(planted, ["mapped host memory is 4, 2 by the headers"]);
}

#[test]
fn element_types_are_asked_for_by_the_headers_numbers() {
    let by_header = [
        (Dtype::F64, [1, 1, 70, 1]),
        (Dtype::F32, [0, 0, 68, 0]),
        (Dtype::Tf32, [0, 0, 77, 0]),
        (Dtype::F16, [2, 2, 68, 0]),
        (Dtype::Bf16, [14, 14, 68, 0]),
        (Dtype::Int8, [3, 10, 72, 10]),
        (Dtype::Fp8, [28, 14, 68, 0]),
        (Dtype::Mxfp8, [28, 14, 68, 0]),
        (Dtype::Nvfp4, [33, 14, 68, 0]),
    ];
    let kinds = cublaslt::kinds((10, 0));
    let ours = kinds.iter().map(|k| (k.dtype, [k.operand, k.output, k.compute, k.scale]));
    assert_eq!(ours.collect::<Vec<_>>(), by_header);
    assert_eq!(lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS as i32, 0);
}

#[test]
fn reasons_for_a_clock_are_told_by_nvmls_bits() {
    let rows = [
        (nvml::nvmlClocksEventReasonApplicationsClocksSetting, "clocks set by a user", false),
        (nvml::nvmlClocksEventReasonSwPowerCap, "power cap", false),
        (nvml::nvmlClocksThrottleReasonHwSlowdown, "hardware slowdown", true),
        (nvml::nvmlClocksEventReasonSyncBoost, "sync boost", false),
        (nvml::nvmlClocksEventReasonSwThermalSlowdown, "software thermal slowdown", true),
        (nvml::nvmlClocksThrottleReasonHwThermalSlowdown, "hardware thermal slowdown", true),
        (nvml::nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "hardware power brake", true),
        (nvml::nvmlClocksEventReasonDisplayClockSetting, "display clocks", false),
    ];
    for (bit, words, held) in rows {
        assert_eq!(spelled(u64::from(bit)), [words]);
        assert_eq!(is_throttled(u64::from(bit)), held, "{words}");
    }
    assert_eq!(spelled(u64::from(nvml::nvmlClocksEventReasonGpuIdle)), NONE);
    assert_eq!(nvml::field_id::NVML_FI_DEV_MEMORY_TEMP, 82);
    assert_eq!(nvml::nvmlEventTypeXidCriticalError, 8);
}
