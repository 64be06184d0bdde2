//! The functions of this stub, against NVIDIA's headers: a stub with other parameters than the
//! driver has would be called well by a program that calls the driver wrong. For tests.

use fizeau_signatures::{Called, Passed, Signature, declared, faults, of_field};
use nvml_wrapper_sys::bindings::NvmlLib;

/// Functions of ours, and what a crate declares of the same names.
macro_rules! both {
    ($theirs:path: $( $name:ident ( $($any:tt)* ) )*) => {(
        called(declared! { [unsafe extern "C" fn] crate: $( $name($($any)*) )* }),
        declared! { [unsafe fn] $theirs: $( $name($($any)*) )* },
    )};
    ($( $name:ident ( $($any:tt)* ) )*) => {(
        called(declared! { [unsafe extern "C" fn] crate: $( $name($($any)*) )* }),
        vec![$( (stringify!($name), of_field(|library: &NvmlLib| &library.$name)) ),*],
    )};
}

fn called(functions: Vec<(&'static str, Signature)>) -> Vec<Called> {
    functions.into_iter().map(|(name, signature)| (vec![name], signature)).collect()
}

fn nvml() -> (Vec<Called>, Vec<(&'static str, Signature)>) {
    both! {
        nvmlInit_v2() nvmlSystemGetDriverVersion(_, _) nvmlDeviceGetHandleByPciBusId_v2(_, _)
        nvmlDeviceGetHandleByUUID(_, _) nvmlDeviceGetPciInfo_v3(_, _)
        nvmlDeviceGetClockInfo(_, _, _) nvmlDeviceGetPowerUsage(_, _)
        nvmlDeviceGetEnforcedPowerLimit(_, _) nvmlDeviceGetEccMode(_, _, _)
        nvmlDeviceGetPowerManagementLimit(_, _) nvmlDeviceGetPowerManagementDefaultLimit(_, _)
        nvmlDeviceGetPowerManagementLimitConstraints(_, _, _)
        nvmlDeviceSetPowerManagementLimit(_, _) nvmlDeviceSetGpuLockedClocks(_, _, _)
        nvmlDeviceResetGpuLockedClocks(_) nvmlDeviceGetMaxClockInfo(_, _, _)
        nvmlDeviceGetVbiosVersion(_, _, _) nvmlDeviceGetApplicationsClock(_, _, _)
        nvmlDeviceGetUUID(_, _, _) nvmlDeviceGetSerial(_, _, _)
        nvmlDeviceGetDefaultApplicationsClock(_, _, _) nvmlDeviceGetTotalEnergyConsumption(_, _)
        nvmlDeviceGetTemperature(_, _, _) nvmlDeviceGetCurrentClocksEventReasons(_, _)
        nvmlDeviceGetTotalEccErrors(_, _, _, _) nvmlDeviceGetRemappedRows(_, _, _, _, _)
        nvmlDeviceGetPcieReplayCounter(_, _) nvmlDeviceGetCurrPcieLinkGeneration(_, _)
        nvmlDeviceGetCurrPcieLinkWidth(_, _) nvmlDeviceGetMaxPcieLinkGeneration(_, _)
        nvmlDeviceGetMaxPcieLinkWidth(_, _) nvmlDeviceGetNvLinkState(_, _, _)
        nvmlDeviceGetNvLinkErrorCounter(_, _, _, _) nvmlDeviceGetFieldValues(_, _, _)
        nvmlEventSetCreate(_) nvmlEventSetFree(_) nvmlDeviceRegisterEvents(_, _, _)
        nvmlEventSetWait_v2(_, _, _)
    }
}

#[test]
fn functions_are_those_of_the_headers() {
    const NONE: [&str; 0] = [];
    let (ours, theirs) = nvml();
    assert_eq!(faults(&ours, "nvml", &theirs), NONE);
    let (ours, theirs) = both! { cudarc::driver::sys:
        cuInit(_) cuDriverGetVersion(_) cuDeviceGetCount(_) cuDeviceGet(_, _)
        cuDeviceGetName(_, _, _) cuDeviceGetUuid_v2(_, _) cuDeviceGetPCIBusId(_, _, _)
        cuDeviceTotalMem_v2(_, _) cuDeviceGetAttribute(_, _, _) cuDevicePrimaryCtxRetain(_, _)
        cuDevicePrimaryCtxRelease_v2(_) cuCtxSetCurrent(_) cuCtxResetPersistingL2Cache()
        cuMemGetInfo_v2(_, _) cuMemAlloc_v2(_, _) cuMemFree_v2(_) cuMemHostAlloc(_, _, _)
        cuMemHostGetDevicePointer_v2(_, _, _) cuMemFreeHost(_) cuMemsetD8Async(_, _, _, _)
        cuMemcpyHtoDAsync_v2(_, _, _, _) cuMemcpyDtoHAsync_v2(_, _, _, _) cuStreamCreate(_, _)
        cuStreamDestroy_v2(_) cuEventCreate(_, _) cuEventDestroy_v2(_) cuEventRecord(_, _)
        cuEventQuery(_) cuEventElapsedTime_v2(_, _, _) cuModuleLoadData(_, _) cuModuleUnload(_)
        cuModuleGetFunction(_, _, _) cuFuncLoad(_) cuFuncSetAttribute(_, _, _)
        cuFuncGetAttribute(_, _, _) cuFuncGetParamInfo(_, _, _, _)
        cuLaunchKernelEx(_, _, _, _) cuTensorMapEncodeTiled(_, _, _, _, _, _, _, _, _, _, _, _)
        cuMemcpyAsync(_, _, _, _) cuStreamWaitEvent(_, _, _) cuDeviceCanAccessPeer(_, _, _)
        cuCtxEnablePeerAccess(_, _) cuCtxGetLimit(_, _) cuStreamBeginCapture_v2(_, _)
        cuStreamEndCapture(_, _) cuGraphInstantiateWithFlags(_, _, _) cuGraphLaunch(_, _)
        cuGraphExecDestroy(_) cuGraphDestroy(_)
    };
    assert_eq!(faults(&ours, "cu", &theirs), NONE);
    let (ours, theirs) = both! { cudarc::nvrtc::sys:
        nvrtcVersion(_, _) nvrtcCreateProgram(_, _, _, _, _, _) nvrtcCompileProgram(_, _, _)
        nvrtcGetProgramLogSize(_, _) nvrtcGetProgramLog(_, _) nvrtcGetCUBINSize(_, _)
        nvrtcGetCUBIN(_, _) nvrtcGetPTXSize(_, _) nvrtcGetPTX(_, _) nvrtcDestroyProgram(_)
    };
    assert_eq!(faults(&ours, "nvrtc", &theirs), NONE);
    let (ours, theirs) = both! { cudarc::cublaslt::sys:
        cublasLtCreate(_) cublasLtDestroy(_) cublasLtGetProperty(_, _)
        cublasLtMatmulDescCreate(_, _, _)
        cublasLtMatmulDescSetAttribute(_, _, _, _) cublasLtMatmulDescDestroy(_)
        cublasLtMatrixLayoutCreate(_, _, _, _, _) cublasLtMatrixLayoutDestroy(_)
        cublasLtMatmulPreferenceCreate(_) cublasLtMatmulPreferenceSetAttribute(_, _, _, _)
        cublasLtMatmulPreferenceDestroy(_)
        cublasLtMatmulAlgoGetHeuristic(_, _, _, _, _, _, _, _, _, _)
        cublasLtMatmul(_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _)
    };
    assert_eq!(faults(&ours, "cublasLt", &theirs), NONE);
}

#[test]
fn a_planted_wrong_signature_is_found() {
    let (mut ours, theirs) = nvml();
    let clock = ours.iter_mut().find(|(names, _)| names == &["nvmlDeviceGetClockInfo"]);
    clock.expect("in the list").1.takes[2] = Passed::Pointer(true, Some(8));
    let told = "nvmlDeviceGetClockInfo: parameter 3 is Pointer(true, Some(8)), \
                Pointer(true, Some(4)) by the headers";
    assert_eq!(faults(&ours, "nvml", &theirs), [told]);
}
