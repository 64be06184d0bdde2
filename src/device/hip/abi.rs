//! HIP's functions as this program calls them, against bindings that were made from its headers.

use super::{COMPILER_NAMES, NAMES, hipblaslt, properties::Own};
use crate::device::{
    gpu::{blas_lt, compiler, driver::Functions},
    library::Refusal,
};
use std::ffi::c_int;

/// The sizes of a function's parameters. C passes integers and pointers of one size alike on every
/// machine that these drivers run on.
trait Ours {
    fn sizes(&self) -> Vec<usize>;
}

/// The same of bindings, which declare foreign functions, or wrap them.
trait Theirs {
    fn sizes(&self) -> Vec<usize>;
}

macro_rules! sizes {
    ($($arg:ident)*) => {
        impl<T, $($arg),*> Ours for unsafe fn(&T, $($arg),*) -> Result<(), Refusal> {
            fn sizes(&self) -> Vec<usize> {
                vec![$(size_of::<$arg>()),*]
            }
        }
        sizes! { ["C"] $($arg)* }
        sizes! { ["Rust"] $($arg)* }
    };
    ([$abi:literal] $($arg:ident)*) => {
        impl<R, $($arg),*> Theirs for unsafe extern $abi fn($($arg),*) -> R {
            fn sizes(&self) -> Vec<usize> {
                assert_eq!(size_of::<R>(), size_of::<c_int>());
                vec![$(size_of::<$arg>()),*]
            }
        }
    };
}
sizes! { A }
sizes! { A B }
sizes! { A B C }
sizes! { A B C D }
sizes! { A B C D E }
sizes! { A B C D E F }
sizes! { A B C D E F G H I J }
sizes! { A B C D E F G H I J K }
sizes! { A B C D E F G H I J K L M N O P }

/// Compares functions of a table with the bindings' of a name.
macro_rules! same {
    ($seen:ident $table:path, $abi:literal $bindings:path:
     $( $ours:ident = $theirs:ident ($($arg:tt)*); )*) => { $(
        {
            use $bindings as bindings;
            use $table as Table;
            let ours = Table::$ours as unsafe fn(&Table, $($arg)*) -> Result<(), Refusal>;
            let theirs = bindings::$theirs as unsafe extern $abi fn($($arg)*) -> _;
            assert_eq!(Ours::sizes(&ours), Theirs::sizes(&theirs), stringify!($theirs));
            $seen.push(stringify!($theirs));
        }
    )* };
}

/// What is called of HIP and of hipRTC, against one binding of them.
macro_rules! hip {
    ($seen:ident $abi:literal $runtime:path, $compiler:path) => {
        same! { $seen Functions, $abi $runtime:
            init = hipInit(_);
            version = hipRuntimeGetVersion(_);
            device_count = hipGetDeviceCount(_);
            device = hipDeviceGet(_, _);
            device_name = hipDeviceGetName(_, _, _);
            device_uuid = hipDeviceGetUuid(_, _);
            device_pci = hipDeviceGetPCIBusId(_, _, _);
            device_memory = hipDeviceTotalMem(_, _);
            attribute = hipDeviceGetAttribute(_, _, _);
            context_retain = hipDevicePrimaryCtxRetain(_, _);
            context_release = hipDevicePrimaryCtxRelease(_);
            context_set = hipCtxSetCurrent(_);
            memory_info = hipMemGetInfo(_, _);
            allocate = hipMalloc(_, _);
            free = hipFree(_);
            host_allocate = hipHostMalloc(_, _, _);
            host_address = hipHostGetDevicePointer(_, _, _);
            host_free = hipHostFree(_);
            set = hipMemsetD8Async(_, _, _, _);
            to_device = hipMemcpyHtoDAsync(_, _, _, _);
            to_host = hipMemcpyDtoHAsync(_, _, _, _);
            stream_create = hipStreamCreateWithFlags(_, _);
            stream_destroy = hipStreamDestroy(_);
            event_create = hipEventCreateWithFlags(_, _);
            event_destroy = hipEventDestroy(_);
            event_record = hipEventRecord(_, _);
            event_query = hipEventQuery(_);
            event_elapsed = hipEventElapsedTime(_, _, _);
            module_load = hipModuleLoadData(_, _);
            module_unload = hipModuleUnload(_);
            module_function = hipModuleGetFunction(_, _, _);
            launch_plain = hipModuleLaunchKernel(_, _, _, _, _, _, _, _, _, _, _);
            copy_of_kind = hipMemcpyAsync(_, _, _, _, _);
            stream_wait = hipStreamWaitEvent(_, _, _);
            peer_can = hipDeviceCanAccessPeer(_, _, _);
            peer_enable_device = hipDeviceEnablePeerAccess(_, _);
            capture_begin = hipStreamBeginCapture(_, _);
            capture_end = hipStreamEndCapture(_, _);
            graph_make = hipGraphInstantiateWithFlags(_, _, _);
            graph_launch = hipGraphLaunch(_, _);
            graph_executable_destroy = hipGraphExecDestroy(_);
            graph_destroy = hipGraphDestroy(_);
        }
        same! { $seen compiler::Functions, $abi $compiler:
            version = hiprtcVersion(_, _);
            create = hiprtcCreateProgram(_, _, _, _, _, _);
            compile = hiprtcCompileProgram(_, _, _);
            log_size = hiprtcGetProgramLogSize(_, _);
            log = hiprtcGetProgramLog(_, _);
            cubin_size = hiprtcGetCodeSize(_, _);
            cubin = hiprtcGetCode(_, _);
            destroy = hiprtcDestroyProgram(_);
        }
        same! { $seen Own, $abi $runtime:
            properties = hipGetDevicePropertiesR0600(_, _);
        }
        let called = NAMES.iter().chain(COMPILER_NAMES).map(|(_, hip)| *hip);
        for name in called.filter(|name| *name != "fizeau_stub_driver") {
            assert!($seen.contains(&name), "{name} is not compared");
        }
    };
}

#[test]
fn functions_have_the_parameters_that_the_headers_of_hip_7_declare() {
    let mut seen = Vec::new();
    hip! { seen "C" cubecl_hip_sys, cubecl_hip_sys }
}

#[test]
fn functions_have_the_parameters_that_the_headers_of_hip_6_declare() {
    let mut seen = Vec::new();
    hip! { seen "Rust" rocmrc::hip::sys, rocmrc::hiprtc::sys }
}

#[test]
fn hipblaslt_is_called_as_its_header_declares() {
    use rocmrc::hipblaslt::sys::*;
    let mut seen = Vec::new();
    same! { seen blas_lt::Functions, "Rust" rocmrc::hipblaslt::sys:
        create = hipblasLtCreate(_);
        destroy = hipblasLtDestroy(_);
        product_create = hipblasLtMatmulDescCreate(_, _, _);
        product_set = hipblasLtMatmulDescSetAttribute(_, _, _, _);
        product_destroy = hipblasLtMatmulDescDestroy(_);
        layout_create = hipblasLtMatrixLayoutCreate(_, _, _, _, _);
        layout_destroy = hipblasLtMatrixLayoutDestroy(_);
        preference_create = hipblasLtMatmulPreferenceCreate(_);
        preference_set = hipblasLtMatmulPreferenceSetAttribute(_, _, _, _);
        preference_destroy = hipblasLtMatmulPreferenceDestroy(_);
        heuristics = hipblasLtMatmulAlgoGetHeuristic(_, _, _, _, _, _, _, _, _, _);
        multiply = hipblasLtMatmul(_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _);
    }
    assert!(hipblaslt::NAMES.iter().all(|(_, name)| seen.contains(name)));
    type Found = hipblasLtMatmulHeuristicResult_t;
    assert_eq!(size_of::<hipblasLtMatmulAlgo_t>(), hipblaslt::ALGORITHM);
    assert_eq!(size_of::<Found>(), hipblaslt::ALGORITHM + blas_lt::FOUND);
    assert_eq!(std::mem::offset_of!(Found, state), hipblaslt::ALGORITHM + 8);
    use hipDataType::*;
    let kinds = [HIP_R_16F, HIP_R_8I, HIP_R_32I, HIP_R_16BF, HIP_R_8F_E4M3, HIP_R_8F_E4M3_FNUZ];
    let ours = [
        hipblaslt::F16,
        hipblaslt::I8,
        hipblaslt::I32,
        hipblaslt::BF16,
        hipblaslt::E4M3,
        hipblaslt::E4M3_FNUZ,
    ];
    assert_eq!(kinds.map(|kind| kind as c_int), ours);
    assert_eq!(HIP_R_32F as c_int, blas_lt::F32);
    use hipblasComputeType_t::*;
    let sums = [HIPBLAS_COMPUTE_32F, HIPBLAS_COMPUTE_32F_FAST_TF32, HIPBLAS_COMPUTE_32I];
    let ours = [hipblaslt::IN_F32, hipblaslt::IN_TF32, hipblaslt::IN_I32];
    assert_eq!(sums.map(|sum| sum as c_int), ours);
    use hipblasStatus_t::*;
    let codes = [
        HIPBLAS_STATUS_INVALID_VALUE,
        HIPBLAS_STATUS_NOT_SUPPORTED,
        HIPBLAS_STATUS_ARCH_MISMATCH,
        HIPBLAS_STATUS_INVALID_ENUM,
    ];
    assert_eq!(codes.map(|code| code as i32), hipblaslt::UNSUPPORTED);
    let attribute = hipblasLtMatmulDescAttributes_t::HIPBLASLT_MATMUL_DESC_TRANSA;
    let workspace =
        hipblasLtMatmulPreferenceAttributes_t::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    assert_eq!(
        [attribute as c_int, workspace as c_int],
        [hipblaslt::TRANSPOSE_A, blas_lt::WORKSPACE_MAX]
    );
    assert_eq!(hipblasOperation_t::HIPBLAS_OP_T as i32, hipblaslt::TRANSPOSED);
}

#[test]
fn numbers_are_those_of_the_headers_of_hip_6() {
    use super::properties::*;
    use rocmrc::hip::sys::{hipDeviceAttribute_t::*, hipDeviceProp_tR0600, hipMemcpyKind};
    let pairs = [
        (CLOCK_RATE, hipDeviceAttributeClockRate),
        (L2_CACHE_SIZE, hipDeviceAttributeL2CacheSize),
        (MEMORY_BUS_WIDTH, hipDeviceAttributeMemoryBusWidth),
        (MEMORY_CLOCK_RATE, hipDeviceAttributeMemoryClockRate),
        (MULTIPROCESSOR_COUNT, hipDeviceAttributeMultiprocessorCount),
        (WARP_SIZE, hipDeviceAttributeWarpSize),
        (WALL_CLOCK_RATE, hipDeviceAttributeWallClockRate),
    ];
    for (ours, theirs) in pairs {
        assert_eq!(ours, theirs as c_int);
    }
    assert_eq!(std::mem::offset_of!(hipDeviceProp_tR0600, gcnArchName), ARCHITECTURE);
    assert_eq!(size_of::<hipDeviceProp_tR0600>(), 1472);
    assert_eq!(super::HIP.copy_kind, Some(hipMemcpyKind::hipMemcpyDefault as c_int));
}

#[test]
fn numbers_are_those_of_the_headers_of_hip_7() {
    use super::properties::*;
    use cubecl_hip_sys::*;
    let pairs = [
        (CLOCK_RATE, hipDeviceAttribute_t_hipDeviceAttributeClockRate),
        (L2_CACHE_SIZE, hipDeviceAttribute_t_hipDeviceAttributeL2CacheSize),
        (MEMORY_BUS_WIDTH, hipDeviceAttribute_t_hipDeviceAttributeMemoryBusWidth),
        (MEMORY_CLOCK_RATE, hipDeviceAttribute_t_hipDeviceAttributeMemoryClockRate),
        (MULTIPROCESSOR_COUNT, hipDeviceAttribute_t_hipDeviceAttributeMultiprocessorCount),
        (WARP_SIZE, hipDeviceAttribute_t_hipDeviceAttributeWarpSize),
        (WALL_CLOCK_RATE, hipDeviceAttribute_t_hipDeviceAttributeWallClockRate),
    ];
    for (ours, theirs) in pairs {
        assert_eq!(i64::from(ours), i64::from(theirs));
    }
    type Struct = hipDeviceProp_tR0600;
    assert_eq!(std::mem::offset_of!(Struct, gcnArchName), ARCHITECTURE);
    assert!(size_of::<Struct>() <= 4096);
    assert_eq!(super::HIP.host_flags, hipHostMallocMapped | hipHostMallocCoherent);
    assert_eq!(super::HIP.copy_kind, Some(hipMemcpyKind_hipMemcpyDefault as c_int));
}
