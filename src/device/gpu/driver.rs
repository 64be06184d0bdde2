//! `libcuda.so.1`: its functions, and the few facts that need no context.

#![expect(unsafe_code, reason = "the driver is a C library")]
#![expect(clippy::too_many_arguments, reason = "its functions have as many as they have")]

use super::{
    status,
    vendor::{Peers, Vendor},
};
use crate::device::{
    DeviceError,
    library::{self, Handle, Refusal, functions},
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

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
    function_set = "cuFuncSetAttribute"(function: Handle, attribute: c_int, value: c_int);
    launch = "cuLaunchKernelEx"(
        config: *const LaunchConfig, function: Handle, params: *mut Handle, extra: *mut Handle,
    );
    launch_plain = "cuLaunchKernel"(
        function: Handle, blocks_x: c_uint, blocks_y: c_uint, blocks_z: c_uint, threads_x: c_uint,
        threads_y: c_uint, threads_z: c_uint, shared: c_uint, stream: Handle,
        params: *mut Handle, extra: *mut Handle,
    );
    tensor_map = "cuTensorMapEncodeTiled"(
        map: *mut TensorMap, data_type: c_int, rank: c_uint, address: u64, sizes: *const u64,
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

/// `CUlaunchConfig`.
#[repr(C)]
pub struct LaunchConfig {
    /// Blocks.
    pub grid: [c_uint; 3],
    /// Threads of one.
    pub block: [c_uint; 3],
    /// Dynamic shared memory of one, in bytes.
    pub shared: c_uint,
    /// On this stream.
    pub stream: Handle,
    /// An array.
    pub attributes: *const LaunchAttribute,
    /// Its length.
    pub attribute_count: c_uint,
}

/// `CUlaunchAttribute`: a number, padding, and a union of 64 bytes.
#[repr(C, align(8))]
pub struct LaunchAttribute {
    /// Which attribute; 4 is the cluster's dimension.
    pub id: c_uint,
    /// None.
    pub padding: [u8; 4],
    /// For a cluster: x, y and z first.
    pub value: [c_uint; 16],
}

const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<LaunchAttribute>() == 72);

/// `CUtensorMap`: aligned to 64 bytes, since CUDA 13.0 to 128.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
pub struct TensorMap(pub [u8; 128]);

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const MAX_DYNAMIC_SHARED: c_int = 8;
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
pub const NON_PORTABLE_CLUSTER: c_int = 14;
/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
pub const CLUSTER_DIMENSION: c_uint = 4;

/// The opened and initialised driver.
pub struct Driver {
    /// What it does.
    pub functions: Functions,
    /// The newest CUDA it can run, `13000` for 13.0.
    pub version: i32,
    /// Whether it is a stub for tests, which no number comes from.
    pub is_stub: bool,
    /// Whose it is.
    pub vendor: &'static Vendor,
}

impl Driver {
    /// Opens and initialises one.
    ///
    /// # Errors
    ///
    /// As for [`driver`].
    pub fn open(vendor: &'static Vendor) -> Result<Driver, DeviceError> {
        let functions = Functions::of(library::open(&vendor.library)?, vendor.spelled);
        let error = |refusal: Refusal| status::error(vendor, &refusal);
        let mut version = 0;
        // SAFETY: the pointer is valid; a driver answers this call before it is initialised.
        unsafe { functions.version(&raw mut version) }.map_err(error)?;
        if version < vendor.version_min {
            return Err((vendor.too_old)(version));
        }
        // SAFETY: zero is the only flag there is; the stub's mark takes nothing.
        unsafe {
            functions.init(0).map_err(error)?;
            let is_stub = functions.stub().is_ok();
            Ok(Driver { functions, version, is_stub, vendor })
        }
    }

    /// Enqueues a copy between memories of any kind.
    ///
    /// # Safety
    ///
    /// Both ranges are alive until the copy is done.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub unsafe fn copy(
        &self,
        to: u64,
        from: u64,
        bytes: usize,
        stream: Handle,
    ) -> Result<(), Refusal> {
        let f = &self.functions;
        // SAFETY: the caller's promise.
        unsafe {
            match self.vendor.copy_kind {
                Some(kind) => f.copy_of_kind(to, from, bytes, kind, stream),
                None => f.copy(to, from, bytes, stream),
            }
        }
    }

    /// Brings another device's memory within the current one's reach.
    ///
    /// # Safety
    ///
    /// The context is alive, and of that device.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub unsafe fn enable_peer(&self, context: Handle, device: c_int) -> Result<(), Refusal> {
        let f = &self.functions;
        // SAFETY: the caller's promise; zero is the only flag there is.
        unsafe {
            match self.vendor.names_peers {
                Peers::ByContext => f.peer_enable(context, 0),
                Peers::ByDevice => f.peer_enable_device(device, 0),
            }
        }
    }

    /// How many devices there are, as `CUDA_VISIBLE_DEVICES` lets them be seen.
    ///
    /// # Errors
    ///
    /// What the driver refuses.
    pub fn count(&self) -> Result<u32, DeviceError> {
        let mut count = 0;
        // SAFETY: the pointer is valid.
        unsafe { self.functions.device_count(&raw mut count) }
            .map_err(|refusal| status::error(self.vendor, &refusal))?;
        Ok(count.max(0) as u32)
    }

    /// The driver's handle of a device.
    ///
    /// # Errors
    ///
    /// Where there are not so many.
    pub fn device(&self, ordinal: u32) -> Result<c_int, DeviceError> {
        let mut device = 0;
        // SAFETY: the pointer is valid.
        unsafe { self.functions.device(&raw mut device, ordinal as c_int) }
            .map_err(|refusal| status::error(self.vendor, &refusal))?;
        Ok(device)
    }

    /// An attribute by its number; none where the driver does not state it.
    pub fn number(&self, device: c_int, attribute: c_int) -> Option<u32> {
        let mut value = 0;
        // SAFETY: the pointer is valid.
        let said = unsafe { self.functions.attribute(&raw mut value, attribute, device) };
        said.ok().and_then(|()| u32::try_from(value).ok()).filter(|&value| value > 0)
    }

    /// The name, such as `NVIDIA H200`.
    pub fn name(&self, device: c_int) -> Option<String> {
        // SAFETY: the buffer is as long as is said.
        text(|buffer, length| unsafe { self.functions.device_name(buffer, length, device) }.is_ok())
    }

    /// The place on the PCI bus, such as `0000:1b:00.0`.
    pub fn pci(&self, device: c_int) -> Option<String> {
        // SAFETY: the buffer is as long as is said.
        text(|buffer, length| unsafe { self.functions.device_pci(buffer, length, device) }.is_ok())
            .map(|place| place.to_ascii_lowercase())
    }

    /// The device's own number, of a slice where it is one.
    pub fn uuid(&self, device: c_int) -> Option<String> {
        let mut uuid = [0u8; 16];
        // SAFETY: the pointer is to 16 bytes.
        unsafe { self.functions.device_uuid(&raw mut uuid, device) }.ok()?;
        let hex = |range: std::ops::Range<usize>| -> String {
            uuid[range].iter().map(|byte| format!("{byte:02x}")).collect()
        };
        Some([hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-"))
    }

    /// Memory in all.
    pub fn memory(&self, device: c_int) -> Option<u64> {
        let mut bytes = 0;
        // SAFETY: the pointer is valid.
        unsafe { self.functions.device_memory(&raw mut bytes, device) }.ok()?;
        Some(bytes as u64)
    }
}

/// A text that a function writes into a buffer.
fn text(write: impl FnOnce(*mut c_char, c_int) -> bool) -> Option<String> {
    let mut buffer = [0u8; 256];
    if !write(buffer.as_mut_ptr().cast(), buffer.len() as c_int - 1) {
        return None;
    }
    let text = CStr::from_bytes_until_nul(&buffer).ok()?;
    Some(text.to_string_lossy().into_owned())
}
