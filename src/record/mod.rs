//! The record: what a run leaves behind, and the only thing reports are made from.

pub mod v1;

pub use v1 as current;
pub use v1::{Environment, Footer, Header, Line, Record, Timer};
