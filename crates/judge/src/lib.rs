//! Verdicts: what records say of a machine, of two runs, of pairs of nodes and of a fleet.
//!
//! Every function here is pure. The same records give the same verdict again, whenever and
//! wherever: this crate reads no clock, no environment and no file, and knows no device and no
//! document.
//!
//! What is above this crate, or beside it, cannot be used here:
//!
//! ```compile_fail
//! use fizeau_projection::project;
//! ```
//!
//! ```compile_fail
//! use fizeau_device::Device;
//! ```

pub mod ab;
pub mod accept;
pub mod compare;
pub mod discover;
pub mod evidence;
pub mod fleet;
pub mod localise;
