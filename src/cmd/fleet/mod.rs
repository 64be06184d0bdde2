//! `fizeau fleet`: what `accept` is for a node, for all of them.

mod archive;
mod drift;
mod find;
mod left;
mod read;
mod results;
mod retest;
mod simulate;
mod store;
mod survey;
mod which;

pub use survey::said_of;

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
    /// Judge bundles, records and stores of many nodes: name the GPUs, nodes and racks below
    /// contract with the confidence of each verdict, and the nodes that sent nothing
    Survey(Box<survey::SurveyArgs>),
    /// Add bundles and records to a store: JSON Lines by date, which `survey` and databases read
    Collect(survey::CollectArgs),
    /// Write scripts for Slurm and ssh that measure each failed GPU again, in turn with one that
    /// passed; `survey --retest` reads the results
    Retest(retest::RetestArgs),
    /// Find changes over time: which device or part became slower, since when, what changed with
    /// it, and which decays slowly
    Drift(drift::DriftArgs),
    /// Simulate fleets with known faults, and score this fleet rule beside rules in use
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
