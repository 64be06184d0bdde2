//! `fizeau devices`: what there is to measure, and what its limits are.

use super::{Global, exit, plan, report};
use crate::{
    device::{BACKENDS, Device},
    dtype::Dtype,
    report::{Block, Cell, Column, Document, Table, Weight, without_numbers},
    spec::{self, Match, Part, Properties},
    units::{BytesPerSecond, FlopsPerSecond, Megahertz},
};
use clap::Args;
use std::process::ExitCode;

/// Arguments of `devices`.
#[derive(Args, Clone, Debug)]
pub struct DevicesArgs {
    /// Print the catalogue of known parts instead
    #[arg(long)]
    pub parts: bool,
}

/// Prints devices, or the catalogue. Exit code 3 where a GPU's driver is installed and does not
/// work.
///
/// # Errors
/// Where the data cannot be read.
pub fn run(args: &DevicesArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let catalogue = plan::catalogue(global)?;
    let mut is_broken = false;
    let document = if args.parts {
        Document {
            title: "Parts".into(),
            subtitle: "Dense peaks of one device, as vendors print them; * holds figures that no \
                       vendor's text confirms"
                .into(),
            blocks: vec![Block::Table(parts(&catalogue.parts))],
        }
    } else {
        let mut blocks = Vec::new();
        for &backend in BACKENDS {
            is_broken |= backend.broken().is_some();
            match backend.devices() {
                Ok(devices) => {
                    for properties in &devices {
                        let device = backend.open(properties.ordinal)?;
                        let found = catalogue.identify(properties);
                        let described = describe(properties, device.as_ref(), &found)?;
                        blocks.extend(shown(described, properties));
                    }
                }
                Err(error) => blocks.push(Block::Warning(format!("{}: {error}", backend.name()))),
            }
        }
        Document { title: "Devices".into(), subtitle: String::new(), blocks }
    };
    let format = match global.json {
        true => report::ReportFormat::Json,
        false => report::ReportFormat::Terminal,
    };
    let printed =
        super::print(report::render(&document, format, report::window(global))?.trim_end())?;
    Ok(if is_broken { ExitCode::from(exit::COULD_NOT_RUN) } else { printed })
}

/// As it is; without its numbers where a stub driver tells them.
fn shown(blocks: Vec<Block>, properties: &Properties) -> Vec<Block> {
    if !properties.is_stub() {
        return blocks;
    }
    let (title, subtitle) = (String::new(), String::new());
    without_numbers(Document { title, subtitle, blocks }).blocks
}

fn column(key: &'static str, title: &'static str) -> Column {
    Column { key, title, weight: Weight::Essential }
}

fn peak(part: &Part, dtype: Dtype) -> Cell {
    part.peaks.get(&dtype).map_or(Cell::Absent, |&peak| Cell::Throughput(peak))
}

/// The catalogue.
fn parts(parts: &[Part]) -> Table {
    let row = |part: &Part| {
        let mark = if part.unverified.is_empty() { "" } else { " *" };
        vec![
            Cell::Code(part.id.clone()),
            Cell::Text(format!("{}{mark}", part.name)),
            part.units.map_or(Cell::Absent, |units| Cell::Count(u64::from(units))),
            part.memory_bandwidth.map_or(Cell::Absent, Cell::Bandwidth),
            peak(part, Dtype::Bf16),
            peak(part, Dtype::Fp8),
            part.link_bandwidth.map_or(Cell::Absent, Cell::Bandwidth),
            Cell::Count(part.sources as u64),
        ]
    };
    Table {
        name: "parts".into(),
        title: "Known parts".into(),
        columns: vec![
            column("id", "id"),
            column("name", "name"),
            column("units", "units"),
            column("memory_bytes_per_second", "memory"),
            column("bf16_flops_per_second", "bf16"),
            column("fp8_flops_per_second", "fp8"),
            column("link_bytes_per_second", "link, one way"),
            column("sources", "sources"),
        ],
        rows: parts.iter().map(row).collect(),
    }
}

/// One device: what it is, its caches, and its peaks at the clock it has now.
fn describe(
    properties: &Properties,
    device: &dyn Device,
    found: &Match<'_>,
) -> anyhow::Result<Vec<Block>> {
    let clock = device.observe_clock()?;
    let heading = format!("{}:{} {}", properties.backend, properties.ordinal, properties.name);
    let mut blocks = vec![Block::Heading(heading), Block::Text(sentence(properties, clock))];
    let part = match found {
        Match::One(part) => {
            blocks.extend(contradictions(properties, part).into_iter().map(Block::Warning));
            let mut text = format!("Part: {} ({}).", part.name, part.id);
            if !part.unverified.is_empty() {
                text += &format!(" Not confirmed by a vendor: {}.", part.unverified.join(", "));
            }
            blocks.push(Block::Text(text));
            Some(*part)
        }
        Match::Ambiguous(parts) => {
            let names: Vec<&str> = parts.iter().map(|part| part.id.as_str()).collect();
            let names = names.join(", ");
            blocks.push(Block::Warning(format!(
                "it could be any of {names}: the best number of each is its limit, and no share of \
                 a datasheet is printed"
            )));
            None
        }
        Match::None => {
            blocks.push(Block::Warning(
                "no part of the catalogue: peaks come from its properties, as far as they go"
                    .into(),
            ));
            None
        }
    };
    blocks.push(Block::Table(peaks(properties, part, clock)));
    Ok(blocks)
}

/// Where a device says something else than its part: another cut of it, or a wrong match.
fn contradictions(properties: &Properties, part: &Part) -> Option<String> {
    let mut said = Vec::new();
    if !part.is_host()
        && let Some(units) = part.units.filter(|&units| units != properties.units)
    {
        said.push(format!("{} units where the part has {units}", properties.units));
    }
    if let Some(memory) = part.memory.filter(|_| !part.is_host()) {
        let share = properties.memory.0 as f64 / memory.0 as f64;
        if !(0.85..1.15).contains(&share) {
            said.push(format!("{} of memory where the part has {memory}", properties.memory));
        }
    }
    let said = (!said.is_empty()).then(|| said.join(", "));
    said.map(|said| format!("it has {said}: shares of the datasheet are not of this device"))
}

fn sentence(properties: &Properties, clock: Option<Megahertz>) -> String {
    let caches: Vec<String> =
        properties.caches.iter().map(|cache| format!("L{} {}", cache.level, cache.size)).collect();
    let memory = match properties.memory.0 {
        0 => "an unknown amount".into(),
        _ => properties.memory.to_string(),
    };
    let mut text = format!("{} units, {memory} of memory", properties.units);
    if !caches.is_empty() {
        text += &format!(", caches {}", caches.join(", "));
    }
    if let Some(clock) = clock {
        text += &format!(", clock now {clock}");
    }
    if let Some(kind) = &properties.virtualised {
        text += &format!("; under {kind}");
    }
    if !properties.features.is_empty() {
        text += &format!("; {}", properties.features.join(" "));
    }
    text + "."
}

/// Peaks by tier: the datasheet's, and units x operations per clock x the clock observed now.
fn peaks(properties: &Properties, part: Option<&Part>, clock: Option<Megahertz>) -> Table {
    let per_clock = |dtype: Dtype| {
        let of_part = part.and_then(|part| part.flops_per_clock.get(&dtype));
        of_part.or_else(|| properties.flops_per_clock.get(&dtype)).copied()
    };
    let observed = |dtype: Dtype| {
        let rate = f64::from(properties.units) * per_clock(dtype)? * clock?.0 * 1e6;
        Some(Cell::Throughput(FlopsPerSecond(rate)))
    };
    let (datasheet, reported) = spec::memory_peaks(properties, part);
    let bandwidth = |rate: Option<BytesPerSecond>| rate.map_or(Cell::Absent, Cell::Bandwidth);
    let mut rows =
        vec![vec![Cell::Text("memory".into()), bandwidth(datasheet), bandwidth(reported)]];
    for dtype in Dtype::ALL {
        let datasheet = part.map_or(Cell::Absent, |part| peak(part, dtype));
        let observed = observed(dtype).unwrap_or(Cell::Absent);
        if datasheet != Cell::Absent || observed != Cell::Absent {
            rows.push(vec![Cell::Text(dtype.to_string()), datasheet, observed]);
        }
    }
    Table {
        name: "peaks".into(),
        title: match part {
            Some(part) if part.is_host() => "Peaks (memory: of whole sockets)".into(),
            _ => "Peaks".into(),
        },
        columns: vec![
            column("resource", "resource"),
            column("datasheet", "datasheet"),
            column("observed", "as observed now"),
        ],
        rows,
    }
}
