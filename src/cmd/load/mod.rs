//! `fizeau load`: serving measured as it is felt, and joined to what the hardware allows.

mod report;

use super::{Global, Usage, project};
use crate::load::level::Limits;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Arguments of `load`.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// What to do
    #[command(subcommand)]
    pub what: LoadVerb,
}

/// What `load` does.
#[derive(Subcommand, Clone, Debug)]
pub enum LoadVerb {
    /// Report results of a client, and set them beside what the hardware allows
    Report(report::LoadReportArgs),
}

/// Loads a server, or reports.
///
/// # Errors
/// As the verb that is asked for.
pub fn run(args: &LoadArgs, global: &Global) -> anyhow::Result<ExitCode> {
    match &args.what {
        LoadVerb::Report(args) => report::run(args, global),
    }
}

/// Limits of a request: `ttft=500ms,tpot=20ms,e2el=30s`.
fn limits(text: Option<&str>) -> Result<Limits, Usage> {
    let Some(text) = text else { return Ok(Limits::default()) };
    let slo = project::times("--slo", text)?;
    let seconds = |time: Option<crate::units::Seconds>| time.map(|time| time.0);
    Ok(Limits {
        ttft: seconds(slo.first_token),
        tpot: seconds(slo.token),
        e2el: seconds(slo.end_to_end),
    })
}
