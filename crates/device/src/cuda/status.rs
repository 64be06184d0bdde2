//! What the driver's codes mean for a run: `CUresult` of cuda.h, CUDA 13.0.

use crate::gpu::status::{
    Code,
    Meaning::{
        Broken, Gone, NotReady, NotSupported, OutOfMemory, PeerWithinReach, Refused, Setup,
        TooLarge, WrongModule,
    },
    codes,
};
use cudarc::driver::sys::CUresult::*;

/// What to do about a machine whose driver says no more.
pub const CHECK: &str = "check nvidia-smi and the kernel log (dmesg | grep -i nvrm)";

/// What to do about a machine without a device.
pub const NO_DEVICE_REMEDY: &str = "check nvidia-smi, CUDA_VISIBLE_DEVICES, and that the container \
                                  was given the GPU (--gpus all)";

/// What to do where the driver's libraries and its kernel modules are of different versions.
pub const MISMATCH_REMEDY: &str = "reboot, or reload the nvidia kernel modules, after a driver \
                                   update";

codes! {
    CUDA_ERROR_INVALID_VALUE, Refused, "invalid value";
    CUDA_ERROR_OUT_OF_MEMORY, OutOfMemory, "out of memory";
    CUDA_ERROR_NOT_INITIALIZED, Setup(CHECK), "driver not initialised";
    CUDA_ERROR_DEINITIALIZED, Gone, "driver is shutting down";
    CUDA_ERROR_STUB_LIBRARY, Setup("remove the toolkit's stubs folder from LD_LIBRARY_PATH"),
        "this is a toolkit's stub library, not a driver";
    CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, Setup(CHECK), "the call needs a newer driver";
    CUDA_ERROR_DEVICE_UNAVAILABLE, Gone, "device busy or unavailable";
    CUDA_ERROR_NO_DEVICE, Setup(NO_DEVICE_REMEDY), "no device";
    CUDA_ERROR_INVALID_DEVICE, Refused, "invalid device";
    CUDA_ERROR_DEVICE_NOT_LICENSED, Setup(CHECK), "device without a licence (vGPU)";
    CUDA_ERROR_INVALID_IMAGE, WrongModule, "invalid kernel image";
    CUDA_ERROR_INVALID_CONTEXT, Refused, "invalid context";
    CUDA_ERROR_NO_BINARY_FOR_GPU, WrongModule, "no kernel image for this device";
    CUDA_ERROR_ECC_UNCORRECTABLE, Gone, "uncorrectable ECC error";
    CUDA_ERROR_INVALID_PTX, WrongModule, "invalid PTX";
    CUDA_ERROR_NVLINK_UNCORRECTABLE, Gone, "uncorrectable NVLink error";
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND, WrongModule, "no PTX compiler";
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION, WrongModule, "PTX of a newer toolkit than the driver";
    CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, Refused, "unsupported execution affinity";
    CUDA_ERROR_CONTAINED, Gone, "contained memory error";
    CUDA_ERROR_OPERATING_SYSTEM, Refused, "operating system call failed";
    CUDA_ERROR_INVALID_HANDLE, Refused, "invalid handle";
    CUDA_ERROR_NOT_FOUND, Refused, "symbol not found";
    CUDA_ERROR_NOT_READY, NotReady, "not ready";
    CUDA_ERROR_ILLEGAL_ADDRESS, Broken, "illegal address";
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, TooLarge,
        "launch needs more registers or memory than a unit has";
    CUDA_ERROR_LAUNCH_TIMEOUT, Broken, "launch timed out";
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, PeerWithinReach, "peer within reach already";
    CUDA_ERROR_CONTEXT_IS_DESTROYED, Broken, "context is destroyed";
    CUDA_ERROR_ASSERT, Broken, "device-side assertion";
    CUDA_ERROR_HARDWARE_STACK_ERROR, Broken, "hardware stack error";
    CUDA_ERROR_ILLEGAL_INSTRUCTION, Broken, "illegal instruction";
    CUDA_ERROR_MISALIGNED_ADDRESS, Broken, "misaligned address";
    CUDA_ERROR_INVALID_ADDRESS_SPACE, Broken, "invalid address space";
    CUDA_ERROR_INVALID_PC, Broken, "invalid program counter";
    CUDA_ERROR_LAUNCH_FAILED, Broken, "launch failure";
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, Refused, "cooperative launch too large";
    CUDA_ERROR_TENSOR_MEMORY_LEAK, Broken, "tensor memory leak";
    CUDA_ERROR_NOT_PERMITTED, Refused, "not permitted";
    CUDA_ERROR_NOT_SUPPORTED, NotSupported, "not supported";
    CUDA_ERROR_SYSTEM_NOT_READY, Setup("start nvidia-fabricmanager, of the driver's own version"),
        "system not ready: is the fabric manager running?";
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
        Setup(MISMATCH_REMEDY),
        "libcuda and the kernel's driver are of different versions";
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
        Setup("remove the cuda-compat package, or use a data-centre GPU"),
        "the forward-compatibility package does not support this device";
    CUDA_ERROR_MPS_CONNECTION_FAILED,
        Setup("start nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY"),
        "cannot connect to the MPS server";
    CUDA_ERROR_MPS_CLIENT_TERMINATED, Gone, "MPS ended this client";
    CUDA_ERROR_INVALID_CLUSTER_SIZE, Refused, "invalid cluster size";
    CUDA_ERROR_UNKNOWN, Gone, "unknown error, as the driver itself says";
}

#[cfg(test)]
mod tests {
    use super::super::driver::CUDA;
    use crate::{DeviceError, gpu::status::Meaning, library::Refusal};

    #[test]
    fn a_code_is_an_outcome() {
        let of = |code| CUDA.error(&Refusal::Code { call: "cuCall", code });
        assert!(matches!(of(214), DeviceError::Lost(words) if words.contains("ECC")));
        assert!(matches!(of(802), DeviceError::Broken { remedy, .. } if remedy.contains("fabric")));
        assert!(matches!(of(1), DeviceError::Driver(words) if words.contains("invalid value")));
        let unknown = of(123_456).to_string();
        assert!(unknown.contains("123456") && unknown.contains("does not know"), "{unknown}");
        assert_eq!(CUDA.meaning(-7), Meaning::Unknown);
    }
}
