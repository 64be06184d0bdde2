//! What is measured, and in which words: quantities, element types, cases, suites, parts and their
//! peaks, language models, statistics and verdicts.
//!
//! This crate knows no file, no record, no device and no document. Every other crate of Fizeau
//! stands on it.
//!
//! What is above this crate, or beside it, cannot be used here:
//!
//! ```compile_fail
//! use fizeau_record::Record;
//! ```

/// Whether this build plants slowdowns and flipped bits where `FIZEAU_PLANT` and `FIZEAU_FLIP` ask
/// for them: a debug build, or one with the feature `plants`. A release does not look at the
/// variables.
pub const CAN_PLANT: bool = cfg!(any(debug_assertions, feature = "plants"));

/// Gives each variant of an enum the name that it has in ids, files, flags and reports.
macro_rules! named {
    ($type:ty { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// All of them, in the order of reports.
            pub const ALL: [$type; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in ids, files and flags.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub mod case;
pub mod consistency;
pub mod dtype;
pub mod kernel;
pub mod labels;
pub mod launcher;
pub mod model;
pub mod near;
pub mod node_state;
pub mod number;
pub mod outcome;
pub mod python;
pub mod random_peaks;
pub mod selector;
pub mod spec;
pub mod stats;
pub mod suite;
pub mod text;
pub mod tuning;
pub mod units;
pub mod verdict;
