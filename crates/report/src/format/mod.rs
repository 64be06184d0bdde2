//! Documents to text: terminal, Markdown, HTML, CSV, JSON; charts to SVG and PNG.
//!
//! A record's strings come from drivers, files and other machines: every format neutralises what
//! its readers would act upon ([`clean`], and its own escapes).

pub mod acceptance;
pub mod bars;
pub mod cell;
pub mod csv;
pub mod fleet;
pub mod fleet_page;
pub mod html;
pub mod json;
mod key;
pub mod markdown;
pub mod nccl_tests;
pub mod nvbandwidth;
pub mod plot;
#[cfg(feature = "png")]
pub mod png;
pub mod superbench;
pub mod terminal;
mod ticks;

pub use fizeau_domain::text::{clean, shorten, shorten_id};
