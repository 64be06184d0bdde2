//! `fizeau fleet`: what `accept` is for a node, for all of them.

mod simulate;

use super::Global;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Arguments of `fleet`.
#[derive(Args, Clone, Debug)]
pub struct FleetArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What to do with a fleet.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Score rules on planted fleets: ours beside those in use, before you choose one
    Simulate(simulate::SimulateArgs),
}

/// Runs what was asked for.
///
/// # Errors
/// Where a file cannot be read or the command line is wrong.
pub fn run(args: &FleetArgs, global: &Global) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Simulate(args) => simulate::run(args, global),
    }
}
