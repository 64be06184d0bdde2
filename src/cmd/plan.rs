//! What `list` and `run` share: a device, a suite, and the cases that selectors leave.

use super::{Global, Usage};
use crate::{
    bench::{self, Rank},
    case::{Case, KernelName},
    comm::{Alone, Communicator, Planned, host::ThreadRanks, nccl::Engine},
    data::Catalogue,
    device::{BACKENDS, Backend, Device, fake::Fake},
    selector::Selector,
    suite::Suite,
};
use anyhow::{Context, bail};
use clap::Args;
use std::collections::HashSet;

/// What to measure, and where.
#[derive(Args, Clone, Debug, Default)]
pub struct PlanArgs {
    /// Only cases whose ids match a glob, such as 'gemm/bf16/*' or stream; '!GLOB' excludes
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<String>,
    /// A built-in suite (quick, full), or a TOML file [default: quick]
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Ranks of collectives: threads of the host [default: one a core, at least two], or so many
    /// GPUs [default: none]
    #[arg(long, value_name = "N")]
    pub ranks: Option<u32>,
    /// A device as `fizeau devices` names it, such as cuda:1 or host [default: the first GPU, or
    /// the host where there is none]
    #[arg(long, alias = "backend", value_name = "NAME")]
    pub device: Option<String>,
}

impl PlanArgs {
    /// The suite's name or file.
    pub fn suite(&self) -> &str {
        self.suite.as_deref().unwrap_or("quick")
    }

    /// The device's name: as given, else the first GPU, else the host.
    pub fn device(&self) -> String {
        let found = || {
            let gpus = BACKENDS.iter().filter(|backend| backend.name() != HOST);
            gpus.map(|backend| (backend.name(), backend.devices()))
                .find_map(|(name, devices)| Some((name, devices.ok()?.first()?.ordinal)))
        };
        let first = || found().map_or(HOST.into(), |(name, ordinal)| format!("{name}:{ordinal}"));
        self.device.clone().unwrap_or_else(first)
    }
}

/// The device of one of many ranks: as given, or the GPU of its place on its node, or the host
/// where there is no GPU.
pub fn device_of_rank(args: &PlanArgs, place: u32) -> anyhow::Result<String> {
    let name = args.device();
    if is_host(&name) || args.device.as_ref().is_some_and(|given| given.contains(':')) {
        return Ok(name);
    }
    let (family, _) = name.split_once(':').unwrap_or((&name, ""));
    let count = backend(family)?.devices()?.len().max(1);
    Ok(format!("{family}:{}", place as usize % count))
}

/// Whether a device's name is the host's.
pub fn is_host(name: &str) -> bool {
    name.split(':').next() == Some(HOST)
}

fn backend(family: &str) -> anyhow::Result<&'static dyn Backend> {
    let found = BACKENDS.iter().find(|backend| backend.name() == family);
    Ok(*found.ok_or_else(|| {
        let known: Vec<_> = BACKENDS.iter().map(|backend| backend.name()).collect();
        Usage(format!("no backend is called {family:?}; there are: {}", known.join(", ")))
    })?)
}

/// The backend that is always there.
const HOST: &str = "host";

/// A device opened by its name: `host`, `cuda` (its first), `cuda:1`.
pub fn open(name: &str) -> anyhow::Result<Box<dyn Device>> {
    // Never in the list of backends: nobody is to meet it by chance.
    if let Some(script) = name.strip_prefix("fake:") {
        let fake = Fake::parse(script).map_err(|error| Usage(error.to_string()))?;
        return Ok(fake.open(0)?);
    }
    let (family, ordinal) = name.split_once(':').unwrap_or((name, "0"));
    let backend = backend(family)?;
    let count = backend.devices().with_context(|| format!("cannot open {name}"))?.len();
    match ordinal.parse::<u32>() {
        Ok(ordinal) if (ordinal as usize) < count => {
            backend.open(ordinal).with_context(|| format!("cannot open {name}"))
        }
        _ => Err(Usage(format!("no device {name}: {family} has {count}, counted from 0")).into()),
    }
}

/// A suite, and the cases that selectors leave of it.
pub struct Plan {
    /// The suite.
    pub suite: Suite,
    /// Its text.
    pub suite_text: String,
    /// The cases, in order.
    pub cases: Vec<Case>,
}

/// Most ranks of one process.
const RANKS_MAX: u32 = 1024;

/// Holds `--ranks` against what there can be, for a plan as for a run.
pub fn ranks_allowed(ranks: u32) -> Result<(), Usage> {
    if (1..=RANKS_MAX).contains(&ranks) {
        return Ok(());
    }
    Err(Usage(format!("--ranks {ranks}: a world has 1 to {RANKS_MAX} ranks")))
}

/// The world of a device: its own ranks where it has some.
pub fn world<'d>(
    args: &PlanArgs,
    device: &'d dyn Device,
) -> anyhow::Result<Box<dyn Communicator + 'd>> {
    let gpu = &device.properties().backend;
    if let Some(ranks) = args.ranks {
        ranks_allowed(ranks)?;
    }
    if let Some(ranks) = args.ranks.filter(|_| matches!(gpu.as_str(), "cuda" | "hip")) {
        let engine = Engine::open(gpu)?;
        return Ok(Box::new(Planned { kernel: KernelName(engine.name.into()), ranks }));
    }
    let ranks = args.ranks.unwrap_or_else(|| device.properties().units.max(2));
    if !(2..=RANKS_MAX).contains(&ranks) {
        return Err(Usage(format!("--ranks {ranks}: a world has 2 to {RANKS_MAX} ranks")).into());
    }
    Ok(match device.capabilities().threads {
        Some(threads) => Box::new(ThreadRanks::new(threads, ranks)),
        None => Box::new(Alone),
    })
}

impl Plan {
    /// Plans a suite for a rank. There is at least one case, and none twice.
    pub fn new(args: &PlanArgs, catalogue: &Catalogue, rank: Rank<'_>) -> anyhow::Result<Plan> {
        let usage = |why: String| anyhow::Error::from(Usage(why));
        let selector =
            Selector::parse(&args.selectors).map_err(|error| usage(error.to_string()))?;
        let (suite, suite_text) =
            catalogue.suite(args.suite()).map_err(|error| usage(error.to_string()))?;
        let mut cases = bench::cases(&suite, rank);
        let mut seen = HashSet::new();
        cases.retain(|case| seen.insert(case.clone()));
        if cases.is_empty() {
            bail!("the suite {:?} plans no case on this device", suite.name);
        }
        let ids: Vec<String> = cases.iter().map(Case::to_string).collect();
        selector.all_select(&ids).map_err(|error| usage(error.to_string()))?;
        let mut ids = ids.iter();
        cases.retain(|_| ids.next().is_some_and(|id| selector.selects(id)));
        Ok(Plan { suite, suite_text, cases })
    }
}

/// The catalogue, overlaid as the command line says.
pub fn catalogue(global: &Global) -> anyhow::Result<Catalogue> {
    Catalogue::load(global.data.as_deref()).map_err(|error| Usage(error.to_string()).into())
}
