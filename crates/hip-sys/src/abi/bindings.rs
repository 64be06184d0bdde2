//! The files in `abi/` that are made from bindings of AMD's headers, against these bindings.

use super::{Kind, declared, name, signature};
use std::{env, fs, path::Path};

/// The line of a function of bindings, which declare foreign functions or wrap them.
trait Signature {
    fn line(&self, name: &str) -> String;
}

macro_rules! signatures {
    ($([$($arg:ident)*])*) => { $(
        signatures! { "C" $($arg)* }
        signatures! { "Rust" $($arg)* }
    )* };
    ($abi:literal $($arg:ident)*) => {
        impl<R: Kind, $($arg: Kind),*> Signature for unsafe extern $abi fn($($arg),*) -> R {
            fn line(&self, name: &str) -> String {
                signature(name, vec![$($arg::kind()),*], R::kind())
            }
        }
    };
}
signatures! {
    [A] [A B] [A B C] [A B C D] [A B C D E] [A B C D E F] [A B C D E F G H I J]
    [A B C D E F G H I J K] [A B C D E F G H I J K L M N O P]
}

macro_rules! functions {
    ($lines:ident $abi:literal: $( $name:ident ($($arg:tt)*); )*) => { $(
        $lines.push((&($name as unsafe extern $abi fn($($arg)*) -> _)).line(stringify!($name)));
    )* };
}

macro_rules! functions_of_hip {
    ($lines:ident $abi:literal) => {
        functions! { $lines $abi:
            hipInit(_);
            hipRuntimeGetVersion(_);
            hipGetDeviceCount(_);
            hipDeviceGet(_, _);
            hipDeviceGetName(_, _, _);
            hipDeviceGetUuid(_, _);
            hipDeviceGetPCIBusId(_, _, _);
            hipDeviceTotalMem(_, _);
            hipDeviceGetAttribute(_, _, _);
            hipGetDevicePropertiesR0600(_, _);
            hipDevicePrimaryCtxRetain(_, _);
            hipDevicePrimaryCtxRelease(_);
            hipCtxSetCurrent(_);
            hipMemGetInfo(_, _);
            hipMalloc(_, _);
            hipFree(_);
            hipHostMalloc(_, _, _);
            hipHostGetDevicePointer(_, _, _);
            hipHostFree(_);
            hipMemsetD8Async(_, _, _, _);
            hipMemcpyHtoDAsync(_, _, _, _);
            hipMemcpyDtoHAsync(_, _, _, _);
            hipMemcpyAsync(_, _, _, _, _);
            hipStreamCreateWithFlags(_, _);
            hipStreamDestroy(_);
            hipStreamWaitEvent(_, _, _);
            hipEventCreateWithFlags(_, _);
            hipEventDestroy(_);
            hipEventRecord(_, _);
            hipEventQuery(_);
            hipEventElapsedTime(_, _, _);
            hipModuleLoadData(_, _);
            hipModuleUnload(_);
            hipModuleGetFunction(_, _, _);
            hipModuleLaunchKernel(_, _, _, _, _, _, _, _, _, _, _);
            hipDeviceCanAccessPeer(_, _, _);
            hipDeviceEnablePeerAccess(_, _);
            hipStreamBeginCapture(_, _);
            hipStreamEndCapture(_, _);
            hipGraphInstantiateWithFlags(_, _, _);
            hipGraphLaunch(_, _);
            hipGraphExecDestroy(_);
            hipGraphDestroy(_);
            hipGetErrorName(_);
            hipGetErrorString(_);
            hiprtcVersion(_, _);
            hiprtcCreateProgram(_, _, _, _, _, _);
            hiprtcCompileProgram(_, _, _);
            hiprtcGetProgramLogSize(_, _);
            hiprtcGetProgramLog(_, _);
            hiprtcGetCodeSize(_, _);
            hiprtcGetCode(_, _);
            hiprtcDestroyProgram(_);
            hiprtcGetErrorString(_);
        }
    };
}

/// Kinds of the bindings' types: handles and structs by their names, enumerations as integers.
macro_rules! kinds {
    ($bindings:path: $($type:ident = $kind:literal)*) => {
        const _: () = {
            use $bindings as bindings;
            $( impl Kind for bindings::$type {
                fn kind() -> String {
                    $kind.into()
                }
            } )*
        };
    };
}

/// Lines of numbers; some bindings put the enumeration's name before each of them.
macro_rules! numbers {
    ($lines:ident $prefix:literal: $($name:ident)*) => { $(
        let name = stringify!($name).strip_prefix($prefix).expect("the prefix");
        $lines.push(format!("number {name} = {}", $name as i64));
    )* };
}

/// The text of a file in `abi/`: what the bindings say of all that this crate declares, in the
/// order in which it declares it.
fn text(source: &str, lines: &[String]) -> String {
    let mut text = format!("# Made by `cargo test --features abi` from {source}. See README.md.\n");
    for ours in declared() {
        let of_same = |line: &&String| {
            name(line) == name(&ours) && line.split(' ').next() == ours.split(' ').next()
        };
        match lines.iter().find(of_same) {
            Some(line) => text += &format!("{line}\n"),
            None => {
                // Fields go with their struct.
                let whole = name(&ours).split('.').next().unwrap_or_default();
                let unknown = format!("unknown {whole}\n");
                if !text.contains(&unknown) {
                    text += &unknown;
                }
            }
        }
    }
    text
}

/// Compares a file in `abi/` with what its source says, or writes it where `HIP_SYS_ABI=write`.
fn check(file: &str, source: &str, lines: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi").join(file);
    let made = text(source, lines);
    if env::var("HIP_SYS_ABI").is_ok_and(|value| value == "write") {
        fs::write(&path, made).expect("written");
    } else {
        let there = fs::read_to_string(&path).expect("the file is there");
        assert_eq!(there, made, "abi/{file} is not what {source} says");
    }
}

/// rocmrc: the headers of ROCm 6.4.3 or 7.2.4, by its feature. Their macros are not in it.
mod rocm {
    use super::*;
    use rocmrc::{
        hip::sys::{
            hipDeviceAttribute_t::*, hipError_t::*, hipMemcpyKind::*, hipStreamCaptureMode::*, *,
        },
        hipblaslt::sys::{
            hipDataType::*, hipblasComputeType_t::*, hipblasLtMatmulDescAttributes_t::*,
            hipblasLtMatmulPreferenceAttributes_t::*, hipblasOperation_t::*, hipblasStatus_t::*, *,
        },
        hiprtc::sys::{hiprtcResult::*, *},
    };

    kinds! { rocmrc::hip::sys:
        hipError_t = "i4" hipDeviceAttribute_t = "i4" hipMemcpyKind = "i4"
        hipStreamCaptureMode = "i4" ihipCtx_t = "ihipCtx_t" ihipStream_t = "ihipStream_t"
        ihipEvent_t = "ihipEvent_t" ihipModule_t = "ihipModule_t"
        ihipModuleSymbol_t = "ihipModuleSymbol_t" ihipGraph = "ihipGraph"
        hipGraphExec = "hipGraphExec" hipUUID_t = "hipUUID_t"
        hipDeviceProp_tR0600 = "hipDeviceProp_tR0600"
    }
    kinds! { rocmrc::hiprtc::sys: hiprtcResult = "i4" _hiprtcProgram = "_hiprtcProgram" }
    kinds! { rocmrc::hipblaslt::sys:
        hipblasStatus_t = "i4" hipDataType = "i4" hipblasComputeType_t = "i4"
        hipblasLtMatmulDescAttributes_t = "i4" hipblasLtMatmulPreferenceAttributes_t = "i4"
        ihipStream_t = "ihipStream_t"
        hipblasLtMatmulDescOpaque_t = "hipblasLtMatmulDescOpaque_t"
        hipblasLtMatrixLayoutOpaque_t = "hipblasLtMatrixLayoutOpaque_t"
        hipblasLtMatmulPreferenceOpaque_t = "hipblasLtMatmulPreferenceOpaque_t"
        hipblasLtMatmulAlgo_t = "hipblasLtMatmulAlgo_t"
        hipblasLtMatmulHeuristicResult_t = "hipblasLtMatmulHeuristicResult_t"
    }

    #[test]
    fn the_file_is_what_the_bindings_say() {
        let mut lines = Vec::new();
        functions_of_hip! { lines "Rust" }
        functions! { lines "Rust":
            hipblasLtCreate(_);
            hipblasLtDestroy(_);
            hipblasLtGetVersion(_, _);
            hipblasLtMatmulDescCreate(_, _, _);
            hipblasLtMatmulDescSetAttribute(_, _, _, _);
            hipblasLtMatmulDescDestroy(_);
            hipblasLtMatrixLayoutCreate(_, _, _, _, _);
            hipblasLtMatrixLayoutDestroy(_);
            hipblasLtMatmulPreferenceCreate(_);
            hipblasLtMatmulPreferenceSetAttribute(_, _, _, _);
            hipblasLtMatmulPreferenceDestroy(_);
            hipblasLtMatmulAlgoGetHeuristic(_, _, _, _, _, _, _, _, _, _);
            hipblasLtMatmul(_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _);
        }
        numbers! { lines "":
            hipSuccess hipErrorInvalidValue hipErrorOutOfMemory hipErrorNotInitialized
            hipErrorDeinitialized hipErrorInvalidConfiguration hipErrorInvalidSymbol
            hipErrorInvalidDevicePointer hipErrorInvalidMemcpyDirection hipErrorInsufficientDriver
            hipErrorPriorLaunchFailure hipErrorInvalidDeviceFunction hipErrorNoDevice
            hipErrorInvalidDevice hipErrorInvalidImage hipErrorInvalidContext hipErrorNoBinaryForGpu
            hipErrorECCNotCorrectable hipErrorPeerAccessUnsupported hipErrorInvalidKernelFile
            hipErrorInvalidSource hipErrorFileNotFound hipErrorSharedObjectSymbolNotFound
            hipErrorSharedObjectInitFailed hipErrorOperatingSystem hipErrorInvalidHandle
            hipErrorIllegalState hipErrorNotFound hipErrorNotReady hipErrorIllegalAddress
            hipErrorLaunchOutOfResources hipErrorLaunchTimeOut hipErrorPeerAccessAlreadyEnabled
            hipErrorPeerAccessNotEnabled hipErrorSetOnActiveProcess hipErrorContextIsDestroyed
            hipErrorAssert hipErrorHostMemoryAlreadyRegistered hipErrorHostMemoryNotRegistered
            hipErrorLaunchFailure hipErrorCooperativeLaunchTooLarge hipErrorNotSupported
            hipErrorStreamCaptureUnsupported hipErrorStreamCaptureInvalidated
            hipErrorStreamCaptureMerge hipErrorStreamCaptureUnmatched hipErrorStreamCaptureUnjoined
            hipErrorStreamCaptureIsolation hipErrorStreamCaptureImplicit hipErrorCapturedEvent
            hipErrorStreamCaptureWrongThread hipErrorGraphExecUpdateFailure hipErrorUnknown
            hipErrorRuntimeMemory hipErrorRuntimeOther hipDeviceAttributeClockRate
            hipDeviceAttributeL2CacheSize hipDeviceAttributeMemoryBusWidth
            hipDeviceAttributeMemoryClockRate hipDeviceAttributeMultiprocessorCount
            hipDeviceAttributeWarpSize hipDeviceAttributeWallClockRate hipMemcpyHostToHost
            hipMemcpyHostToDevice hipMemcpyDeviceToHost hipMemcpyDeviceToDevice hipMemcpyDefault
            hipStreamCaptureModeGlobal hipStreamCaptureModeThreadLocal hipStreamCaptureModeRelaxed
            HIPRTC_SUCCESS HIPRTC_ERROR_OUT_OF_MEMORY HIPRTC_ERROR_PROGRAM_CREATION_FAILURE
            HIPRTC_ERROR_INVALID_INPUT HIPRTC_ERROR_INVALID_PROGRAM HIPRTC_ERROR_INVALID_OPTION
            HIPRTC_ERROR_COMPILATION HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE
            HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION
            HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID
            HIPRTC_ERROR_INTERNAL_ERROR HIPBLAS_STATUS_SUCCESS HIPBLAS_STATUS_NOT_INITIALIZED
            HIPBLAS_STATUS_ALLOC_FAILED HIPBLAS_STATUS_INVALID_VALUE HIPBLAS_STATUS_MAPPING_ERROR
            HIPBLAS_STATUS_EXECUTION_FAILED HIPBLAS_STATUS_INTERNAL_ERROR
            HIPBLAS_STATUS_NOT_SUPPORTED HIPBLAS_STATUS_ARCH_MISMATCH
            HIPBLAS_STATUS_HANDLE_IS_NULLPTR HIPBLAS_STATUS_INVALID_ENUM HIPBLAS_STATUS_UNKNOWN
            HIP_R_32F HIP_R_64F HIP_R_16F HIP_R_8I HIP_R_32I HIP_R_16BF HIP_R_8F_E4M3 HIP_R_8F_E5M2
            HIP_R_8F_E4M3_FNUZ HIP_R_8F_E5M2_FNUZ HIPBLAS_COMPUTE_32F HIPBLAS_COMPUTE_32F_FAST_TF32
            HIPBLAS_COMPUTE_64F HIPBLAS_COMPUTE_32I HIPBLAS_OP_N HIPBLAS_OP_T
            HIPBLASLT_MATMUL_DESC_TRANSA HIPBLASLT_MATMUL_DESC_TRANSB
            HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER
            HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
        }
        layouts_of_hip! { lines }
        layouts_of_hipblaslt! { lines }
        let (file, source) = match HIPBLASLT_VERSION_MAJOR {
            0 => ("rocm-6.4.txt", "rocmrc 0.5.1, ROCm 6.4.3"),
            _ => ("rocm-7.2.txt", "rocmrc 0.5.1, ROCm 7.2.4"),
        };
        check(file, source, &lines);
    }
}

/// cubecl-hip-sys: the headers of HIP 7.14 with their macros, without hipBLASLt.
mod hip {
    use super::*;
    use cubecl_hip_sys::*;

    kinds! { cubecl_hip_sys:
        ihipCtx_t = "ihipCtx_t" ihipStream_t = "ihipStream_t" ihipEvent_t = "ihipEvent_t"
        ihipModule_t = "ihipModule_t" ihipModuleSymbol_t = "ihipModuleSymbol_t"
        ihipGraph = "ihipGraph" hipGraphExec = "hipGraphExec" hipUUID_t = "hipUUID_t"
        hipDeviceProp_tR0600 = "hipDeviceProp_tR0600" _hiprtcProgram = "_hiprtcProgram"
    }

    #[test]
    fn the_file_is_what_the_bindings_say() {
        let mut lines = Vec::new();
        functions_of_hip! { lines "C" }
        numbers! { lines "":
            hipStreamDefault hipStreamNonBlocking hipEventDefault hipEventDisableTiming
            hipHostMallocDefault hipHostMallocPortable hipHostMallocMapped hipHostMallocCoherent
        }
        numbers! { lines "hipDeviceAttribute_t_":
            hipDeviceAttribute_t_hipDeviceAttributeClockRate
            hipDeviceAttribute_t_hipDeviceAttributeL2CacheSize
            hipDeviceAttribute_t_hipDeviceAttributeMemoryBusWidth
            hipDeviceAttribute_t_hipDeviceAttributeMemoryClockRate
            hipDeviceAttribute_t_hipDeviceAttributeMultiprocessorCount
            hipDeviceAttribute_t_hipDeviceAttributeWarpSize
            hipDeviceAttribute_t_hipDeviceAttributeWallClockRate
        }
        numbers! { lines "hipMemcpyKind_":
            hipMemcpyKind_hipMemcpyHostToHost hipMemcpyKind_hipMemcpyHostToDevice
            hipMemcpyKind_hipMemcpyDeviceToHost hipMemcpyKind_hipMemcpyDeviceToDevice
            hipMemcpyKind_hipMemcpyDefault
        }
        numbers! { lines "hipStreamCaptureMode_":
            hipStreamCaptureMode_hipStreamCaptureModeGlobal
            hipStreamCaptureMode_hipStreamCaptureModeThreadLocal
            hipStreamCaptureMode_hipStreamCaptureModeRelaxed
        }
        numbers! { lines "hipError_t_":
            hipError_t_hipSuccess hipError_t_hipErrorInvalidValue hipError_t_hipErrorOutOfMemory
            hipError_t_hipErrorNotInitialized hipError_t_hipErrorDeinitialized
            hipError_t_hipErrorInvalidConfiguration hipError_t_hipErrorInvalidSymbol
            hipError_t_hipErrorInvalidDevicePointer hipError_t_hipErrorInvalidMemcpyDirection
            hipError_t_hipErrorInsufficientDriver hipError_t_hipErrorPriorLaunchFailure
            hipError_t_hipErrorInvalidDeviceFunction hipError_t_hipErrorNoDevice
            hipError_t_hipErrorInvalidDevice hipError_t_hipErrorInvalidImage
            hipError_t_hipErrorInvalidContext hipError_t_hipErrorNoBinaryForGpu
            hipError_t_hipErrorECCNotCorrectable hipError_t_hipErrorPeerAccessUnsupported
            hipError_t_hipErrorInvalidKernelFile hipError_t_hipErrorInvalidSource
            hipError_t_hipErrorFileNotFound hipError_t_hipErrorSharedObjectSymbolNotFound
            hipError_t_hipErrorSharedObjectInitFailed hipError_t_hipErrorOperatingSystem
            hipError_t_hipErrorInvalidHandle hipError_t_hipErrorIllegalState
            hipError_t_hipErrorNotFound hipError_t_hipErrorNotReady
            hipError_t_hipErrorIllegalAddress hipError_t_hipErrorLaunchOutOfResources
            hipError_t_hipErrorLaunchTimeOut hipError_t_hipErrorPeerAccessAlreadyEnabled
            hipError_t_hipErrorPeerAccessNotEnabled hipError_t_hipErrorSetOnActiveProcess
            hipError_t_hipErrorContextIsDestroyed hipError_t_hipErrorAssert
            hipError_t_hipErrorHostMemoryAlreadyRegistered
            hipError_t_hipErrorHostMemoryNotRegistered hipError_t_hipErrorLaunchFailure
            hipError_t_hipErrorCooperativeLaunchTooLarge hipError_t_hipErrorNotSupported
            hipError_t_hipErrorStreamCaptureUnsupported hipError_t_hipErrorStreamCaptureInvalidated
            hipError_t_hipErrorStreamCaptureMerge hipError_t_hipErrorStreamCaptureUnmatched
            hipError_t_hipErrorStreamCaptureUnjoined hipError_t_hipErrorStreamCaptureIsolation
            hipError_t_hipErrorStreamCaptureImplicit hipError_t_hipErrorCapturedEvent
            hipError_t_hipErrorStreamCaptureWrongThread hipError_t_hipErrorGraphExecUpdateFailure
            hipError_t_hipErrorUnknown hipError_t_hipErrorRuntimeMemory
            hipError_t_hipErrorRuntimeOther
        }
        numbers! { lines "hiprtcResult_":
            hiprtcResult_HIPRTC_SUCCESS hiprtcResult_HIPRTC_ERROR_OUT_OF_MEMORY
            hiprtcResult_HIPRTC_ERROR_PROGRAM_CREATION_FAILURE
            hiprtcResult_HIPRTC_ERROR_INVALID_INPUT hiprtcResult_HIPRTC_ERROR_INVALID_PROGRAM
            hiprtcResult_HIPRTC_ERROR_INVALID_OPTION hiprtcResult_HIPRTC_ERROR_COMPILATION
            hiprtcResult_HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE
            hiprtcResult_HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION
            hiprtcResult_HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION
            hiprtcResult_HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID
            hiprtcResult_HIPRTC_ERROR_INTERNAL_ERROR
        }
        layouts_of_hip! { lines }
        check("hip-7.14.txt", "cubecl-hip-sys 7.14.6085001, HIP 7.14", &lines);
    }
}
