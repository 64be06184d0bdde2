//! What the program and its kernels agree on: which operations there are, and the parameters that a
//! kernel of each takes; the lists of kernels, and what users bring.

mod declared;
pub mod manifest;
mod operation;
mod params;
pub mod sdc;
pub mod user;

pub use operation::{NotAnOperation, Operation};
pub use params::*;
