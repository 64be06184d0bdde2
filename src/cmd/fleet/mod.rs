//! `fizeau fleet`: what `accept` is for a node, for all of them.

mod archive;
mod drift;
mod find;
mod read;
mod results;
mod retest;
mod simulate;
mod store;
mod survey;
mod which;

use super::global::Global;
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
    /// Judge bundles, records and stores of many nodes together: which GPUs, nodes and racks are
    /// below contract, with what confidence, and which nodes sent nothing
    Survey(Box<survey::SurveyArgs>),
    /// Add bundles and records to a store: JSON Lines by date, which `survey` and databases read
    Collect(survey::CollectArgs),
    /// Plan who is measured anew, in turn with which GPU that passed: scripts for Slurm and ssh;
    /// `survey --retest` takes the results in
    Retest(retest::RetestArgs),
    /// What changed in the course of time: each device beside itself and its part, with the date
    /// and what changed with it, and slow decay before it fails
    Drift(drift::DriftArgs),
    /// Score rules on planted fleets: ours beside those in use, before you choose one
    Simulate(simulate::SimulateArgs),
}

/// Runs what was asked for.
///
/// # Errors
/// Where a file cannot be read or the command line is wrong.
pub fn run(args: &FleetArgs, global: &Global) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Survey(args) => survey::run(args, global),
        What::Collect(args) => survey::collect(args, global),
        What::Retest(args) => retest::run(args, global),
        What::Drift(args) => drift::run(args, global),
        What::Simulate(args) => simulate::run(args, global),
    }
}
