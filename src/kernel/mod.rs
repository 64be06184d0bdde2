//! What the program and its kernels agree on: which operations there are, and the parameters that a
//! kernel of each takes.

mod operation;
mod params;
pub mod sdc;

pub use operation::{NotAnOperation, Operation};
pub use params::*;
