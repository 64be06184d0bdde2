//! What a user asks of a server: limits of requests, the share that keeps them, a target.

use super::limits;
use crate::cmd::exit::Usage;
use clap::Args;
use fizeau_domain::number;
use fizeau_projection::load::capacity::{Goal, SHARE_DEFAULT};

/// Arguments of what is asked of a server.
#[derive(Args, Clone, Debug)]
pub struct GoalArgs {
    /// Limits that a request has to keep to count as goodput: ttft=500ms,tpot=20ms,e2el=30s
    #[arg(long, value_name = "LIMITS")]
    pub slo: Option<String>,
    /// The share of requests that has to keep the limits of --slo, failed ones included
    #[arg(long, value_name = "SHARE", default_value_t = SHARE_DEFAULT, value_parser = share)]
    pub slo_share: f64,
    /// Plan for this many requests a second: how many servers it takes, with a fifth of headroom
    #[arg(long, value_name = "R", value_parser = number::positive, requires = "slo")]
    pub target: Option<f64>,
    /// GPUs of the server, or sockets of a host: throughput and the plan are counted for each
    #[arg(long = "gpus", alias = "devices", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub devices: u32,
}

impl GoalArgs {
    /// What is asked.
    pub fn read(&self) -> Result<Goal, Usage> {
        Ok(Goal {
            limits: limits(self.slo.as_deref())?,
            share: self.slo_share,
            target: self.target,
            devices: self.devices,
        })
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.trim_end_matches('%').parse::<f64>().map_err(|error| error.to_string())?;
    let share = if text.ends_with('%') { share / 100.0 } else { share };
    (share > 0.0 && share <= 1.0)
        .then_some(share)
        .ok_or_else(|| "write a share above 0 and up to 1, or 99%".into())
}
