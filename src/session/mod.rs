//! Plan, run, record: the one place that drives devices.

pub mod one;
