//! `fizeau suites`: which suites there are, what each measures here and how long that takes.

use super::{Global, estimate, plan, print, print_json, report};
use crate::{
    bench::{self, Rank},
    case::Case,
    data::Catalogue,
    device::Device,
    report::{Block, Cell, Column, Document, Table, Weight},
    units::Seconds,
    world::Choice,
};
use clap::Args;
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
    /// Cases of each operation.
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
    let device = crate::world::choice::open(&choice.device()?)?;
    let peers = choice.peers(device.as_ref())?;
    let rank = Rank { device: device.as_ref(), peers: peers.as_ref() };
    let names = catalogue.suite_names();
    let all: Result<Vec<SuiteSummary>, _> =
        names.map(|name| summary(&catalogue, name, rank)).collect();
    let all = all?;
    if global.json {
        return print_json(&all);
    }
    let document = document(&all, device.as_ref());
    let text = report::render(&document, report::ReportFormat::Terminal, report::window(global))?;
    print(text.trim_end())
}

fn summary(catalogue: &Catalogue, name: &str, rank: Rank<'_>) -> anyhow::Result<SuiteSummary> {
    let (suite, _) = catalogue.suite(name)?;
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

fn document(all: &[SuiteSummary], device: &dyn Device) -> Document {
    let row = |suite: &SuiteSummary| {
        let operations: Vec<String> =
            suite.operations.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let time = match suite.cases {
            0 => "\u{2013}".to_owned(),
            _ => format!("about {}", suite.estimated_seconds.human()),
        };
        vec![
            Cell::Code(suite.name.clone()),
            Cell::Count(suite.cases as u64),
            Cell::Text(time),
            Cell::Text(suite.description.clone()),
            Cell::Text(operations.join(", ")),
        ]
    };
    let column = |key, title, weight| Column { key, title, weight };
    let properties = device.properties();
    let name = format!("{}:{} {}", properties.backend, properties.ordinal, properties.name);
    Document {
        title: "Suites".into(),
        subtitle: format!(
            "Cases and times are planned for {name}. Choose one by `fizeau run --suite NAME`; \
             `fizeau list --suite NAME` prints its cases. Collectives between GPUs need --ranks N."
        ),
        blocks: vec![Block::Table(Table {
            name: "suites".into(),
            title: "What each suite measures".into(),
            columns: vec![
                column("name", "suite", Weight::Essential),
                column("cases", "cases", Weight::Essential),
                column("time", "time", Weight::Essential),
                column("description", "measures", Weight::Essential),
                column("operations", "cases of each operation", Weight::Detail),
            ],
            rows: all.iter().map(row).collect(),
        })],
    }
}
