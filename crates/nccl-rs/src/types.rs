//! What the functions take and give.

use std::{
    ffi::{c_char, c_int, c_void},
    fmt,
    time::Duration,
};

/// What can go wrong. Codes stay integers: one that is newer than this crate is no undefined
/// behaviour, only a number without a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No library could be opened.
    #[error("{0}")]
    NotFound(String),
    /// The library does not export a function.
    #[error("the library {version} has no {call}")]
    NoSymbol {
        /// Which function.
        call: &'static str,
        /// The library's version.
        version: Version,
    },
    /// The library's own code.
    #[error("{call}: {words} (code {code}){detail}")]
    Code {
        /// Which function.
        call: &'static str,
        /// Its code, never 0.
        code: c_int,
        /// The library's words for the code.
        words: String,
        /// The last error it kept, with what leads to it; may be empty.
        detail: String,
    },
    /// It did not come to an end.
    #[error("{call}: no end within {} s", limit.as_secs_f64())]
    Deadline {
        /// Which function.
        call: &'static str,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The library is too old for an element type.
    #[error("{data:?} needs version {needed}, this library is {version}")]
    TooOld {
        /// The element type.
        data: DataType,
        /// The first version that has it.
        needed: Version,
        /// The library's version.
        version: Version,
    },
    /// It took a buffer and keeps no registration of it: switched off (`NCCL_LOCAL_REGISTER=0`), or
    /// not to be had between these devices.
    #[error("{call}: the library keeps no registration here")]
    Declined {
        /// Which function.
        call: &'static str,
    },
    /// The communicator was aborted.
    #[error("the communicator was aborted")]
    Aborted,
}

/// Codes that mean something here (`ncclResult_t`).
pub(crate) const SUCCESS: c_int = 0;
pub(crate) const IN_PROGRESS: c_int = 7;

/// A version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 2 in 2.28.3.
    pub major: u32,
    /// 28 in 2.28.3.
    pub minor: u32,
    /// 3 in 2.28.3.
    pub patch: u32,
}

impl Version {
    /// A version by its numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Version {
        Version { major, minor, patch }
    }

    /// From the number that the library gives: 2.8 and older count as `2804`, newer as `22803`
    /// (`NCCL_VERSION` of nccl.h).
    pub fn of(code: c_int) -> Version {
        let code = code.max(0) as u32;
        let thousand = if code < 10_000 { 1_000 } else { 10_000 };
        Version::new(code / thousand, code % thousand / 100, code % 100)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Element types (`ncclDataType_t`, equal in NCCL and RCCL).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum DataType {
    /// 8-bit integer with a sign.
    Int8 = 0,
    /// 8-bit integer without.
    Uint8 = 1,
    /// 32-bit integer with a sign.
    Int32 = 2,
    /// 32-bit integer without.
    Uint32 = 3,
    /// 64-bit integer with a sign.
    Int64 = 4,
    /// 64-bit integer without.
    Uint64 = 5,
    /// IEEE binary16.
    Float16 = 6,
    /// IEEE binary32.
    Float32 = 7,
    /// IEEE binary64.
    Float64 = 8,
    /// The upper half of a binary32; from 2.10 on.
    Bfloat16 = 9,
    /// 8-bit float with 4 bits of exponent; from 2.24 on.
    Float8E4M3 = 10,
    /// 8-bit float with 5 bits of exponent; from 2.24 on.
    Float8E5M2 = 11,
}

impl DataType {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            DataType::Int8 | DataType::Uint8 => 1,
            DataType::Float8E4M3 | DataType::Float8E5M2 => 1,
            DataType::Float16 | DataType::Bfloat16 => 2,
            DataType::Int32 | DataType::Uint32 | DataType::Float32 => 4,
            DataType::Int64 | DataType::Uint64 | DataType::Float64 => 8,
        }
    }

    /// The first version that knows it.
    pub fn since(self) -> Version {
        match self {
            DataType::Float8E4M3 | DataType::Float8E5M2 => Version::new(2, 24, 0),
            DataType::Bfloat16 => Version::new(2, 10, 0),
            _ => Version::new(2, 0, 0),
        }
    }
}

/// What becomes of elements that meet (`ncclRedOp_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Reduction {
    /// Their sum.
    Sum = 0,
    /// Their product.
    Product = 1,
    /// The largest.
    Max = 2,
    /// The smallest.
    Min = 3,
    /// Their mean; from 2.10 on.
    Average = 4,
}

/// A stream of the vendor's driver: `CUstream` or `hipStream_t`.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Stream(pub *mut c_void);

/// What makes ranks find each other: one rank asks the library for it, all are told.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct UniqueId(pub [u8; UniqueId::SIZE]);

impl UniqueId {
    /// Its length in bytes.
    pub const SIZE: usize = 128;

    /// From bytes that another rank sent; none where they are of another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<UniqueId> {
        bytes.try_into().ok().map(UniqueId)
    }
}

impl fmt::Debug for UniqueId {
    /// Whoever knows it may join: it is not written anywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UniqueId(..)")
    }
}

/// A text that the library keeps.
///
/// # Safety
///
/// Null, or a text that ends with a zero.
pub(crate) unsafe fn text(words: *const c_char) -> String {
    if words.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::ffi::CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_header_counts_them() {
        assert_eq!(Version::of(2_804), Version::new(2, 8, 4));
        assert_eq!(Version::of(21_400).to_string(), "2.14.0");
        assert_eq!(Version::of(22_803), Version::new(2, 28, 3));
        assert_eq!(Version::of(-1), Version::new(0, 0, 0));
        assert!(Version::new(2, 9, 8) < Version::new(2, 28, 3));
    }

    #[test]
    fn an_id_is_never_printed() {
        assert_eq!(format!("{:?}", UniqueId([7; 128])), "UniqueId(..)");
        assert!(UniqueId::from_bytes(&[0; 127]).is_none());
    }
}
