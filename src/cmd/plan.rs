//! What `list` and `run` share: a device, a suite, and the cases that selectors leave.

use super::{Global, Usage};
use crate::{
    bench::{self, Rank},
    case::Case,
    comm::{Alone, Communicator},
    data::Catalogue,
    device::{BACKENDS, Backend, Device, fake::Fake},
    selector::Selector,
    suite::Suite,
};
use anyhow::Context;
use clap::Args;

/// What to measure, and where.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// Only cases whose ids match a glob, such as 'gemm/bf16/*' or stream; '!GLOB' excludes
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<String>,
    /// A built-in suite (quick, full), or a TOML file
    #[arg(long, default_value = "quick", value_name = "NAME|FILE")]
    pub suite: String,
    /// Ranks of collectives [default: one a core, at least two]
    #[arg(long, value_name = "N")]
    pub ranks: Option<u32>,
    /// host, or fake:FAULT for tests
    #[arg(long, default_value = "host", hide = true)]
    pub backend: String,
}

/// A device opened by its backend's name.
pub fn open(name: &str) -> anyhow::Result<Box<dyn Device>> {
    // Never in the list of backends: nobody is to meet it by chance.
    if let Some(script) = name.strip_prefix("fake:") {
        let fake = Fake::parse(script).map_err(|error| Usage(error.to_string()))?;
        return Ok(fake.open(0)?);
    }
    let backend = BACKENDS.iter().find(|backend| backend.name() == name).ok_or_else(|| {
        let known: Vec<_> = BACKENDS.iter().map(|backend| backend.name()).collect();
        Usage(format!("no backend is called {name:?}; there are: {}", known.join(", ")))
    })?;
    backend.open(0).with_context(|| format!("cannot open the {name} device"))
}

/// The suite, its text, and the ids and cases that are left of it.
pub struct Plan {
    /// The suite.
    pub suite: Suite,
    /// Its text.
    pub suite_text: String,
    /// The cases, in order.
    pub cases: Vec<Case>,
}

/// The world of a device: its own ranks where it has some.
pub fn world<'d>(
    args: &PlanArgs,
    device: &'d dyn Device,
) -> anyhow::Result<Box<dyn Communicator + 'd>> {
    let ranks = args.ranks.unwrap_or_else(|| device.properties().units.max(2));
    if !(2..=1024).contains(&ranks) {
        return Err(Usage(format!("--ranks {ranks}: a world has 2 to 1024 ranks")).into());
    }
    Ok(device.communicator(ranks).unwrap_or_else(|| Box::new(Alone)))
}

impl Plan {
    /// Plans a suite for a rank.
    pub fn new(args: &PlanArgs, catalogue: &Catalogue, rank: Rank<'_>) -> anyhow::Result<Plan> {
        let selector =
            Selector::parse(&args.selectors).map_err(|error| Usage(error.to_string()))?;
        let (suite, suite_text) =
            catalogue.suite(&args.suite).map_err(|error| Usage(error.to_string()))?;
        let all = bench::cases(&suite, rank);
        let ids: Vec<String> = all.iter().map(Case::to_string).collect();
        selector.all_select(&ids).map_err(|error| Usage(error.to_string()))?;
        let chosen = all.into_iter().zip(&ids).filter(|(_, id)| selector.selects(id));
        Ok(Plan { suite, suite_text, cases: chosen.map(|(case, _)| case).collect() })
    }
}

/// The catalogue, overlaid as the command line says.
pub fn catalogue(global: &Global) -> anyhow::Result<Catalogue> {
    Catalogue::load(global.data.as_deref()).map_err(|error| Usage(error.to_string()).into())
}
