#![doc = include_str!("../README.md")]
#![expect(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "functions, types and numbers have the names that AMD's headers give them"
)]
#![expect(clippy::too_many_arguments, reason = "functions have the parameters of AMD's headers")]

#[cfg(test)]
mod abi;
mod hip;
mod hipblaslt;
mod hiprtc;
mod library;
mod table;

pub use hip::*;
pub use hipblaslt::*;
pub use hiprtc::*;
pub use library::{Library, OpenError};
pub use table::{Error, Symbol};
