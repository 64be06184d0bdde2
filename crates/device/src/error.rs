//! What can go wrong with a device.

use crate::clock;
use fizeau_domain::{
    kernel::OtherOperation,
    units::{Bytes, Seconds},
};

/// What a device gives, or what went wrong with it.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// What can go wrong with a device.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DeviceError {
    /// The driver or library is not there.
    #[error("{what} not found: {remedy}")]
    Missing {
        /// Which.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The driver is there and works, and shows no device.
    #[error("{what} not found: {remedy}")]
    NoDevice {
        /// Whose device, and what hides it, where that is known.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The driver or library is there and does not work.
    #[error("{what} does not work ({why}): {remedy}")]
    Broken {
        /// Which.
        what: String,
        /// The driver's or the loader's words.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// The library does not have it; another device would not help.
    #[error("{library} does not offer {what}")]
    NotOffered {
        /// Which library, and which of its functions.
        library: String,
        /// What of the case it does not take.
        what: String,
    },
    /// The kernel is not made for the shape of the case; the device may have all it takes.
    #[error("the shape of this case does not fit kernel {kernel}, which needs {needs}")]
    Unfit {
        /// Which kernel.
        kernel: String,
        /// What shape it is made for.
        needs: String,
    },
    /// The device does not have what the kernel asks for.
    #[error("kernel {kernel} needs {needs}, which this device does not have")]
    Unsupported {
        /// Which kernel.
        kernel: String,
        /// What it asks for.
        needs: String,
    },
    /// Memory could not be had.
    #[error(
        "cannot allocate {}: {why}", if .size.0 > 0 { .size.to_string() } else { "memory".into() }
    )]
    Allocation {
        /// How much; none where a call took some of the driver's own.
        size: Bytes,
        /// The driver's word.
        why: String,
    },
    /// A kernel could not be loaded or launched.
    #[error("kernel {kernel}: {why}")]
    Launch {
        /// Which kernel.
        kernel: String,
        /// The driver's word.
        why: String,
    },
    /// Work did not end within its deadline.
    #[error("no answer within {limit}: {what}")]
    Hang {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Seconds,
    },
    /// The device is gone; nothing more can be measured on it.
    #[error("device lost: {0}")]
    Lost(String),
    /// Anything else the driver says.
    #[error("{0}")]
    Driver(String),
}

impl From<OtherOperation> for DeviceError {
    fn from(error: OtherOperation) -> DeviceError {
        DeviceError::Driver(error.to_string())
    }
}

impl From<clock::Stopped> for DeviceError {
    fn from(error: clock::Stopped) -> DeviceError {
        DeviceError::Driver(error.to_string())
    }
}
