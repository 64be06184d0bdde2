//! What the driver's codes mean for a run.

use crate::gpu::status::{
    Code,
    Meaning::{
        self, Broken, Gone, NotReady, NotSupported, OutOfMemory, PeerWithinReach, Refused, Setup,
        TooLarge, WrongModule,
    },
};
use hip_sys::*;

/// What to do about a machine without a device.
pub const NO_DEVICE_REMEDY: &str = "check rocminfo, that this user may open /dev/kfd (groups \
                                  render and video), and what HIP_VISIBLE_DEVICES and \
                                  ROCR_VISIBLE_DEVICES leave; in a container pass \
                                  --device /dev/kfd --device /dev/dri";

/// What to do about a machine whose driver says no more.
pub const CHECK: &str = "check rocminfo and the kernel log (dmesg | grep -i amdgpu)";

const fn code(number: i32, words: &'static str, meaning: Meaning) -> Code {
    Code { number, words, meaning }
}

/// Codes, in their order.
pub const CODES: &[Code] = &[
    code(hipErrorInvalidValue, "invalid value", Refused),
    code(hipErrorOutOfMemory, "out of memory", OutOfMemory),
    code(hipErrorNotInitialized, "driver not initialised", Setup(CHECK)),
    code(hipErrorDeinitialized, "driver is shutting down", Gone),
    code(hipErrorNoDevice, "no device", Setup(NO_DEVICE_REMEDY)),
    code(hipErrorInvalidDevice, "invalid device", Refused),
    code(hipErrorInvalidImage, "invalid kernel image", WrongModule),
    code(hipErrorInvalidContext, "invalid context", Refused),
    code(hipErrorNoBinaryForGpu, "no kernel image for this device", WrongModule),
    code(hipErrorECCNotCorrectable, "uncorrectable ECC error", Gone),
    code(hipErrorInvalidKernelFile, "invalid kernel file", WrongModule),
    code(hipErrorOperatingSystem, "operating system call failed", Refused),
    code(hipErrorInvalidHandle, "invalid handle", Refused),
    code(hipErrorNotFound, "symbol not found", Refused),
    code(hipErrorNotReady, "not ready", NotReady),
    code(hipErrorIllegalAddress, "illegal address", Broken),
    code(
        hipErrorLaunchOutOfResources,
        "launch needs more registers or memory than a unit has",
        TooLarge,
    ),
    code(hipErrorLaunchTimeOut, "launch timed out", Broken),
    code(hipErrorPeerAccessAlreadyEnabled, "peer within reach already", PeerWithinReach),
    code(hipErrorContextIsDestroyed, "context is destroyed", Broken),
    code(hipErrorAssert, "device-side assertion", Broken),
    code(hipErrorLaunchFailure, "launch failure", Broken),
    code(hipErrorCooperativeLaunchTooLarge, "cooperative launch too large", Refused),
    code(hipErrorNotSupported, "not supported", NotSupported),
    code(hipErrorUnknown, "unknown error, as the driver itself says", Gone),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_once() {
        assert!(CODES.windows(2).all(|pair| pair[0].number < pair[1].number));
    }
}
