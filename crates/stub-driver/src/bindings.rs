//! The functions of this stub, against NVIDIA's headers: a stub with other parameters than the
//! driver has would be called well by a program that calls the driver wrong. For tests.

use fizeau_signatures::{Called, Passed, Signature, declared, faults, nvidia, of_field};
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
        nvmlEventSetWait_v2(_, _, _) nvmlDeviceGetMigMode(_, _, _)
        nvmlDeviceGetVirtualizationMode(_, _) nvmlSystemGetConfComputeState(_)
        nvmlDeviceGetGpuFabricInfoV(_, _)
    }
}

#[test]
fn functions_are_those_of_the_headers() {
    const NONE: [&str; 0] = [];
    let (ours, theirs) = nvml();
    assert_eq!(faults(&ours, "nvml", &theirs), NONE);
    let (ours, theirs) = nvidia! { driver both cudarc::driver::sys: };
    assert_eq!(faults(&ours, "cu", &theirs), NONE);
    let (ours, theirs) = nvidia! { nvrtc both cudarc::nvrtc::sys: };
    assert_eq!(faults(&ours, "nvrtc", &theirs), NONE);
    let (ours, theirs) = nvidia! { cublaslt both cudarc::cublaslt::sys: };
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
