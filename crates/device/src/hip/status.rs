//! What the driver's codes mean for a run.

use crate::gpu::status::{
    Code,
    Meaning::{
        Broken, Gone, NotReady, NotSupported, OutOfMemory, PeerWithinReach, Refused, Setup,
        TooLarge, WrongModule,
    },
    codes,
};
use hip_sys::*;

/// What to do about a machine without a device.
pub const NO_DEVICE_REMEDY: &str = "check rocminfo, that this user may open /dev/kfd (groups \
                                  render and video), and what HIP_VISIBLE_DEVICES and \
                                  ROCR_VISIBLE_DEVICES leave; in a container pass \
                                  --device /dev/kfd --device /dev/dri";

/// What to do about a machine whose driver says no more.
pub const CHECK: &str = "check rocminfo and the kernel log (dmesg | grep -i amdgpu)";

codes! {
    hipErrorInvalidValue, Refused, "invalid value";
    hipErrorOutOfMemory, OutOfMemory, "out of memory";
    hipErrorNotInitialized, Setup(CHECK), "driver not initialised";
    hipErrorDeinitialized, Gone, "driver is shutting down";
    hipErrorNoDevice, Setup(NO_DEVICE_REMEDY), "no device";
    hipErrorInvalidDevice, Refused, "invalid device";
    hipErrorInvalidImage, WrongModule, "invalid kernel image";
    hipErrorInvalidContext, Refused, "invalid context";
    hipErrorNoBinaryForGpu, WrongModule, "no kernel image for this device";
    hipErrorECCNotCorrectable, Gone, "uncorrectable ECC error";
    hipErrorInvalidKernelFile, WrongModule, "invalid kernel file";
    hipErrorOperatingSystem, Refused, "operating system call failed";
    hipErrorInvalidHandle, Refused, "invalid handle";
    hipErrorNotFound, Refused, "symbol not found";
    hipErrorNotReady, NotReady, "not ready";
    hipErrorIllegalAddress, Broken, "illegal address";
    hipErrorLaunchOutOfResources, TooLarge, "launch needs more registers or memory than a unit has";
    hipErrorLaunchTimeOut, Broken, "launch timed out";
    hipErrorPeerAccessAlreadyEnabled, PeerWithinReach, "peer within reach already";
    hipErrorContextIsDestroyed, Broken, "context is destroyed";
    hipErrorAssert, Broken, "device-side assertion";
    hipErrorLaunchFailure, Broken, "launch failure";
    hipErrorCooperativeLaunchTooLarge, Refused, "cooperative launch too large";
    hipErrorNotSupported, NotSupported, "not supported";
    hipErrorUnknown, Gone, "unknown error, as the driver itself says";
}
