//! HIP's runtime and driver interface, `libamdhip64.so`: `hip/hip_runtime_api.h` and
//! `hip/driver_types.h`.

use crate::table::{codes, constants, functions, handles};
use std::{
    ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void},
    fmt,
};

codes! {
    /// What HIP's functions return. An integer, because a newer library may return codes that are
    /// not listed here.
    hipError_t, error_name:
    hipSuccess = 0: "Success.",
    hipErrorInvalidValue = 1: "An argument is out of its range.",
    hipErrorOutOfMemory = 2: "Not enough memory.",
    hipErrorNotInitialized = 3: "HIP could not be initialised.",
    hipErrorDeinitialized = 4: "The driver is shutting down.",
    hipErrorInvalidConfiguration = 9:
        "The launch's grid, block or shared memory is more than the device has.",
    hipErrorInvalidSymbol = 13: "The symbol's name or address is not known.",
    hipErrorInvalidDevicePointer = 17: "The pointer is not of device memory.",
    hipErrorInvalidMemcpyDirection = 21: "The copy's direction is not valid.",
    hipErrorInsufficientDriver = 35: "The kernel's driver is older than the library needs.",
    hipErrorPriorLaunchFailure = 53: "A launch before this one failed.",
    hipErrorInvalidDeviceFunction = 98: "The device has no function of this name.",
    hipErrorNoDevice = 100: "There is no device.",
    hipErrorInvalidDevice = 101: "There is no device of this number.",
    hipErrorInvalidImage = 200: "The image is no code object.",
    hipErrorInvalidContext = 201: "There is no current context, or it is not valid.",
    hipErrorNoBinaryForGpu = 209: "The image has no code for this device.",
    hipErrorECCNotCorrectable = 214: "The memory's ECC found an error that it could not correct.",
    hipErrorPeerAccessUnsupported = 217: "These two devices cannot reach each other's memory.",
    hipErrorInvalidKernelFile = 218: "The kernel's file is not valid.",
    hipErrorInvalidSource = 300: "The source is not valid.",
    hipErrorFileNotFound = 301: "A file was not found.",
    hipErrorSharedObjectSymbolNotFound = 302: "A shared object lacks a symbol.",
    hipErrorSharedObjectInitFailed = 303: "A shared object could not be initialised.",
    hipErrorOperatingSystem = 304: "A call of the operating system failed.",
    hipErrorInvalidHandle = 400: "A handle is not valid.",
    hipErrorIllegalState = 401: "The object is not in a state for this call.",
    hipErrorNotFound = 500: "A name was not found, such as a kernel's in its module.",
    hipErrorNotReady = 600: "The work is not done yet. Not a failure.",
    hipErrorIllegalAddress = 700: "A kernel used an address that is not its own.",
    hipErrorLaunchOutOfResources = 701:
        "The launch needs more registers or memory than the device has.",
    hipErrorLaunchTimeOut = 702: "A kernel ran for longer than it may.",
    hipErrorPeerAccessAlreadyEnabled = 704:
        "The current device reaches that device's memory already.",
    hipErrorPeerAccessNotEnabled = 705: "The current device does not reach that device's memory.",
    hipErrorSetOnActiveProcess = 708:
        "The process has begun to use the device: it is too late for this setting.",
    hipErrorContextIsDestroyed = 709: "The context was destroyed.",
    hipErrorAssert = 710: "An assertion in a kernel failed.",
    hipErrorHostMemoryAlreadyRegistered = 712: "The host memory is registered already.",
    hipErrorHostMemoryNotRegistered = 713: "The host memory is not registered.",
    hipErrorLaunchFailure = 719: "A kernel failed while it ran.",
    hipErrorCooperativeLaunchTooLarge = 720:
        "A cooperative launch has more blocks than the device holds at once.",
    hipErrorNotSupported = 801: "The device or the library does not support this.",
    hipErrorStreamCaptureUnsupported = 900: "The call is not permitted while a stream is captured.",
    hipErrorStreamCaptureInvalidated = 901: "An earlier error has ended the capture.",
    hipErrorStreamCaptureMerge = 902: "The call would join two captures.",
    hipErrorStreamCaptureUnmatched = 903:
        "The stream does not belong to the capture that is ended.",
    hipErrorStreamCaptureUnjoined = 904: "Streams of the capture were not joined to the first one.",
    hipErrorStreamCaptureIsolation = 905: "The capture depends on work outside of it.",
    hipErrorStreamCaptureImplicit = 906:
        "The call would wait for the default stream, which cannot be captured.",
    hipErrorCapturedEvent = 907: "The event was recorded in a capture.",
    hipErrorStreamCaptureWrongThread = 908: "The capture was begun by another thread.",
    hipErrorGraphExecUpdateFailure = 910: "An executable graph could not be updated.",
    hipErrorUnknown = 999: "No better code is known.",
    hipErrorRuntimeMemory = 1052: "The memory functions of the runtime under HIP failed.",
    hipErrorRuntimeOther = 1053: "Another function of the runtime under HIP failed.",
}

constants! {
    /// Attributes of a device for `hipDeviceGetAttribute`; only those that users of this crate need.
    hipDeviceAttribute_t = c_int {
        hipDeviceAttributeClockRate = 5: "Highest clock of the compute units, in kHz.",
        hipDeviceAttributeL2CacheSize = 19: "Size of the L2 cache of one die, in bytes.",
        hipDeviceAttributeMemoryBusWidth = 59: "Width of the memory bus, in bits.",
        hipDeviceAttributeMemoryClockRate = 60: "Highest clock of the memory, in kHz.",
        hipDeviceAttributeMultiprocessorCount = 63: "Compute units; on RDNA, pairs of them.",
        hipDeviceAttributeWarpSize = 87: "Lanes of a wavefront.",
        hipDeviceAttributeWallClockRate = 10_017:
            "Rate of the timer that `wall_clock64` reads in kernels, in kHz. Since HIP 5.3.",
    }

    /// Direction of a copy.
    hipMemcpyKind = c_int {
        hipMemcpyHostToHost = 0: "From host to host.",
        hipMemcpyHostToDevice = 1: "From host to device.",
        hipMemcpyDeviceToHost = 2: "From device to host.",
        hipMemcpyDeviceToDevice = 3: "From device to device.",
        hipMemcpyDefault = 4: "The library finds the direction from the addresses.",
    }

    /// Which calls a capture of a stream forbids meanwhile.
    hipStreamCaptureMode = c_int {
        hipStreamCaptureModeGlobal = 0: "Unsafe calls of every thread.",
        hipStreamCaptureModeThreadLocal = 1: "Unsafe calls of the thread that captures.",
        hipStreamCaptureModeRelaxed = 2: "None.",
    }

    /// Flags of `hipStreamCreateWithFlags`. Macros in the header.
    hipStreamFlags = c_uint {
        hipStreamDefault = 0: "None.",
        hipStreamNonBlocking = 1:
            "The stream does not wait for the default stream, nor that one for it.",
    }

    /// Flags of `hipEventCreateWithFlags`. Macros in the header.
    hipEventFlags = c_uint {
        hipEventDefault = 0: "None.",
        hipEventDisableTiming = 2: "The event records no time.",
    }

    /// Flags of `hipHostMalloc`. Macros in the header.
    hipHostMallocFlags = c_uint {
        hipHostMallocDefault = 0: "None.",
        hipHostMallocPortable = 1: "The memory is pinned for every device.",
        hipHostMallocMapped = 2: "Devices can address the memory.",
        hipHostMallocCoherent = 0x4000_0000: "A running kernel sees what the host writes.",
    }

    /// Marks in the `extra` list of `hipModuleLaunchKernel`, each followed by its value. Macros in
    /// the header, cast to pointers there.
    hipLaunchParam = usize {
        HIP_LAUNCH_PARAM_BUFFER_POINTER = 1:
            "A pointer to the kernel's parameters, packed, comes next.",
        HIP_LAUNCH_PARAM_BUFFER_SIZE = 2: "A pointer to their size comes next.",
        HIP_LAUNCH_PARAM_END = 3: "The list ends.",
    }
}

handles! {
    /// A context of the driver interface.
    hipCtx_t = *mut ihipCtx_t;
    /// A stream: work is done in the order in which it was enqueued. Null is the default stream.
    hipStream_t = *mut ihipStream_t;
    /// A point in a stream.
    hipEvent_t = *mut ihipEvent_t;
    /// A loaded code object.
    hipModule_t = *mut ihipModule_t;
    /// A kernel of a module.
    hipFunction_t = *mut ihipModuleSymbol_t;
    /// A graph of work.
    hipGraph_t = *mut ihipGraph;
    /// A graph that can be launched.
    hipGraphExec_t = *mut hipGraphExec;
}

/// A device by its number.
pub type hipDevice_t = c_int;

/// An address of device memory. A pointer in HIP, where CUDA has an integer.
pub type hipDeviceptr_t = *mut c_void;

/// What tells a device from all others: 16 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct hipUUID_t {
    /// The characters; since ROCm 5 hexadecimal digits, without a zero at the end.
    pub bytes: [c_char; 16],
}

/// As most headers spell it.
pub type hipUUID = hipUUID_t;

/// What a device says of itself, since HIP 6: 1472 bytes, of which this crate names two texts. The
/// name carries the version of the layout: a library with another one exports another function.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct hipDeviceProp_tR0600 {
    /// Name of the product, ended by a zero.
    pub name: [c_char; 256],
    _between: [u8; 904],
    /// Name of the target with its modes, ended by a zero: `gfx942:sramecc+:xnack-`.
    pub gcnArchName: [c_char; 256],
    _rest: [u8; 56],
}

/// What a device says of itself before HIP 6, by the layout of HIP 5. The struct grew meanwhile, so
/// that this one has more room than any version writes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct hipDeviceProp_tR0000 {
    /// Name of the product, ended by a zero.
    pub name: [c_char; 256],
    _between: [u8; 140],
    /// Name of the target with its modes, ended by a zero: `gfx90a:sramecc+:xnack-`.
    pub gcnArchName: [c_char; 256],
    _room: [u8; 3444],
}

macro_rules! properties {
    ($($type:ident)*) => { $(
        impl $type {
            /// All bytes zero: memory for a call to write into.
            pub const fn zeroed() -> $type {
                // SAFETY: all fields are plain numbers.
                unsafe { std::mem::zeroed() }
            }

            /// Name of the target with its modes; `None` where no zero ends it.
            pub fn architecture(&self) -> Option<String> {
                let bytes = self.gcnArchName.map(|byte| byte as u8);
                let text = CStr::from_bytes_until_nul(&bytes).ok()?;
                Some(text.to_string_lossy().into_owned())
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut out = f.debug_struct(stringify!($type));
                out.field("architecture", &self.architecture()).finish_non_exhaustive()
            }
        }
    )* };
}
properties! { hipDeviceProp_tR0600 hipDeviceProp_tR0000 }

/// File names of the runtime, newest major version first.
pub const HIP_FILES: &[&str] = &[
    "libamdhip64.so.10",
    "libamdhip64.so.9",
    "libamdhip64.so.8",
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "libamdhip64.so",
];

functions! {
    /// The functions of `libamdhip64.so`. Each method calls the function of its name.
    Hip, error_name:
    /// Initialises HIP; `flags` is 0.
    fn hipInit(flags: c_uint);
    /// Version of the library: 10 000 000 for each major one, 100 000 for each minor one.
    fn hipRuntimeGetVersion(version: *mut c_int);
    /// Number of devices that this process sees.
    fn hipGetDeviceCount(count: *mut c_int);
    /// A device by its ordinal.
    fn hipDeviceGet(device: *mut hipDevice_t, ordinal: c_int);
    /// Name of the product, into `length` bytes.
    fn hipDeviceGetName(name: *mut c_char, length: c_int, device: hipDevice_t);
    /// What tells the device from all others.
    fn hipDeviceGetUuid(uuid: *mut hipUUID, device: hipDevice_t);
    /// Place on the PCI bus, such as `0000:c1:00.0`, into `length` bytes.
    fn hipDeviceGetPCIBusId(place: *mut c_char, length: c_int, device: c_int);
    /// Size of the device's memory, in bytes.
    fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t);
    /// One number about a device.
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int);
    /// What a device says of itself, since HIP 6.
    fn hipGetDevicePropertiesR0600(properties: *mut hipDeviceProp_tR0600, device: c_int);
    /// What a device says of itself before HIP 6. Newer libraries export this name for old
    /// programs, with the same layout.
    fn hipGetDeviceProperties(properties: *mut hipDeviceProp_tR0000, device: c_int);
    /// Retains the device's primary context.
    fn hipDevicePrimaryCtxRetain(context: *mut hipCtx_t, device: hipDevice_t);
    /// Releases the device's primary context.
    fn hipDevicePrimaryCtxRelease(device: hipDevice_t);
    /// Makes a context this thread's current one.
    fn hipCtxSetCurrent(context: hipCtx_t);
    /// Free and total memory of the current device, in bytes.
    fn hipMemGetInfo(free: *mut usize, total: *mut usize);
    /// Allocates device memory.
    fn hipMalloc(address: *mut *mut c_void, bytes: usize);
    /// Frees device memory. Waits for the device.
    fn hipFree(address: *mut c_void);
    /// Allocates pinned host memory; `flags` are of [`hipHostMallocFlags`].
    fn hipHostMalloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    /// Address of mapped host memory on the device; `flags` is 0.
    fn hipHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint);
    /// Frees pinned host memory.
    fn hipHostFree(address: *mut c_void);
    /// Enqueues the filling of device memory with a byte.
    fn hipMemsetD8Async(address: hipDeviceptr_t, value: c_uchar, count: usize, stream: hipStream_t);
    /// Enqueues a copy from host to device.
    fn hipMemcpyHtoDAsync(
        to: hipDeviceptr_t, from: *const c_void, bytes: usize, stream: hipStream_t,
    );
    /// Enqueues a copy from device to host.
    fn hipMemcpyDtoHAsync(to: *mut c_void, from: hipDeviceptr_t, bytes: usize, stream: hipStream_t);
    /// Enqueues a copy between memories of any kind.
    fn hipMemcpyAsync(
        to: *mut c_void, from: *const c_void, bytes: usize, kind: hipMemcpyKind,
        stream: hipStream_t,
    );
    /// Makes a stream; `flags` are of [`hipStreamFlags`].
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint);
    /// Destroys a stream.
    fn hipStreamDestroy(stream: hipStream_t);
    /// Has a stream wait for an event; `flags` is 0.
    fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint);
    /// Makes an event; `flags` are of [`hipEventFlags`].
    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint);
    /// Destroys an event.
    fn hipEventDestroy(event: hipEvent_t);
    /// Enqueues an event.
    fn hipEventRecord(event: hipEvent_t, stream: hipStream_t);
    /// Whether an event has come: [`hipErrorNotReady`] where it has not.
    fn hipEventQuery(event: hipEvent_t);
    /// Time between two events, in ms.
    fn hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, stop: hipEvent_t);
    /// Loads a code object from memory.
    fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void);
    /// Unloads a module.
    fn hipModuleUnload(module: hipModule_t);
    /// A kernel of a module by its name.
    fn hipModuleGetFunction(
        function: *mut hipFunction_t, module: hipModule_t, name: *const c_char,
    );
    /// Enqueues a kernel. `blocks` count blocks, `threads` the threads of one, `shared` its bytes of
    /// dynamic shared memory; parameters come by `params` or by `extra` ([`hipLaunchParam`]).
    fn hipModuleLaunchKernel(
        function: hipFunction_t, blocks_x: c_uint, blocks_y: c_uint, blocks_z: c_uint,
        threads_x: c_uint, threads_y: c_uint, threads_z: c_uint, shared: c_uint,
        stream: hipStream_t, params: *mut *mut c_void, extra: *mut *mut c_void,
    );
    /// Whether a device can reach another's memory.
    fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int);
    /// Lets the current device reach another's memory; `flags` is 0.
    fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint);
    /// Begins to capture what is enqueued on a stream.
    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode);
    /// Ends a capture, and gives its graph.
    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t);
    /// Makes a graph that can be launched; `flags` may be 0.
    fn hipGraphInstantiateWithFlags(
        executable: *mut hipGraphExec_t, graph: hipGraph_t, flags: c_ulonglong,
    );
    /// Enqueues a graph.
    fn hipGraphLaunch(executable: hipGraphExec_t, stream: hipStream_t);
    /// Destroys a graph that can be launched.
    fn hipGraphExecDestroy(executable: hipGraphExec_t);
    /// Destroys a graph.
    fn hipGraphDestroy(graph: hipGraph_t);
    texts:
    /// The library's name of a code.
    fn hipGetErrorName(code: c_int);
    /// The library's words for a code.
    fn hipGetErrorString(code: c_int);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_read_up_to_its_zero_and_no_further() {
        let mut properties = hipDeviceProp_tR0600::zeroed();
        assert_eq!(properties.architecture().as_deref(), Some(""));
        for (to, from) in properties.gcnArchName.iter_mut().zip(b"gfx942:sramecc+:xnack-") {
            *to = *from as c_char;
        }
        assert_eq!(properties.architecture().as_deref(), Some("gfx942:sramecc+:xnack-"));
        assert!(format!("{properties:?}").contains("gfx942"));
        let mut old = hipDeviceProp_tR0000::zeroed();
        old.gcnArchName = [b'g' as c_char; 256];
        assert_eq!(old.architecture(), None, "nothing ends the text");
    }

    #[test]
    fn codes_have_names_and_unknown_ones_none() {
        assert_eq!(error_name(hipErrorNotReady), Some("hipErrorNotReady"));
        assert_eq!(error_name(123_456), None);
        assert_eq!(error_name(-1), None);
    }
}
