//! `libamdhip64.so.6`: the functions of `libcuda.so.1` by HIP's names, and the few of its own.

use crate::{
    cuda::{self, export},
    nvrtc,
    state::{INVALID_DEVICE, INVALID_VALUE, OK, State, call, state},
    visible::Vendor,
};
use std::ffi::{c_char, c_int, c_uint, c_void};

type Handle = *mut c_void;

/// Declares functions that do what another one does, counted and scripted by their own names.
macro_rules! alias {
    ($( $name:ident = $of:path, ($($arg:ident: $type:ty),*); )*) => {
        $(
            #[doc = "As the vendor documents it."]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
                let entered = state().enter(stringify!($name));
                match entered {
                    // SAFETY: the caller passes what the vendor's header asks for.
                    Ok(()) => unsafe { $of($($arg),*) },
                    Err(code) => code,
                }
            }
        )*
    };
}
pub(crate) use alias;

alias! {
    hipDeviceGetName = cuda::cuDeviceGetName, (name: *mut c_char, length: c_int, device: c_int);
    hipDeviceGetUuid = cuda::cuDeviceGetUuid_v2, (uuid: *mut [u8; 16], device: c_int);
    hipDeviceGetPCIBusId = cuda::cuDeviceGetPCIBusId,
        (text: *mut c_char, length: c_int, device: c_int);
    hipDeviceTotalMem = cuda::cuDeviceTotalMem_v2, (bytes: *mut usize, device: c_int);
    hipDevicePrimaryCtxRetain = cuda::cuDevicePrimaryCtxRetain,
        (context: *mut Handle, device: c_int);
    hipDevicePrimaryCtxRelease = cuda::cuDevicePrimaryCtxRelease_v2, (device: c_int);
    hipCtxSetCurrent = cuda::cuCtxSetCurrent, (context: Handle);
    hipMemGetInfo = cuda::cuMemGetInfo_v2, (free: *mut usize, total: *mut usize);
    hipMalloc = cuda::cuMemAlloc_v2, (address: *mut u64, bytes: usize);
    hipFree = cuda::cuMemFree_v2, (address: u64);
    hipHostGetDevicePointer = cuda::cuMemHostGetDevicePointer_v2,
        (address: *mut u64, bytes: *mut c_void, flags: c_uint);
    hipHostFree = cuda::cuMemFreeHost, (bytes: *mut c_void);
    hipMemsetD8Async = cuda::cuMemsetD8Async,
        (address: u64, value: u8, bytes: usize, stream: Handle);
    hipMemcpyHtoDAsync = cuda::cuMemcpyHtoDAsync_v2,
        (address: u64, source: *const c_void, bytes: usize, stream: Handle);
    hipMemcpyDtoHAsync = cuda::cuMemcpyDtoHAsync_v2,
        (target: *mut c_void, address: u64, bytes: usize, stream: Handle);
    hipStreamCreateWithFlags = cuda::cuStreamCreate, (stream: *mut Handle, flags: c_uint);
    hipStreamDestroy = cuda::cuStreamDestroy_v2, (stream: Handle);
    hipEventCreateWithFlags = cuda::cuEventCreate, (event: *mut Handle, flags: c_uint);
    hipEventDestroy = cuda::cuEventDestroy_v2, (event: Handle);
    hipEventRecord = cuda::cuEventRecord, (event: Handle, stream: Handle);
    hipEventQuery = cuda::cuEventQuery, (event: Handle);
    hipEventElapsedTime = cuda::cuEventElapsedTime,
        (milliseconds: *mut f32, start: Handle, end: Handle);
    hipModuleLoadData = cuda::cuModuleLoadData, (module: *mut Handle, image: *const c_void);
    hipModuleUnload = cuda::cuModuleUnload, (module: Handle);
    hipModuleGetFunction = cuda::cuModuleGetFunction,
        (function: *mut Handle, module: Handle, name: *const c_char);
    hipStreamWaitEvent = cuda::cuStreamWaitEvent,
        (stream: Handle, event: Handle, flags: c_uint);
    hipDeviceCanAccessPeer = cuda::cuDeviceCanAccessPeer,
        (can: *mut c_int, device: c_int, peer: c_int);
    hipStreamBeginCapture = cuda::cuStreamBeginCapture_v2, (stream: Handle, mode: c_int);
    hipStreamEndCapture = cuda::cuStreamEndCapture, (stream: Handle, graph: *mut Handle);
    hipGraphInstantiateWithFlags = cuda::cuGraphInstantiateWithFlags,
        (made: *mut Handle, graph: Handle, flags: u64);
    hipGraphLaunch = cuda::cuGraphLaunch, (graph: Handle, stream: Handle);
    hipGraphExecDestroy = cuda::cuGraphExecDestroy, (graph: Handle);
    hipGraphDestroy = cuda::cuGraphDestroy, (graph: Handle);
    hiprtcCreateProgram = nvrtc::nvrtcCreateProgram,
        (program: *mut *mut c_void, text: *const c_char, name: *const c_char, headers: c_int,
         texts: *const *const c_char, names: *const *const c_char);
    hiprtcCompileProgram = nvrtc::nvrtcCompileProgram,
        (program: *mut c_void, count: c_int, options: *const *const c_char);
    hiprtcGetProgramLogSize = nvrtc::nvrtcGetProgramLogSize,
        (program: *mut c_void, size: *mut usize);
    hiprtcGetProgramLog = nvrtc::nvrtcGetProgramLog, (program: *mut c_void, text: *mut c_char);
    hiprtcGetCodeSize = nvrtc::nvrtcGetCUBINSize, (program: *mut c_void, size: *mut usize);
    hiprtcGetCode = nvrtc::nvrtcGetCUBIN, (program: *mut c_void, bytes: *mut c_char);
    hiprtcDestroyProgram = nvrtc::nvrtcDestroyProgram, (program: *mut *mut c_void);
    hiprtcVersion = nvrtc::nvrtcVersion, (major: *mut c_int, minor: *mut c_int);
}

/// hipHostMallocMapped and hipHostMallocCoherent: without the second a kernel may never see what
/// the host writes.
const HOST_FLAGS: c_uint = 0x4000_0002;

/// hipHostMallocPortable: copies alone go there.
const PORTABLE: c_uint = 1;

/// hipMemcpyDefault: what memories a copy is between is found out from their addresses.
const DEFAULT: c_int = 4;

/// HIP_LAUNCH_PARAM_END, where CUDA has a zero.
const END: usize = 3;

/// As the vendor documents it.
///
/// # Safety
///
/// As the vendor documents it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyAsync(
    target: u64,
    source: u64,
    bytes: usize,
    kind: c_int,
    stream: Handle,
) -> c_int {
    let entered = state().enter("hipMemcpyAsync");
    match entered {
        Ok(()) if kind != DEFAULT => INVALID_VALUE,
        // SAFETY: the caller passes what the vendor's header asks for.
        Ok(()) => unsafe { cuda::cuMemcpyAsync(target, source, bytes, stream) },
        Err(code) => code,
    }
}

export! {
    hipInit(_flags: c_uint) |state| { cuda::start(state, Vendor::Amd) }
    hipGetDeviceCount(count: *mut c_int) |state| {
        count.write(cuda::shown(state, Vendor::Amd).len() as c_int);
        OK
    }
    hipDeviceGet(device: *mut c_int, ordinal: c_int) |state| {
        let Some(found) = cuda::numbered(state, Vendor::Amd, ordinal) else {
            return INVALID_DEVICE;
        };
        device.write(found);
        OK
    }
    hipRuntimeGetVersion(version: *mut c_int) |state| { version.write(state.script.hip); OK }
    hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) |state| {
        if !(0..state.script.devices).contains(&device) { return INVALID_DEVICE; }
        value.write(match attribute {
            5 => 1_000_000,
            19 => crate::cost::CACHE_BYTES as c_int,
            59 => 1_024,
            60 => 1_000_000,
            63 => state.script.units,
            87 => if state.script.gfx.starts_with("gfx9") { 64 } else { 32 },
            10_017 => 100_000,
            _ => return INVALID_VALUE,
        });
        OK
    }
    hipGetDevicePropertiesR0600(properties: *mut [u8; 1472], device: c_int) |state| {
        if !(0..state.script.devices).contains(&device) { return INVALID_DEVICE; }
        let name = format!("{}:sramecc+:xnack-", state.script.gfx);
        let mut bytes = [0u8; 1472];
        bytes[1160..1160 + name.len()].copy_from_slice(name.as_bytes());
        properties.write(bytes);
        OK
    }
    hipGetDeviceProperties(properties: *mut [u8; 792], device: c_int) |state| {
        if !(0..state.script.devices).contains(&device) { return INVALID_DEVICE; }
        let name = format!("{}:sramecc+:xnack-", state.script.gfx);
        let mut bytes = [0u8; 792];
        bytes[396..396 + name.len()].copy_from_slice(name.as_bytes());
        properties.write(bytes);
        OK
    }
    hipDeviceEnablePeerAccess(peer: c_int, _flags: c_uint) |state| {
        if !(0..state.script.devices).contains(&peer) { return INVALID_DEVICE; }
        state.log(format!("peer {peer}"));
        OK
    }
    hipModuleLaunchKernel(
        function: Handle, blocks_x: c_uint, blocks_y: c_uint, blocks_z: c_uint, threads_x: c_uint,
        threads_y: c_uint, threads_z: c_uint, shared: c_uint, stream: Handle,
        params: *mut Handle, extra: *mut Handle
    ) |state| {
        if !params.is_null() || extra.is_null() { return INVALID_VALUE; }
        let grid = [blocks_x, blocks_y, blocks_z];
        let threads = [threads_x, threads_y, threads_z];
        let Some(bytes) = cuda::in_one_piece(extra, END) else { return INVALID_VALUE };
        cuda::launch(state, function, grid, threads, shared, stream, bytes, 1)
    }
    hipHostMalloc(bytes: *mut *mut c_void, length: usize, flags: c_uint) |state| {
        if ![HOST_FLAGS, PORTABLE].contains(&flags) { return INVALID_VALUE; }
        let node = crate::numa::of_this_thread(state.script.nodes);
        match state.memory.allocate_on(node, length, state.script.memory) {
            Some(found) => { bytes.write(found as *mut c_void); OK }
            None => crate::state::OUT_OF_MEMORY,
        }
    }
}
