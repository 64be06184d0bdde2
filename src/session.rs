//! Plan, run, record: the one place that drives devices.
