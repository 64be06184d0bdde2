//! `fizeau launch`: starts fizeau as many ranks on this node, by the launcher of the MPI that
//! connects them.

use super::Usage;
use crate::comm::mpi::abi;
use anyhow::Context;
use clap::Args;
use std::{os::unix::process::CommandExt, process::Command, process::ExitCode};

/// Arguments of `launch`.
#[derive(Args, Clone, Debug)]
pub struct LaunchArgs {
    /// Ranks, each a process of its own
    #[arg(short = 'n', long, value_name = "N")]
    pub ranks: u32,
    /// What each of them does, such as `run collective`
    #[arg(last = true, required = true, value_name = "VERB")]
    pub command: Vec<String>,
}

/// Becomes the launcher.
pub fn run(args: &LaunchArgs) -> anyhow::Result<ExitCode> {
    if !(2..=1024).contains(&args.ranks) {
        return Err(Usage(format!("-n {}: a world has 2 to 1024 ranks", args.ranks)).into());
    }
    let launcher = abi::launcher().context(
        "no mpiexec with libmpi_abi.so.1 beside it is on the PATH: install an MPI with the \
         standard ABI (MPICH 5: pip install mpich)",
    )?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(&launcher);
    command.arg("-n").arg(args.ranks.to_string()).arg(program).args(&args.command);
    // Only comes back where it could not start.
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", launcher.display()))
}
