//! `fizeau load`: serving measured as it is felt, and joined to what the hardware allows.

mod ab;
mod ab_args;
mod goal;
mod live;
mod prepare;
mod ready;
mod report;
mod self_test;
mod send;
mod send_args;
mod serve;

use super::{exit::Usage, global::Global, models};
use clap::{Args, Subcommand};
use fizeau_projection::load::level::Limits;
use std::process::ExitCode;

/// Arguments of `load`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, flatten_help = true)]
pub struct LoadArgs {
    /// What to do, other than to send requests.
    #[command(subcommand)]
    pub what: Option<LoadVerb>,
    /// What is sent.
    #[command(flatten)]
    pub send: send_args::SendArgs,
}

/// What `load` does beside sending requests.
#[derive(Subcommand, Clone, Debug)]
pub enum LoadVerb {
    /// Compare two servers or settings under the same load in alternating rounds, by a paired test
    Ab(Box<ab_args::AbArgs>),
    /// Report results of a client, and set them beside what the hardware allows
    Report(report::LoadReportArgs),
    /// Serve with known laws: a server to try a client on, with faults on demand
    Serve(serve::ServeArgs),
    /// Show that this client can be believed on this machine, by a server with known laws
    SelfTest(self_test::SelfTestArgs),
}

/// Loads a server, or reports.
///
/// # Errors
/// As the verb that is asked for.
pub fn run(args: &LoadArgs, global: &Global) -> anyhow::Result<ExitCode> {
    match &args.what {
        None => send::run(&args.send, global),
        Some(LoadVerb::Ab(args)) => ab::run(args, global),
        Some(LoadVerb::Report(args)) => report::run(args, global),
        Some(LoadVerb::Serve(args)) => serve::run(args),
        Some(LoadVerb::SelfTest(args)) => self_test::run(args, global),
    }
}

/// Limits of a request: `ttft=500ms,tpot=20ms,e2el=30s`.
fn limits(text: Option<&str>) -> Result<Limits, Usage> {
    let Some(text) = text else { return Ok(Limits::default()) };
    let slo = models::times("--slo", text)?;
    let seconds = |time: Option<fizeau_domain::units::Seconds>| time.map(|time| time.0);
    Ok(Limits {
        ttft: seconds(slo.first_token),
        tpot: seconds(slo.token),
        e2el: seconds(slo.end_to_end),
    })
}
