//! What the driver's codes mean for a run (`CUresult` of cuda.h, CUDA 13.0).

use super::vendor::Vendor;
use crate::device::{DeviceError, library::Refusal};

/// Work is not done yet: no error.
pub const NOT_READY: i32 = 600;

/// What a code means for what comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Memory could not be had.
    OutOfMemory,
    /// The module was not made for this device or driver.
    WrongModule,
    /// This launch or call was refused; the next one may be right.
    Refused,
    /// A kernel broke its context: "the process must be terminated and relaunched".
    Broken,
    /// The device is gone, or its memory is.
    Gone,
    /// The driver cannot work on this machine as it is set up.
    Setup,
    /// A code that cuda.h of this version does not list.
    Unknown,
}

/// Codes with their names and meanings.
const CODES: &[(i32, &str, Meaning)] = {
    use Meaning::{Broken, Gone, OutOfMemory, Refused, Setup, WrongModule};
    &[
        (1, "invalid value", Refused),
        (2, "out of memory", OutOfMemory),
        (3, "driver not initialised", Setup),
        (4, "driver is shutting down", Gone),
        (34, "this is a toolkit's stub library, not a driver", Setup),
        (36, "the call needs a newer driver", Setup),
        (46, "device busy or unavailable", Gone),
        (100, "no device", Setup),
        (101, "invalid device", Refused),
        (102, "device without a licence (vGPU)", Setup),
        (200, "invalid kernel image", WrongModule),
        (201, "invalid context", Refused),
        (209, "no kernel image for this device", WrongModule),
        (214, "uncorrectable ECC error", Gone),
        (218, "invalid PTX", WrongModule),
        (220, "uncorrectable NVLink error", Gone),
        (221, "no PTX compiler", WrongModule),
        (222, "PTX of a newer toolkit than the driver", WrongModule),
        (224, "unsupported execution affinity", Refused),
        (226, "contained memory error", Gone),
        (304, "operating system call failed", Refused),
        (400, "invalid handle", Refused),
        (500, "symbol not found", Refused),
        (NOT_READY, "not ready", Refused),
        (700, "illegal address", Broken),
        (701, "launch needs more registers or memory than a unit has", Refused),
        (702, "launch timed out", Broken),
        (709, "context is destroyed", Broken),
        (710, "device-side assertion", Broken),
        (714, "hardware stack error", Broken),
        (715, "illegal instruction", Broken),
        (716, "misaligned address", Broken),
        (717, "invalid address space", Broken),
        (718, "invalid program counter", Broken),
        (719, "launch failure", Broken),
        (720, "cooperative launch too large", Refused),
        (721, "tensor memory leak", Broken),
        (800, "not permitted", Refused),
        (801, "not supported", Refused),
        (802, "system not ready: is the fabric manager running?", Setup),
        (803, "libcuda and the kernel's driver are of different versions", Setup),
        (804, "the forward-compatibility package does not support this device", Setup),
        (805, "cannot connect to the MPS server", Setup),
        (810, "MPS ended this client", Gone),
        (912, "invalid cluster size", Refused),
        (999, "unknown error, as the driver itself says", Gone),
    ]
};

/// What a code means.
pub fn meaning(code: i32) -> Meaning {
    find(code).map_or(Meaning::Unknown, |row| row.2)
}

/// A code in words.
pub fn words(vendor: &Vendor, code: i32) -> String {
    let interface = vendor.interface;
    match find(code) {
        Some((code, name, _)) => format!("{name} ({interface} error {code})"),
        None => format!("{interface} error {code}, which this version of fizeau does not know"),
    }
}

fn find(code: i32) -> Option<&'static (i32, &'static str, Meaning)> {
    CODES.iter().find(|row| row.0 == code)
}

/// A refusal that has nothing to do with a kernel or a size.
pub fn error(vendor: &Vendor, refusal: &Refusal) -> DeviceError {
    match refusal {
        Refusal::NoSymbol(name) => DeviceError::Missing {
            what: format!("{name} in {}", vendor.library.files[0]),
            mend: vendor.newer.into(),
        },
        Refusal::Code { call, code } => {
            let said = format!("{call}: {}", words(vendor, *code));
            match meaning(*code) {
                Meaning::Gone => DeviceError::Lost(said),
                Meaning::Setup => DeviceError::Missing {
                    what: format!("a working {} driver ({said})", vendor.maker),
                    mend: (vendor.mend)(*code).into(),
                },
                _ => DeviceError::Driver(said),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_once() {
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
