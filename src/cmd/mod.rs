//! The verbs, one module each: the only place that prints and exits.

pub mod report;
