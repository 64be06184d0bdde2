//! The driver's functions, as both vendors' drivers have them.

#![expect(unsafe_code, reason = "the driver is a C library")]
#![expect(clippy::too_many_arguments, reason = "its functions have as many as they have")]

use crate::library::{Handle, functions};
use std::ffi::{c_char, c_int, c_uint, c_void};

functions! {
    /// The functions of `libcuda.so.1` that are called.
    Functions:
    init = "cuInit"(flags: c_uint);
    version = "cuDriverGetVersion"(version: *mut c_int);
    device_count = "cuDeviceGetCount"(count: *mut c_int);
    device = "cuDeviceGet"(device: *mut c_int, ordinal: c_int);
    device_name = "cuDeviceGetName"(name: *mut c_char, length: c_int, device: c_int);
    device_uuid = "cuDeviceGetUuid_v2" or "cuDeviceGetUuid"(uuid: *mut [u8; 16], device: c_int);
    device_pci = "cuDeviceGetPCIBusId"(text: *mut c_char, length: c_int, device: c_int);
    device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: c_int);
    attribute = "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: c_int);
    context_retain = "cuDevicePrimaryCtxRetain"(context: *mut Handle, device: c_int);
    context_release = "cuDevicePrimaryCtxRelease_v2" or "cuDevicePrimaryCtxRelease"(device: c_int);
    context_set = "cuCtxSetCurrent"(context: Handle);
    persisting_reset = "cuCtxResetPersistingL2Cache"();
    memory_info = "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
    allocate = "cuMemAlloc_v2"(address: *mut u64, bytes: usize);
    free = "cuMemFree_v2"(address: u64);
    host_allocate = "cuMemHostAlloc"(bytes: *mut *mut c_void, length: usize, flags: c_uint);
    host_address = "cuMemHostGetDevicePointer_v2"(
        address: *mut u64, bytes: *mut c_void, flags: c_uint,
    );
    host_free = "cuMemFreeHost"(bytes: *mut c_void);
    set = "cuMemsetD8Async"(address: u64, value: u8, bytes: usize, stream: Handle);
    to_device = "cuMemcpyHtoDAsync_v2"(
        address: u64, bytes: *const c_void, length: usize, stream: Handle,
    );
    to_host = "cuMemcpyDtoHAsync_v2"(
        bytes: *mut c_void, address: u64, length: usize, stream: Handle,
    );
    stream_create = "cuStreamCreate"(stream: *mut Handle, flags: c_uint);
    stream_destroy = "cuStreamDestroy_v2"(stream: Handle);
    event_create = "cuEventCreate"(event: *mut Handle, flags: c_uint);
    event_destroy = "cuEventDestroy_v2"(event: Handle);
    event_record = "cuEventRecord"(event: Handle, stream: Handle);
    event_query = "cuEventQuery"(event: Handle);
    event_elapsed = "cuEventElapsedTime_v2" or "cuEventElapsedTime"(
        milliseconds: *mut f32, start: Handle, end: Handle,
    );
    module_load = "cuModuleLoadData"(module: *mut Handle, image: *const c_void);
    module_unload = "cuModuleUnload"(module: Handle);
    module_function = "cuModuleGetFunction"(
        function: *mut Handle, module: Handle, name: *const c_char,
    );
    function_load = "cuFuncLoad"(function: Handle);
    function_get = "cuFuncGetAttribute"(value: *mut c_int, attribute: c_int, function: Handle);
    function_parameter = "cuFuncGetParamInfo"(
        function: Handle, index: usize, place: *mut usize, bytes: *mut usize,
    );
    function_set = "cuFuncSetAttribute"(function: Handle, attribute: c_int, value: c_int);
    launch = "cuLaunchKernelEx"(
        config: *const c_void, function: Handle, params: *mut Handle, extra: *mut Handle,
    );
    launch_plain = "cuLaunchKernel"(
        function: Handle, blocks_x: c_uint, blocks_y: c_uint, blocks_z: c_uint, threads_x: c_uint,
        threads_y: c_uint, threads_z: c_uint, shared: c_uint, stream: Handle,
        params: *mut Handle, extra: *mut Handle,
    );
    tensor_map = "cuTensorMapEncodeTiled"(
        map: *mut c_void, data_type: c_int, rank: c_uint, address: u64, sizes: *const u64,
        strides: *const u64, box_sizes: *const u32, element_strides: *const u32,
        interleave: c_int, swizzle: c_int, promotion: c_int, fill: c_int,
    );
    copy = "cuMemcpyAsync"(to: u64, from: u64, bytes: usize, stream: Handle);
    copy_of_kind = "hipMemcpyAsync"(
        to: u64, from: u64, bytes: usize, kind: c_int, stream: Handle,
    );
    stream_wait = "cuStreamWaitEvent"(stream: Handle, event: Handle, flags: c_uint);
    peer_can = "cuDeviceCanAccessPeer"(can: *mut c_int, device: c_int, peer: c_int);
    peer_enable = "cuCtxEnablePeerAccess"(peer: Handle, flags: c_uint);
    peer_enable_device = "hipDeviceEnablePeerAccess"(peer: c_int, flags: c_uint);
    limit = "cuCtxGetLimit"(value: *mut usize, limit: c_int);
    capture_begin = "cuStreamBeginCapture_v2"(stream: Handle, mode: c_int);
    capture_end = "cuStreamEndCapture"(stream: Handle, graph: *mut Handle);
    graph_make = "cuGraphInstantiateWithFlags"(executable: *mut Handle, graph: Handle, flags: u64);
    graph_launch = "cuGraphLaunch"(executable: Handle, stream: Handle);
    graph_executable_destroy = "cuGraphExecDestroy"(executable: Handle);
    graph_destroy = "cuGraphDestroy"(graph: Handle);
    stub = "fizeau_stub_driver"();
}
