//! `fizeau devices`: what there is to measure, and what its limits are.

use super::{document, exit, global::Global, output, plan};
use crate::data::Catalogue;
use clap::Args;
use fizeau_device::{BACKENDS, Backend, Device, Identity};
use fizeau_domain::{
    dtype::Dtype,
    spec::{self, Match, Part, Properties},
    text::counted,
    units::{BytesPerSecond, FlopsPerSecond, Megahertz},
};
use fizeau_record::{DeviceSettings, Environment};
use fizeau_report::{Block, Cell, Column, Document, Table, Weight, without_numbers};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    process::ExitCode,
};

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
            subtitle: "Dense peaks of one device, as vendors print them; \"not confirmed\" names \
                       those that no vendor's text confirms"
                .into(),
            blocks: [Block::Table(parts(&catalogue.parts))]
                .into_iter()
                .chain(lacking_kernels(&catalogue.parts))
                .collect(),
        }
    } else {
        let mut blocks = Vec::new();
        for &backend in BACKENDS {
            is_broken |= backend.broken().is_some();
            match backend.devices() {
                Ok(devices) => blocks.extend(of_backend(backend, &devices, &catalogue)?),
                Err(error) => blocks.push(Block::Warning(format!("{}: {error}", backend.name()))),
            }
        }
        Document { title: "Devices".into(), subtitle: String::new(), blocks }
    };
    let format = match global.json {
        true => document::ReportFormat::Json,
        false => document::ReportFormat::Terminal,
    };
    let printed =
        output::print(document::render(&document, format, document::window(global))?.trim_end())?;
    Ok(if is_broken { ExitCode::from(exit::COULD_NOT_RUN) } else { printed })
}

/// The devices of a backend, equal ones once.
fn of_backend(
    backend: &dyn Backend,
    devices: &[Properties],
    catalogue: &Catalogue,
) -> anyhow::Result<Vec<Block>> {
    let mut groups: Vec<Group> = Vec::new();
    for properties in devices {
        let device = backend.open(properties.ordinal)?;
        let kind = Kind::of(properties, device.as_ref());
        match groups.iter_mut().find(|group| group.kind == kind) {
            Some(group) => group.ordinals.push(properties.ordinal),
            None => {
                let found = catalogue.identify(properties);
                let described = describe(properties, device.as_ref(), &found)?;
                groups.push(Group { ordinals: vec![properties.ordinal], kind, described });
            }
        }
    }
    let mut blocks = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        let mut its = vec![Block::Heading(group.heading())];
        let of_its_name = |other: &&Group| other.kind.properties.name == group.kind.properties.name;
        if let Some(first) = groups[..place].iter().find(of_its_name) {
            let differences = group.kind.differences(&first.kind).join(", ");
            let names = first.names();
            its.push(Block::Warning(format!("it is not as {names}: it has {differences}")));
        }
        its.extend(group.described.iter().cloned());
        blocks.extend(shown(its, &group.kind.properties));
    }
    Ok(blocks)
}

/// What makes devices equal: all that can be told of them but their number, their place and what
/// their sensors read now.
#[derive(Clone, Debug, PartialEq)]
struct Kind {
    properties: Properties,
    settings: Option<DeviceSettings>,
    driver: Option<String>,
    pcie_width: Option<u32>,
    links: Option<u32>,
}

impl Kind {
    fn of(properties: &Properties, device: &dyn Device) -> Kind {
        let mut environment = Environment::default();
        if let Some(reports) = device.capabilities().reports {
            reports.describe(&mut environment);
        }
        let Identity { driver, pcie_width, links, uuid: _, pci: _ } = device.identity();
        let properties = Properties { ordinal: 0, ..properties.clone() };
        Kind { properties, settings: environment.settings, driver, pcie_width, links }
    }

    /// What it has that another of its name has otherwise.
    fn differences(&self, other: &Kind) -> Vec<String> {
        let (here, there) = (&self.properties, &other.properties);
        let limit = |kind: &Kind| kind.settings.as_ref().and_then(|of| of.power_limit);
        let ecc = |kind: &Kind| kind.settings.as_ref().and_then(|of| of.ecc);
        let locks = |kind: &Kind| kind.settings.as_ref().and_then(|of| of.clock_locks.clone());
        let vbios = |kind: &Kind| kind.settings.as_ref().and_then(|of| of.vbios.clone());
        let ecc = |kind: &Kind| ecc(kind).map(|on| if on { "on" } else { "off" });
        let all = [
            difference("units", Some(here.units), Some(there.units)),
            difference("memory", Some(here.memory), Some(there.memory)),
            difference("a stated clock of", here.clock, there.clock),
            difference("PCI id", here.pci_id.as_ref(), there.pci_id.as_ref()),
            difference("power limit", limit(self), limit(other)),
            difference("ECC", ecc(self), ecc(other)),
            difference("clocks locked to", locks(self), locks(other)),
            difference("firmware", vbios(self), vbios(other)),
            difference("driver", self.driver.as_ref(), other.driver.as_ref()),
            difference("PCIe lanes in use", self.pcie_width, other.pcie_width),
            difference("links up", self.links, other.links),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        match all.is_empty() {
            true => vec!["other caches, instruction sets or peaks".into()],
            false => all,
        }
    }
}

/// `power limit 500.0 W (700.0 W there)`, where the two differ.
fn difference<T: Display + PartialEq>(
    what: &str,
    here: Option<T>,
    there: Option<T>,
) -> Option<String> {
    let told = |value: &Option<T>| value.as_ref().map_or("unknown".into(), T::to_string);
    (here != there).then(|| format!("{what} {} ({} there)", told(&here), told(&there)))
}

/// Devices that are equal.
struct Group {
    /// Ascending.
    ordinals: Vec<u32>,
    kind: Kind,
    /// Of the first of them.
    described: Vec<Block>,
}

impl Group {
    /// `cuda:0-6,8`.
    fn names(&self) -> String {
        format!("{}:{}", self.kind.properties.backend, ranges(&self.ordinals))
    }

    /// `8 x NVIDIA H100 80GB HBM3 (cuda:0-7)`; of one device `cuda:0 NVIDIA H100 80GB HBM3`.
    fn heading(&self) -> String {
        let name = &self.kind.properties.name;
        match self.ordinals.len() {
            1 => format!("{} {name}", self.names()),
            count => format!("{count} x {name} ({})", self.names()),
        }
    }
}

/// Ascending numbers as ranges: `0-6,8`.
fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
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

/// Which figures of a row no vendor's text confirms; "others" where the file has more of them.
fn unconfirmed(part: &Part) -> Cell {
    let name = |field: &String| match field.as_str() {
        "units" => "units",
        "peak" | "peak.bf16_matrix" => "bf16",
        "peak.fp8_matrix" => "fp8",
        link if link.starts_with("link") => "link",
        memory if memory.starts_with("memory") || memory.starts_with("bandwidth") => "memory",
        _ => "others",
    };
    let all: BTreeSet<&str> = part.unverified.iter().chain(&part.measured).map(name).collect();
    let (others, mut names): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|n| *n == "others");
    names.extend(others);
    if names.is_empty() { Cell::Absent } else { Cell::Text(names.join(", ")) }
}

/// The catalogue.
fn parts(parts: &[Part]) -> Table {
    let row = |part: &Part| {
        vec![
            Cell::Code(part.id.clone()),
            part.units.map_or(Cell::Absent, |units| Cell::Count(u64::from(units))),
            part.memory_bandwidth.map_or(Cell::Absent, Cell::Bandwidth),
            peak(part, Dtype::Bf16),
            peak(part, Dtype::Fp8),
            part.link_bandwidth.map_or(Cell::Absent, Cell::Bandwidth),
            unconfirmed(part),
            Cell::Text(part.name.clone()),
            Cell::Count(part.sources as u64),
        ]
    };
    Table {
        name: "parts".into(),
        title: "Known parts".into(),
        columns: vec![
            column("id", "id"),
            column("units", "units"),
            column("memory_bytes_per_second", "memory"),
            column("bf16_flops_per_second", "bf16"),
            column("fp8_flops_per_second", "fp8"),
            column("link_bytes_per_second", "link, one way"),
            column("not_confirmed", "not confirmed"),
            Column { key: "name", title: "name", weight: Weight::Useful },
            Column { key: "sources", title: "sources", weight: Weight::Useful },
        ],
        rows: parts.iter().map(row).collect(),
    }
}

/// Peaks of parts that no native kernel reaches, and why: parts that say the same in one note.
fn lacking_kernels(parts: &[Part]) -> impl Iterator<Item = Block> {
    let mut parts_by_words: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for part in parts {
        for words in part.lacking_kernels(None) {
            parts_by_words.entry(words).or_default().push(&part.id);
        }
    }
    let note =
        |(words, ids): (String, Vec<&str>)| Block::Note(format!("{}: {words}", ids.join(", ")));
    parts_by_words.into_iter().map(note)
}

/// One device: what it is, its caches, and its peaks at the clock it has now.
fn describe(
    properties: &Properties,
    device: &dyn Device,
    found: &Match<'_>,
) -> anyhow::Result<Vec<Block>> {
    let clock = device.observe_clock()?;
    let mut blocks = vec![Block::Text(sentence(properties, clock))];
    let part = match found {
        Match::One(part) => {
            blocks.extend(contradictions(properties, part).into_iter().map(Block::Warning));
            let mut text = format!("Part: {} ({}).", part.name, part.id);
            if !part.unverified.is_empty() {
                text += &format!(" Not confirmed by a vendor: {}.", part.unverified.join(", "));
            }
            if !part.measured.is_empty() {
                text += &format!(
                    " A draft: measured, and no limit until a vendor's text confirms it: {}.",
                    part.measured.join(", ")
                );
            }
            blocks.push(Block::Text(text));
            blocks.extend(part.lacking_kernels(None).into_iter().map(Block::Note));
            Some(*part)
        }
        Match::Ambiguous(parts) => {
            let names: Vec<&str> = parts.iter().map(|part| part.id.as_str()).collect();
            let names = names.join(", ");
            blocks.push(Block::Note(format!(
                "it could be any of {names}: the best number of each is its limit, and no share of \
                 a datasheet is printed"
            )));
            None
        }
        Match::None => {
            blocks.push(Block::Note(
                "no part of the catalogue: peaks come from its properties, as far as they go; a \
                 file of the part states them, by --data (docs/adding.md)"
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
        let own = counted(properties.units as usize, "unit");
        said.push(format!("{own} where the part has {units}"));
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
    let mut text = format!("{}, {memory} of memory", counted(properties.units as usize, "unit"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use fizeau_domain::units::{Bytes, Watts};

    fn kind(power: f64, memory: u64) -> Kind {
        let properties = Properties {
            backend: "cuda".into(),
            name: "H100".into(),
            memory: Bytes(memory),
            ..Properties::default()
        };
        let settings =
            DeviceSettings { power_limit: Some(Watts(power)), ..DeviceSettings::default() };
        let (driver, pcie_width, links) = (None, Some(16), None);
        Kind { properties, settings: Some(settings), driver, pcie_width, links }
    }

    #[test]
    fn equal_devices_are_named_once() {
        let group = |ordinals: &[u32]| Group {
            ordinals: ordinals.to_vec(),
            kind: kind(700.0, 80 << 30),
            described: Vec::new(),
        };
        assert_eq!(group(&[3]).heading(), "cuda:3 H100");
        assert_eq!(group(&[0, 1, 2, 3]).heading(), "4 x H100 (cuda:0-3)");
        assert_eq!(group(&[0, 1, 2, 5, 7, 8]).heading(), "6 x H100 (cuda:0-2,5,7-8)");
    }

    #[test]
    fn what_differs_is_said() {
        let (one, other) = (kind(700.0, 80 << 30), kind(500.0, 80 << 30));
        assert_eq!(other.differences(&one), ["power limit 500.0 W (700.0 W there)"]);
        let lanes = Kind { pcie_width: Some(8), ..one.clone() };
        assert_eq!(lanes.differences(&one), ["PCIe lanes in use 8 (16 there)"]);
    }
}
