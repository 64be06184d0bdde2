//! A driver for machines without a GPU: the parts of `libcuda.so.1`, `libnvidia-ml.so.1`,
//! `libnvrtc.so.13`, `libcublasLt.so.13` and of HIP, hipRTC and hipBLASLt that fizeau calls, so that
//! tests run its real foreign-function path.
//!
//! Device memory is the host's, every range is checked, every launch is written down (variable
//! `FIZEAU_STUB_LOG`). Kernels run: their text, as the program hands it over to be compiled, is
//! executed on the CPU with the instructions of tests/kernel_model (see `text` and `model`). Time is
//! made up: events tell how much work was enqueued between them (`cost`). What goes wrong or is slow
//! is scripted by the variable `FIZEAU_STUB` (see `script` and `speed`).
//!
//! The program knows this library by its function `fizeau_stub_driver` and prints `stub` wherever
//! a number would stand.

#![expect(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the functions have the contracts of the vendor's headers"
)]

#[cfg(test)]
mod bindings;
mod cost;
mod cublaslt;
mod cuda;
mod flips;
mod hip;
mod hipblaslt;
mod limits;
mod memory;
mod model;
mod numa;
mod nvml;
mod nvrtc;
mod perform;
mod planted;
mod products;
pub mod scaled;
mod script;
mod speed;
mod state;
mod text;
mod visible;
mod watch;

pub use cublaslt::*;
pub use cuda::*;
pub use hip::*;
pub use hipblaslt::*;
pub use model::EXCEPTIONS;
pub use nvml::*;
pub use nvrtc::*;
