//! Fizeau tells how close a machine runs to the speed of light.
//!
//! A [case] is planned, prepared into a [workload](bench::Workload) on a
//! [rank](bench::Rank), timed into [samples](outcome::Samples), [summarised](stats::Summary), set
//! against the [speed of light](spec) of a part, kept in a [record], and only then said in a
//! [document](report::Document). docs/architecture.md draws the layers.

/// Whether this build plants slowdowns and flipped bits where `FIZEAU_PLANT` and `FIZEAU_FLIP` ask
/// for them: a debug build, or one with the feature `plants`. A release does not look at the
/// variables.
pub const CAN_PLANT: bool = cfg!(any(debug_assertions, feature = "plants"));

pub mod ab;
pub mod accept;
pub mod bench;
pub mod case;
pub mod claim;
pub mod client;
pub mod clock;
pub mod cmd;
pub mod comm;
pub mod compare;
pub mod data;
pub mod device;
pub mod discover;
pub mod dtype;
pub mod evidence;
pub mod file;
pub mod fleet;
pub mod format;
pub mod guard;
pub mod kernel;
pub mod labels;
pub mod launcher;
pub mod load;
pub mod localise;
pub mod measure;
pub mod model;
pub mod node_state;
pub mod number;
pub mod observe;
pub mod outcome;
pub mod project;
pub mod record;
pub mod report;
pub mod selector;
pub mod session;
#[cfg(test)]
#[path = "../tests/skipped/mod.rs"]
mod skipped;
pub mod spec;
pub mod stats;
pub mod suite;
pub mod text;
pub mod units;
pub mod verdict;
pub mod world;
