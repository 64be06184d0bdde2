//! The tables that both vendors share, filled with AMD's functions as `hip_sys` declares them.
//!
//! HIP's functions are CUDA's by other names, with types of their own: handles point to other
//! structs, and an address of device memory is a pointer where CUDA has a number. [`Passes`] lists
//! these differences, and nothing else is taken for the same: a function of other parameters in a
//! field does not compile. What is not filled here has no counterpart, and nothing on AMD's devices
//! needs it.

#![expect(unsafe_code, reason = "functions are called by other types that travel alike")]

use crate::{
    gpu::{blas_lt, compiler, table},
    library::{Opened, Symbol},
};
use hip_sys::{Hip, HipBlasLt, HipRtc};
use std::{
    ffi::{c_int, c_void},
    mem,
};

/// Where AMD installs its libraries.
pub const FOLDERS: &[&str] = &["/opt/rocm/lib", "/opt/rocm/lib64"];

/// HIP's functions.
pub fn hip(library: &Opened) -> Hip {
    // SAFETY: the library is HIP's, and is never closed.
    unsafe { Hip::from_symbols(|symbol| library.address(&[symbol])) }
}

/// The driver's functions.
pub fn driver(library: &Opened) -> table::Functions {
    let hip = hip(library);
    table::Functions {
        init: same(hip.hipInit),
        version: same(hip.hipRuntimeGetVersion),
        device_count: same(hip.hipGetDeviceCount),
        device: same(hip.hipDeviceGet),
        device_name: same(hip.hipDeviceGetName),
        device_uuid: same(hip.hipDeviceGetUuid),
        device_pci: same(hip.hipDeviceGetPCIBusId),
        device_memory: same(hip.hipDeviceTotalMem),
        attribute: same(hip.hipDeviceGetAttribute),
        context_retain: same(hip.hipDevicePrimaryCtxRetain),
        context_release: same(hip.hipDevicePrimaryCtxRelease),
        context_set: same(hip.hipCtxSetCurrent),
        memory_info: same(hip.hipMemGetInfo),
        allocate: same(hip.hipMalloc),
        free: same(hip.hipFree),
        host_allocate: same(hip.hipHostMalloc),
        host_address: same(hip.hipHostGetDevicePointer),
        host_free: same(hip.hipHostFree),
        set: same(hip.hipMemsetD8Async),
        to_device: same(hip.hipMemcpyHtoDAsync),
        to_host: same(hip.hipMemcpyDtoHAsync),
        stream_create: same(hip.hipStreamCreateWithFlags),
        stream_destroy: same(hip.hipStreamDestroy),
        event_create: same(hip.hipEventCreateWithFlags),
        event_destroy: same(hip.hipEventDestroy),
        event_record: same(hip.hipEventRecord),
        event_query: same(hip.hipEventQuery),
        event_elapsed: same(hip.hipEventElapsedTime),
        module_load: same(hip.hipModuleLoadData),
        module_unload: same(hip.hipModuleUnload),
        module_function: same(hip.hipModuleGetFunction),
        launch_plain: same(hip.hipModuleLaunchKernel),
        copy_of_kind: same(hip.hipMemcpyAsync),
        stream_wait: same(hip.hipStreamWaitEvent),
        peer_can: same(hip.hipDeviceCanAccessPeer),
        peer_enable_device: same(hip.hipDeviceEnablePeerAccess),
        capture_begin: same(hip.hipStreamBeginCapture),
        capture_end: same(hip.hipStreamEndCapture),
        graph_make: same(hip.hipGraphInstantiateWithFlags),
        graph_launch: same(hip.hipGraphLaunch),
        graph_executable_destroy: same(hip.hipGraphExecDestroy),
        graph_destroy: same(hip.hipGraphDestroy),
        // The stub's mark, and symbols that AMD's library does not export.
        ..table::Functions::of(library)
    }
}

/// The compiler's functions.
pub fn compiler(library: &Opened) -> compiler::Functions {
    // SAFETY: the library is hipRTC, and is never closed.
    let rtc = unsafe { HipRtc::from_symbols(|symbol| library.address(&[symbol])) };
    compiler::Functions {
        version: same(rtc.hiprtcVersion),
        create: same(rtc.hiprtcCreateProgram),
        compile: same(rtc.hiprtcCompileProgram),
        log_size: same(rtc.hiprtcGetProgramLogSize),
        log: same(rtc.hiprtcGetProgramLog),
        cubin_size: same(rtc.hiprtcGetCodeSize),
        cubin: same(rtc.hiprtcGetCode),
        destroy: same(rtc.hiprtcDestroyProgram),
        // The stub's mark.
        ..compiler::Functions::of(library)
    }
}

/// The functions of the library of matrix products.
pub fn products(library: &Opened) -> blas_lt::Functions {
    // SAFETY: the library is hipBLASLt, and is never closed.
    let lt = unsafe { HipBlasLt::from_symbols(|symbol| library.address(&[symbol])) };
    blas_lt::Functions {
        create: same(lt.hipblasLtCreate),
        destroy: same(lt.hipblasLtDestroy),
        version_of_hip: same(lt.hipblasLtGetVersion),
        product_create: same(lt.hipblasLtMatmulDescCreate),
        product_set: same(lt.hipblasLtMatmulDescSetAttribute),
        product_destroy: same(lt.hipblasLtMatmulDescDestroy),
        layout_create: same(lt.hipblasLtMatrixLayoutCreate),
        layout_destroy: same(lt.hipblasLtMatrixLayoutDestroy),
        preference_create: same(lt.hipblasLtMatmulPreferenceCreate),
        preference_set: same(lt.hipblasLtMatmulPreferenceSetAttribute),
        preference_destroy: same(lt.hipblasLtMatmulPreferenceDestroy),
        heuristics: same(lt.hipblasLtMatmulAlgoGetHeuristic),
        multiply: same(lt.hipblasLtMatmul),
        // Properties are told of NVIDIA's library alone.
        ..blas_lt::Functions::of(library)
    }
}

/// A value of this type travels to a foreign function as one of type `To` does.
///
/// # Safety
///
/// Both have the same size, and travel in the same kind of register.
unsafe trait Passes<To> {}

macro_rules! passes {
    ($($from:ty => $to:ty;)*) => { $(
        // SAFETY: the same type; or an object behind a pointer, of which the library alone knows
        // the layout, or which the caller makes as large as the library has it.
        unsafe impl Passes<$to> for $from {}
    )* };
}
passes! {
    i8 => i8;
    u8 => u8;
    i32 => i32;
    u32 => u32;
    i64 => i64;
    u64 => u64;
    usize => usize;
    f32 => f32;
    c_void => c_void;
    hip_sys::ihipCtx_t => c_void;
    hip_sys::ihipStream_t => c_void;
    hip_sys::ihipEvent_t => c_void;
    hip_sys::ihipModule_t => c_void;
    hip_sys::ihipModuleSymbol_t => c_void;
    hip_sys::ihipGraph => c_void;
    hip_sys::hipGraphExec => c_void;
    hip_sys::_hiprtcProgram => c_void;
    hip_sys::hipblasLtMatmulDescOpaque_t => c_void;
    hip_sys::hipblasLtMatrixLayoutOpaque_t => c_void;
    hip_sys::hipblasLtMatmulPreferenceOpaque_t => c_void;
    hip_sys::hipblasLtMatmulHeuristicResult_t => c_void;
    hip_sys::hipblasLtMatmulAlgo_t => blas_lt::Algorithm;
    hip_sys::hipUUID_t => [u8; 16];
}

// SAFETY: pointers travel alike, and what they point to is alike by its own line above.
unsafe impl<From: Passes<To>, To> Passes<*mut To> for *mut From {}
// SAFETY: as above.
unsafe impl<From: Passes<To>, To> Passes<*const To> for *const From {}
// SAFETY: an address of device memory is a number in the shared tables; AMD's devices have 64-bit
// hosts alone.
unsafe impl Passes<u64> for *mut c_void {}
// SAFETY: as above.
unsafe impl Passes<u64> for *const c_void {}

/// A function that can be called by another type, because its parameters travel alike.
trait CalledAs<To> {
    fn called_as(self) -> To;
}

macro_rules! called_as {
    ($($from:ident $to:ident),*) => {
        impl<$($from: Passes<$to>, $to),*> CalledAs<unsafe extern "C" fn($($to),*) -> c_int>
            for unsafe extern "C" fn($($from),*) -> c_int
        {
            fn called_as(self) -> unsafe extern "C" fn($($to),*) -> c_int {
                // SAFETY: each parameter travels as the other one does.
                unsafe { mem::transmute(self) }
            }
        }
    };
}
called_as! { A1 B1 }
called_as! { A1 B1, A2 B2 }
called_as! { A1 B1, A2 B2, A3 B3 }
called_as! { A1 B1, A2 B2, A3 B3, A4 B4 }
called_as! { A1 B1, A2 B2, A3 B3, A4 B4, A5 B5 }
called_as! { A1 B1, A2 B2, A3 B3, A4 B4, A5 B5, A6 B6 }
called_as! {
    A1 B1, A2 B2, A3 B3, A4 B4, A5 B5, A6 B6, A7 B7, A8 B8, A9 B9, A10 B10
}
called_as! {
    A1 B1, A2 B2, A3 B3, A4 B4, A5 B5, A6 B6, A7 B7, A8 B8, A9 B9, A10 B10, A11 B11
}
called_as! {
    A1 B1, A2 B2, A3 B3, A4 B4, A5 B5, A6 B6, A7 B7, A8 B8, A9 B9, A10 B10, A11 B11, A12 B12,
    A13 B13, A14 B14, A15 B15, A16 B16
}

fn same<From: CalledAs<To>, To>(symbol: hip_sys::Symbol<From>) -> Symbol<To> {
    Symbol { name: symbol.name, function: symbol.function.map(CalledAs::called_as) }
}
