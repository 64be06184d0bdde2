//! `fizeau run`: measure, record, report.

use super::{
    global::Global,
    recording::{self, args::RunArgs},
};
use std::process::ExitCode;

/// Measures.
///
/// # Errors
/// Where nothing can be measured, or the record or its reports cannot be written.
pub fn run(args: &RunArgs, global: &Global) -> anyhow::Result<ExitCode> {
    recording::run_and_tell(args, global, None)
}
