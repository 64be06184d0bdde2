//! HIP's functions as this program calls them, against bindings that were made from its headers.

use super::{COMPILER_NAMES, NAMES, properties::Own};
use crate::device::{
    cuda::{driver::Functions, nvrtc},
    library::Refusal,
};
use std::ffi::c_int;

/// The sizes of a function's parameters. C passes integers and pointers of one size alike on every
/// machine that these drivers run on.
trait Sizes {
    fn sizes(&self) -> Vec<usize>;
}

macro_rules! sizes {
    ($($arg:ident)*) => {
        impl<T, $($arg),*> Sizes for unsafe fn(&T, $($arg),*) -> Result<(), Refusal> {
            fn sizes(&self) -> Vec<usize> {
                vec![$(size_of::<$arg>()),*]
            }
        }
        impl<R, $($arg),*> Sizes for unsafe extern "C" fn($($arg),*) -> R {
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
sizes! { A B C D E F G H I J K }

/// Compares one function of a table with the bindings' of a name.
macro_rules! same {
    ($seen:ident $table:path: $( $ours:ident = $theirs:ident ($($arg:tt)*); )*) => { $(
        {
            use $table as Table;
            let ours = Table::$ours as unsafe fn(&Table, $($arg)*) -> Result<(), Refusal>;
            let theirs = cubecl_hip_sys::$theirs as unsafe extern "C" fn($($arg)*) -> _;
            assert_eq!(ours.sizes(), theirs.sizes(), stringify!($theirs));
            $seen.push(stringify!($theirs));
        }
    )* };
}

#[test]
fn functions_have_the_parameters_that_the_headers_declare() {
    let mut seen = Vec::new();
    same! { seen Functions:
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
    same! { seen nvrtc::Functions:
        version = hiprtcVersion(_, _);
        create = hiprtcCreateProgram(_, _, _, _, _, _);
        compile = hiprtcCompileProgram(_, _, _);
        log_size = hiprtcGetProgramLogSize(_, _);
        log = hiprtcGetProgramLog(_, _);
        cubin_size = hiprtcGetCodeSize(_, _);
        cubin = hiprtcGetCode(_, _);
        destroy = hiprtcDestroyProgram(_);
    }
    let called = NAMES.iter().chain(COMPILER_NAMES).map(|(_, hip)| *hip);
    for name in called.filter(|name| *name != "fizeau_stub_driver") {
        assert!(seen.contains(&name), "{name} is not compared");
    }
    same! { seen Own:
        properties = hipGetDevicePropertiesR0600(_, _);
    }
}

#[test]
fn numbers_are_those_of_the_headers() {
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
