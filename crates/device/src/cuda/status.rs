//! What the driver's codes mean for a run: `CUresult` of cuda.h, CUDA 13.0.

use crate::gpu::status::{
    Code,
    Meaning::{
        self, Broken, Gone, NotReady, NotSupported, OutOfMemory, PeerWithinReach, Refused, Setup,
        TooLarge, WrongModule,
    },
};
use cudarc::driver::sys::CUresult::{self, *};

/// What to do about a machine whose driver says no more.
pub const CHECK: &str = "check nvidia-smi and the kernel log (dmesg | grep -i nvrm)";

/// What to do about a machine without a device.
pub const NO_DEVICE_REMEDY: &str = "check nvidia-smi, CUDA_VISIBLE_DEVICES, and that the container \
                                  was given the GPU (--gpus all)";

const fn code(number: CUresult, words: &'static str, meaning: Meaning) -> Code {
    Code { number: number as i32, words, meaning }
}

/// Codes, in their order.
pub const CODES: &[Code] = &[
    code(CUDA_ERROR_INVALID_VALUE, "invalid value", Refused),
    code(CUDA_ERROR_OUT_OF_MEMORY, "out of memory", OutOfMemory),
    code(CUDA_ERROR_NOT_INITIALIZED, "driver not initialised", Setup(CHECK)),
    code(CUDA_ERROR_DEINITIALIZED, "driver is shutting down", Gone),
    code(
        CUDA_ERROR_STUB_LIBRARY,
        "this is a toolkit's stub library, not a driver",
        Setup("remove the toolkit's stubs folder from LD_LIBRARY_PATH"),
    ),
    code(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "the call needs a newer driver", Setup(CHECK)),
    code(CUDA_ERROR_DEVICE_UNAVAILABLE, "device busy or unavailable", Gone),
    code(CUDA_ERROR_NO_DEVICE, "no device", Setup(NO_DEVICE_REMEDY)),
    code(CUDA_ERROR_INVALID_DEVICE, "invalid device", Refused),
    code(CUDA_ERROR_DEVICE_NOT_LICENSED, "device without a licence (vGPU)", Setup(CHECK)),
    code(CUDA_ERROR_INVALID_IMAGE, "invalid kernel image", WrongModule),
    code(CUDA_ERROR_INVALID_CONTEXT, "invalid context", Refused),
    code(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image for this device", WrongModule),
    code(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error", Gone),
    code(CUDA_ERROR_INVALID_PTX, "invalid PTX", WrongModule),
    code(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable NVLink error", Gone),
    code(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "no PTX compiler", WrongModule),
    code(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "PTX of a newer toolkit than the driver", WrongModule),
    code(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "unsupported execution affinity", Refused),
    code(CUDA_ERROR_CONTAINED, "contained memory error", Gone),
    code(CUDA_ERROR_OPERATING_SYSTEM, "operating system call failed", Refused),
    code(CUDA_ERROR_INVALID_HANDLE, "invalid handle", Refused),
    code(CUDA_ERROR_NOT_FOUND, "symbol not found", Refused),
    code(CUDA_ERROR_NOT_READY, "not ready", NotReady),
    code(CUDA_ERROR_ILLEGAL_ADDRESS, "illegal address", Broken),
    code(
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        "launch needs more registers or memory than a unit has",
        TooLarge,
    ),
    code(CUDA_ERROR_LAUNCH_TIMEOUT, "launch timed out", Broken),
    code(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer within reach already", PeerWithinReach),
    code(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed", Broken),
    code(CUDA_ERROR_ASSERT, "device-side assertion", Broken),
    code(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error", Broken),
    code(CUDA_ERROR_ILLEGAL_INSTRUCTION, "illegal instruction", Broken),
    code(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address", Broken),
    code(CUDA_ERROR_INVALID_ADDRESS_SPACE, "invalid address space", Broken),
    code(CUDA_ERROR_INVALID_PC, "invalid program counter", Broken),
    code(CUDA_ERROR_LAUNCH_FAILED, "launch failure", Broken),
    code(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "cooperative launch too large", Refused),
    code(CUDA_ERROR_TENSOR_MEMORY_LEAK, "tensor memory leak", Broken),
    code(CUDA_ERROR_NOT_PERMITTED, "not permitted", Refused),
    code(CUDA_ERROR_NOT_SUPPORTED, "not supported", NotSupported),
    code(
        CUDA_ERROR_SYSTEM_NOT_READY,
        "system not ready: is the fabric manager running?",
        Setup("start nvidia-fabricmanager, of the driver's own version"),
    ),
    code(
        CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
        "libcuda and the kernel's driver are of different versions",
        Setup("reboot, or reload the nvidia kernel modules, after a driver update"),
    ),
    code(
        CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
        "the forward-compatibility package does not support this device",
        Setup("remove the cuda-compat package, or use a data-centre GPU"),
    ),
    code(
        CUDA_ERROR_MPS_CONNECTION_FAILED,
        "cannot connect to the MPS server",
        Setup("start nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY"),
    ),
    code(CUDA_ERROR_MPS_CLIENT_TERMINATED, "MPS ended this client", Gone),
    code(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size", Refused),
    code(CUDA_ERROR_UNKNOWN, "unknown error, as the driver itself says", Gone),
];

#[cfg(test)]
mod tests {
    use super::super::driver::CUDA;
    use super::*;
    use crate::{DeviceError, library::Refusal};

    #[test]
    fn codes_are_in_order_and_once() {
        assert!(CODES.windows(2).all(|pair| pair[0].number < pair[1].number));
    }

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
