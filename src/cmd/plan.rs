//! What `list` and `run` share: a suite, and the cases that selectors leave.

use super::{exit::Usage, global::Global, output};
use crate::{
    data::{Catalogue, DataError},
    world::{Choice, choice},
};
use anyhow::bail;
use clap::Args;
use fizeau_bench::{self as bench, Rank};
use fizeau_device::Device;
use fizeau_domain::{
    case::Case,
    selector::{Selector, SelectorError},
    spec::{Match, Properties},
    suite::Suite,
};
use fizeau_record::Environment;
use fizeau_report::unknown::{self, Unknown};
use std::{collections::HashSet, path::PathBuf};

/// The suite of the sizes that GPUs exchange in training and inference.
const SIZES: &str = "collective-sizes";

/// The suite of a GPU where nothing else is asked for.
const GPU_QUICK: &str = "gpu-quick";

/// The suite that a plain run on a device takes.
pub fn default_suite(device: &str) -> &'static str {
    if choice::is_gpu(device) { GPU_QUICK } else { "quick" }
}

/// What to measure, and where.
#[derive(Args, Clone, Debug, Default)]
pub struct PlanArgs {
    /// Cases to select: the first parts of their ids (stream, gemm/bf16), or a glob
    /// ('*bf16*'). '!' before a selector excludes what it selects [default: all]
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<String>,
    /// A built-in suite, as `fizeau suites` lists them, or a TOML file [default: quick on a host,
    /// gpu-quick on a GPU; for collectives between GPUs alone, collective-sizes]
    #[arg(long, value_name = "NAME|FILE")]
    pub suite: Option<String>,
    /// Number of ranks: threads of the host [default: one for each core, at least two], or GPUs
    /// [default: none, and no collectives]
    #[arg(long, value_name = "N")]
    pub ranks: Option<u32>,
    /// A kernel of yours (.cu, .hip, .cubin, .fatbin, .ptx, .hsaco, or .so for the host), measured
    /// beside the others; FILE.toml beside it says how it is launched (docs/your-kernel.md). Repeat
    /// it for more
    #[arg(long, value_name = "FILE")]
    pub kernel: Vec<PathBuf>,
    /// A device as `fizeau devices` names it, such as cuda:1 or host; for run also several, such
    /// as cuda:0,cuda:3, or all GPUs: all [default: the first GPU, or the host where there is none]
    #[arg(long, alias = "backend", value_name = "NAME")]
    pub device: Option<String>,
}

impl PlanArgs {
    /// The suite's name or file.
    ///
    /// # Errors
    /// Where it depends on the device, and the driver of a GPU is installed and does not work.
    pub fn suite(&self) -> anyhow::Result<&str> {
        if let Some(suite) = &self.suite {
            return Ok(suite);
        }
        let device = self.choice().device()?;
        Ok(match choice::is_gpu(&device) && self.is_of_collectives() {
            true => SIZES,
            false => default_suite(&device),
        })
    }

    /// Whether nothing is selected but the collectives of the suite [`SIZES`].
    fn is_of_collectives(&self) -> bool {
        let within = |selector: &String| {
            let mut words = selector.trim_end_matches('/').split('/');
            words.next() == Some("collective")
                && words.next().is_none_or(|name| ["all_reduce", "all_to_all"].contains(&name))
        };
        !self.selectors.is_empty() && self.selectors.iter().all(within)
    }

    /// Which device, and how many ranks.
    pub fn choice(&self) -> Choice {
        Choice { device: self.device.clone(), ranks: self.ranks }
    }
}

/// A suite, and the cases that selectors leave of it.
pub struct Plan {
    /// The suite.
    pub suite: Suite,
    /// Its text.
    pub suite_text: String,
    /// How many cases the suite plans, whether or not selectors leave them.
    pub suite_cases: usize,
    /// The cases, in order.
    pub cases: Vec<Case>,
}

impl Plan {
    /// Plans a suite for a rank. There is at least one case, and none twice.
    pub fn new(args: &PlanArgs, catalogue: &Catalogue, rank: Rank<'_>) -> anyhow::Result<Plan> {
        let usage = |why: String| anyhow::Error::from(Usage(why));
        let selector =
            Selector::parse(&args.selectors).map_err(|error| usage(error.to_string()))?;
        let asked = args.suite()?;
        let (suite, suite_text) = catalogue.suite(asked).map_err(|mut error| {
            let known = default_suite(&args.choice().device().unwrap_or_default());
            if let DataError::NoSuite { near, .. } = &mut error
                && !cases_of(known, asked, catalogue, rank).is_empty()
            {
                *near = " (it selects cases: write it without --suite)".to_owned();
            }
            usage(error.to_string())
        })?;
        let mut cases = bench::cases(&suite, rank);
        let mut seen = HashSet::new();
        cases.retain(|case| seen.insert(case.clone()));
        if cases.is_empty() {
            let remedy = match suite.collective.is_some() && rank.peers.size() < 2 {
                true => ": collectives need ranks, add --ranks N with the number of GPUs",
                false => "; `fizeau suites` says what each suite plans here",
            };
            bail!("the suite {:?} plans no case on this device{remedy}", suite.name);
        }
        all_are_planned(rank.device, &suite.name, &cases)?;
        let suite_cases = cases.len();
        let ids: Vec<String> = cases.iter().map(Case::to_string).collect();
        selector
            .all_select(&ids)
            .map_err(|error| usage(format!("{error}{}", elsewhere(&error, catalogue, rank))))?;
        let mut ids = ids.iter();
        cases.retain(|_| ids.next().is_some_and(|id| selector.selects(id)));
        Ok(Plan { suite, suite_text, suite_cases, cases })
    }
}

/// Ids of a suite's cases that a selector selects; none where there is no such suite.
fn cases_of(suite: &str, selector: &str, catalogue: &Catalogue, rank: Rank<'_>) -> Vec<String> {
    let Ok((suite, _)) = catalogue.suite(suite) else { return Vec::new() };
    let Ok(selector) = Selector::parse(&[selector.to_owned()]) else { return Vec::new() };
    let ids = bench::cases(&suite, rank).into_iter().map(|case| case.to_string());
    ids.filter(|id| selector.selects(id)).collect()
}

/// The suites that have what a selector selects nothing of here, as the end of a sentence.
fn elsewhere(error: &SelectorError, catalogue: &Catalogue, rank: Rank<'_>) -> String {
    let SelectorError::Nothing { selector, .. } = error else { return String::new() };
    let count = |name: &str| cases_of(name, selector, catalogue, rank).len();
    let found = catalogue.suite_names().map(|name| (count(name), name));
    let found: Vec<String> = found
        .filter(|(count, _)| *count > 0 && !selector.is_empty())
        .map(|(count, name)| format!("--suite {name} has {count}"))
        .collect();
    match found.is_empty() {
        true => String::new(),
        false => format!("; {}", found.join(", ")),
    }
}

/// What is not known of a device, and what no kernel is made for. One that may be any of several
/// parts is none of them for certain, which `fizeau devices` says.
pub fn unknowns(
    properties: &Properties,
    catalogue: &Catalogue,
    environment: &Environment,
) -> Vec<Unknown> {
    let found = catalogue.identify(properties);
    let mut unknowns = unknown::unknowns(properties, !matches!(found, Match::None), environment);
    if let Match::One(part) = found {
        unknowns.extend(part.lacking_kernels(None).into_iter().map(unknown::lacking_kernel));
    }
    unknowns
}

/// The catalogue, overlaid as the command line says.
pub fn catalogue(global: &Global) -> anyhow::Result<Catalogue> {
    Catalogue::load(global.data.as_deref()).map_err(|error| Usage(error.to_string()).into())
}

/// Says on standard error why the host is taken, where nobody asked for it; `what` begins the line.
pub fn say_if_host_was_chosen(what: &str, choice: &Choice, device: &dyn Device) {
    if choice.device.is_none() && choice::is_host(&device.properties().backend) {
        output::say(&format!("{what}: {}", choice::without_gpu()));
    }
}

/// An error where no case is planned for a user's kernel.
///
/// # Errors
/// [`Usage`], with its operations.
pub fn all_are_planned(device: &dyn Device, suite: &str, plan: &[Case]) -> Result<(), Usage> {
    let rows = device.user_files().iter().flat_map(|file| &file.section.kernels);
    let absent = |name: &str| !plan.iter().any(|case| case.kernel.0 == name);
    let lost: Vec<String> = rows
        .filter(|row| absent(&row.name))
        .map(|row| format!("{} of {}", row.name, row.operation))
        .collect();
    match lost.is_empty() {
        true => Ok(()),
        false => Err(Usage(format!(
            "--kernel: the suite {suite:?} has no case for {}; `fizeau suites` says what each \
             suite measures, and a suite of your own may be a TOML file",
            lost.join(", ")
        ))),
    }
}
