//! `fizeau list`: the plan without running it.

use super::{
    document, estimate,
    global::Global,
    output::{print, print_json},
    plan, user_kernels,
};
use crate::session;
use clap::Args;
use fizeau_bench::{self as bench, Rank};
use fizeau_device as device;
use fizeau_domain::{
    case::Case,
    text::{clean, wrap},
    units::{Bytes, Seconds},
};
use fizeau_report::unknown::{Unknown, kind_of};
use serde::Serialize;
use std::{path::PathBuf, process::ExitCode};

/// Arguments of `list`.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// What to plan.
    #[command(flatten)]
    pub plan: plan::PlanArgs,
    /// Files of the kernel with NUMA nodes are below this directory: for tests
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    pub root: PathBuf,
}

/// The plan, as `--json` prints it.
#[derive(Serialize)]
struct Listing {
    suite: String,
    /// How many cases the suite has here, whether or not selectors leave them.
    suite_cases: usize,
    cases: Vec<PlannedCase>,
    estimated_seconds: Seconds,
    /// Of the case that takes most.
    memory_bytes: Bytes,
    /// What is not known of the device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct PlannedCase {
    id: String,
    /// `portable`, `library` or `driver`, where no kernel is made for the GPU's architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_is: Option<&'static str>,
    /// None of it for a case that does not fit.
    estimated_seconds: Seconds,
    memory_bytes: Bytes,
    /// Why it will not be measured, where that is known beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
}

/// Prints the plan.
pub fn run(args: &ListArgs, global: &Global) -> anyhow::Result<ExitCode> {
    device::numa::read_below(&args.root);
    let catalogue = plan::catalogue(global)?;
    let choice = args.plan.choice();
    let device = user_kernels::open(&choice.device()?, &args.plan.kernel)?;
    let peers = choice.peers(device.as_ref())?;
    let rank = Rank { device: device.as_ref(), peers: peers.as_ref() };
    let plan = plan::Plan::new(&args.plan, &catalogue, rank)?;
    plan::say_if_host_was_chosen("the plan is for the host", &choice, device.as_ref());
    let mut environment = device::host::environment();
    device.describe(&mut environment);
    // Of the device; ranks with one each have as many times as much.
    let free = environment.memory_free.map(|free| free * u64::from(rank.peers.processes()));
    let part = catalogue.part_of(device.properties());
    let times = estimate::all(&plan.cases, device.properties(), part, &plan.suite.measure);
    let row = |(case, time): (&Case, Seconds)| {
        let skipped = session::too_large(case, device.properties(), free);
        PlannedCase {
            id: case.to_string(),
            kernel_is: environment.unknown_architecture.as_ref().map(|_| kind_of(&case.kernel)),
            estimated_seconds: if skipped.is_none() { time } else { Seconds(0.0) },
            memory_bytes: bench::memory_needed(case, device.properties()),
            skipped,
        }
    };
    let cases: Vec<PlannedCase> = plan.cases.iter().zip(times).map(row).collect();
    let listing = Listing {
        suite: plan.suite.name,
        suite_cases: plan.suite_cases,
        estimated_seconds: cases.iter().fold(Seconds(0.0), |sum, row| sum + row.estimated_seconds),
        memory_bytes: cases
            .iter()
            .filter(|row| row.skipped.is_none())
            .map(|row| row.memory_bytes)
            .max()
            .unwrap_or_default(),
        cases,
        notes: plan::unknowns(device.properties(), &catalogue, &environment)
            .iter()
            .map(Unknown::words)
            .collect(),
    };
    if global.json {
        print_json(&listing)
    } else {
        print(&text(&listing, document::window(global).width))
    }
}

fn text(listing: &Listing, width: Option<usize>) -> String {
    let Listing { suite, suite_cases, cases, estimated_seconds, memory_bytes, notes } = listing;
    let longest = cases.iter().map(|row| row.id.len()).max().unwrap_or(0);
    let is_labelled = cases.iter().any(|row| row.kernel_is.is_some());
    let label = if is_labelled { "  kernel is" } else { "" };
    let mut text = format!("{:<longest$}  {:>9}  {:>9}{label}\n", "case", "time", "memory");
    for row in cases {
        let time = match row.skipped {
            Some(_) => "too large".into(),
            None => row.estimated_seconds.to_string(),
        };
        let memory = row.memory_bytes.to_string();
        let label = row.kernel_is.map(|label| format!("  {label}")).unwrap_or_default();
        text.push_str(&format!("{:<longest$}  {time:>9}  {memory:>9}{label}\n", clean(&row.id)));
    }
    let count = match cases.len() {
        all if all == *suite_cases => all.to_string(),
        some => format!("{some} of {suite_cases}"),
    };
    let summary = format!(
        "suite {}: {count} {}, about {}, at most {memory_bytes} of memory at once",
        clean(suite),
        if *suite_cases == 1 { "case" } else { "cases" },
        estimated_seconds.human()
    );
    text.push_str(&format!("\n{}", wrap(&summary, width, 0)));
    for note in notes {
        text.push_str(&format!("\n- {}", wrap(&clean(note), width, 2)));
    }
    text
}
