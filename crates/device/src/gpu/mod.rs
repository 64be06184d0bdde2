//! What the GPUs of both vendors share. HIP's driver interface is CUDA's by other names, so that
//! one table of functions, and contexts, modules, launches, copies, graphs and the compiler's cache
//! on top of it, serve both: [`vendor::Vendor`] is all that differs.
//!
//! From the bottom up: `table` (the functions), `vendor` (what differs), `driver` (an opened one),
//! `context` (one opened GPU), `memory` (`numa` beside this folder says where the host's is),
//! `copies`, `module`, `parameters`, `launching` and `graph` (what a context does), `kernels`
//! (those of `kernels/`) and `products` (the vendor's), `gate`, `fill_compare` and `liveness`
//! (tools made of these), `function` (what a launch does), `device` (the whole).
//!
//! Where a function here gives a [`Result`](crate::Result) and says nothing of errors, they are
//! what the driver refuses.

mod attention;
pub mod blas_lt;
mod cache;
pub mod compiler;
mod context;
mod copies;
pub mod device;
pub mod driver;
mod fill_compare;
mod function;
mod gate;
mod graph;
pub mod kernels;
pub mod launching;
mod liveness;
mod memory;
mod module;
mod parameters;
pub mod products;
mod progress;
pub mod sensors;
pub mod status;
pub mod table;
mod telemetry;
pub mod tensor_map;
mod tuned;
pub mod vendor;
