//! `fizeau suites`: which suites there are, what each measures here and how long that takes.

use super::{
    document, estimate,
    exit::Usage,
    global::Global,
    output::{print, print_json},
    plan,
};
use crate::{
    data::Catalogue,
    world::{Choice, choice},
};
use clap::Args;
use fizeau_bench::{self as bench, Rank};
use fizeau_device::Device;
use fizeau_domain::{
    case::Case,
    spec::Properties,
    text::{clean, counted, wrap},
    units::Seconds,
};
use serde::Serialize;
use std::{collections::HashSet, process::ExitCode};

/// Arguments of `suites`.
#[derive(Args, Clone, Debug)]
pub struct SuitesArgs {
    /// A device as `fizeau devices` names it [default: the first GPU, or the host]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Number of ranks, as `fizeau run` takes it
    #[arg(long, value_name = "N")]
    pub ranks: Option<u32>,
}

/// A suite, as `--json` prints it.
#[derive(Serialize)]
struct SuiteSummary {
    name: String,
    description: String,
    /// Cases that it plans on this device.
    cases: usize,
    /// Cases of each operation, in the plan's order.
    operations: Vec<(String, usize)>,
    estimated_seconds: Seconds,
}

/// Prints the suites.
///
/// # Errors
/// Where the data cannot be read or the device cannot be opened.
pub fn run(args: &SuitesArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let catalogue = plan::catalogue(global)?;
    let choice = Choice { device: args.device.clone(), ranks: args.ranks };
    let device = choice::open(&choice.device()?)?;
    let peers = choice.peers(device.as_ref())?;
    let rank = Rank { device: device.as_ref(), peers: peers.as_ref() };
    let names = catalogue.suite_names();
    let all: Result<Vec<SuiteSummary>, _> =
        names.map(|name| summary(&catalogue, name, rank)).collect();
    let all = all?;
    if global.json {
        return print_json(&all);
    }
    print(&text(&all, device.as_ref(), document::window(global).width))
}

fn summary(catalogue: &Catalogue, name: &str, rank: Rank<'_>) -> anyhow::Result<SuiteSummary> {
    let suite = catalogue.suite(name).map_err(|error| Usage(error.to_string()))?.0;
    let mut cases = bench::cases(&suite, rank);
    let mut seen = HashSet::new();
    cases.retain(|case| seen.insert(case.clone()));
    let properties = rank.device.properties();
    let part = catalogue.part_of(properties);
    let times = estimate::all(&cases, properties, part, &suite.measure);
    Ok(SuiteSummary {
        name: suite.name,
        description: suite.description,
        cases: cases.len(),
        operations: operations(&cases),
        estimated_seconds: times.into_iter().fold(Seconds(0.0), |sum, time| sum + time),
    })
}

/// How many cases there are of each operation, in the plan's order.
fn operations(cases: &[Case]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for case in cases {
        let operation = case.point.operation();
        match counts.iter_mut().find(|(name, _)| name == operation) {
            Some((_, count)) => *count += 1,
            None => counts.push((operation.to_owned(), 1)),
        }
    }
    counts
}

fn text(all: &[SuiteSummary], device: &dyn Device, width_max: Option<usize>) -> String {
    let width = all.iter().map(|suite| suite.name.len()).max().unwrap_or(0);
    let is_host = choice::is_host(&device.properties().backend);
    let mut text = String::new();
    for suite in all {
        let SuiteSummary { name, description, cases, operations, estimated_seconds } = suite;
        let counts: Vec<String> =
            operations.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let description = wrap(&clean(description), width_max, 4);
        if is_host && is_for_gpus(name) {
            text += &format!("{:<width$}  for GPUs\n    {description}\n", clean(name));
            continue;
        }
        let planned = match cases {
            0 => "no cases on this device".to_owned(),
            _ => format!("{}, about {}", counted(*cases, "case"), estimated_seconds.human()),
        };
        text += &format!("{:<width$}  {planned}\n    {description}\n", clean(name));
        if !counts.is_empty() {
            text += &format!("    {}\n", wrap(&counts.join(", "), width_max, 4));
        }
    }
    let Properties { backend, ordinal, name, .. } = device.properties();
    let end = format!(
        "Cases and times are planned for {backend}:{ordinal} {}. Collectives between GPUs need \
         --ranks N. Measure one: fizeau run --suite NAME. Its cases: fizeau list --suite NAME",
        clean(name)
    );
    format!("{text}\n{}", wrap(&end, width_max.or(Some(100)), 0))
}

/// Whether a built-in suite is made for GPUs: a host may measure what it has of it, which takes
/// hours.
fn is_for_gpus(name: &str) -> bool {
    let prefixes = ["gpu", "accept-gpu", "attention", "llm-"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}
