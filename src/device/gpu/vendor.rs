//! What differs between drivers that speak the same language.
//!
//! HIP's driver interface is CUDA's by other names: the same functions with the same parameters,
//! the same opaque handles, the same codes. So one table of functions and what is built on it serve
//! both, and this is all that differs.

use super::{blas_lt::BlasLtDialect, compiler::Compiler, table::Functions};
use crate::device::{
    DeviceError,
    library::{Opened, Refusal, Wanted},
};
use std::{ffi::c_uint, sync::Arc};

/// One vendor's driver.
pub struct Vendor {
    /// Who makes the devices.
    pub maker: &'static str,
    /// The driver interface's name.
    pub interface: &'static str,
    /// The library.
    pub library: Wanted,
    /// Its functions, as the opened library exports them.
    pub functions: fn(&Opened) -> Functions,
    /// The oldest version that will do, as the library counts.
    pub version_min: i32,
    /// What to say of an older one, given its version.
    pub too_old: fn(i32) -> DeviceError,
    /// A version as people write it.
    pub version: fn(i32) -> String,
    /// What to do about a library that lacks a function.
    pub newer: &'static str,
    /// What a refusal while the driver is opened or devices are counted means, where that is more
    /// than its code says elsewhere.
    pub opening: fn(&Refusal) -> Option<DeviceError>,
    /// What to do about a machine that is not set up, by the driver's code.
    pub mend: fn(i32) -> &'static str,
    /// What ends a list of a launch's extras.
    pub extras_end: usize,
    /// Flags of host memory that a device reads while the host writes it.
    pub host_flags: c_uint,
    /// Whether launches are described by a struct with attributes (`cuLaunchKernelEx`).
    pub has_attributes: bool,
    /// The kind by which a copy finds out itself what memories it is between, where copies are told
    /// a kind.
    pub copy_kind: Option<i32>,
    /// How another device is named whose memory is to be reached.
    pub names_peers: Peers,
    /// Its library of matrix products.
    pub products: &'static BlasLtDialect,
    /// Its kernels.
    pub kernels: KernelSet,
}

/// How a driver is told of another device.
#[derive(Clone, Copy)]
pub enum Peers {
    /// By its context.
    ByContext,
    /// By its number.
    ByDevice,
}

/// Where a vendor's kernels are found.
#[derive(Clone, Copy)]
pub struct KernelSet {
    /// The list's text.
    pub manifest: &'static str,
    /// The text of a file, and its binary for a target where this build has one.
    pub find: fn(path: &str, target: &str) -> Option<Bundled>,
    /// The compiler for texts without a binary.
    pub compiler: fn() -> Result<Arc<Compiler>, DeviceError>,
    /// The compiler that a build without binaries did not find.
    pub builder: &'static str,
}

/// A file of `kernels/`, embedded.
#[derive(Clone, Copy)]
pub struct Bundled {
    /// As its list names it.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
    /// A binary, where the build found a compiler.
    pub binary: Option<&'static [u8]>,
}
