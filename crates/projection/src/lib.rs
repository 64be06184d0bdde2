//! From measured hardware to tokens: what a language model can do on a part or on the machine of a
//! record, whether a published figure can be true, and how far a served model is from its hardware.
//!
//! Every function here is pure, as those of `fizeau-judge` are. This crate knows no device and no
//! document.
//!
//! What is above this crate, or beside it, cannot be used here:
//!
//! ```compile_fail
//! use fizeau_report::Document;
//! ```
//!
//! ```compile_fail
//! use fizeau_device::Device;
//! ```

pub mod claim;
pub mod load;
pub mod project;
pub mod validate;
